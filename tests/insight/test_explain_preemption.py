"""Evictions in answers: what the PostFilter plugins of the pod's profile say, and nothing where none is called."""

import pytest
from tests.support.tables import cases

from bayplan.core.config import parse_configuration
from bayplan.core.framework.interface import FailedPreemption, Plugin, PostFilterResult
from bayplan.core.framework.status import Code, Status
from bayplan.core.plugins.default_preemption.plugin import DefaultPreemption
from bayplan.insight import Insight, Snapshot

VERSION = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
OFF = {"disabled": [{"name": "DefaultPreemption"}]}
TRIED = "without 1 pod of lower priority: Insufficient cpu"


def node(name, cpu="2"):
    room = {"cpu": cpu, "memory": "4Gi", "pods": "10"}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"allocatable": room}}


def pod(name, cpu="1", **spec):
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, "namespace": "default", "uid": name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


def classes(*values):
    group = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return [{**group, "metadata": {"name": f"class-{value}"}, "value": value} for value in values]


CLUSTER = [node("a"), pod("low", nodeName="a", priority=1), pod("high", nodeName="a", priority=200)]


def asked(*plugins, profiles=({},), big=None):
    """Questions about a pod that doesn't fit, although one of two pods on the only node could be evicted."""
    configuration = parse_configuration({**VERSION, "profiles": list(profiles)})
    wanted = pod("big", "2", **{"priority": 100, **(big or {})})
    return Insight(Snapshot.of([*CLUSTER, wanted, *classes(150, 300)]), configuration, list(plugins))


def only(*names, off=OFF):
    return {"plugins": {"multiPoint": {**off, "enabled": [{"name": name} for name in names]}}}


def post_filters(*names):
    return {"plugins": {"postFilter": {"disabled": [{"name": "*"}], "enabled": [{"name": name} for name in names]}}}


class Inherits(DefaultPreemption):
    name = "Inherits"


class Otherwise(DefaultPreemption):
    name = "Otherwise"

    def post_filter(self, cycle, pod, diagnosis, what_if):
        return PostFilterResult(Status.unschedulable("not on Sundays"))


class Silent(Plugin):
    """Evicts pods of lower priority if all of them are of lower priority, and says nothing about it."""

    name = "Silent"

    def __init__(self, handle):
        self.handle = handle

    def post_filter(self, cycle, pod, diagnosis, what_if):
        there = list(self.handle.nodes.pods(0))
        if all(each.priority < pod.priority for each in there):
            return PostFilterResult(Status(Code.SUCCESS), self.handle.nodes.name(0), tuple(there))
        return PostFilterResult(Status.unschedulable("some are more important"))


class Tells(Silent):
    name = "Tells"

    def explain_post_filter(self, cycle, pod, diagnosis, what_if):
        return [FailedPreemption("a", 2, ("it is Sunday",))]


class Fails(Tells):
    name = "Fails"

    def explain_post_filter(self, cycle, pod, diagnosis, what_if):
        yield FailedPreemption("a", 2, ("it is Sunday",))
        raise ValueError("odd")


class Odd(Tells):
    name = "Odd"

    def explain_post_filter(self, cycle, pod, diagnosis, what_if):
        return "a"


class Ends(Plugin):
    """No PostFilter plugin is called after it."""

    name = "Ends"

    def post_filter(self, cycle, pod, diagnosis, what_if):
        return PostFilterResult(Status.unresolvable("nobody else is asked"))


CASES = {
    "the default profile": ((), {}, [TRIED]),
    "preemption is off": ((), only(), []),
    "only PostFilter is off": ((), post_filters(), []),
    "a subclass in place of it": ((Inherits,), only("Inherits"), [TRIED]),
    "a subclass that decides otherwise": ((Otherwise,), only("Otherwise"), []),
    "a subclass that decides otherwise beside it": ((Otherwise,), only("Otherwise", off={}), [TRIED]),
    "a plugin that says nothing, in place of it": ((Silent,), only("Silent"), []),
    "a plugin that says nothing, beside it": ((Silent,), only("Silent", off={}), [TRIED]),
    "a plugin that says more, in place of it": (
        (Tells,),
        only("Tells"),
        ["without 2 pods of lower priority: it is Sunday"],
    ),
    "a plugin that says more, beside it": (
        (Tells,),
        only("Tells", off={}),
        [TRIED, "without 2 pods of lower priority: it is Sunday"],
    ),
    "a plugin that fails": ((Fails,), only("Fails", off={}), [TRIED]),
    "a plugin that says something odd": ((Odd,), only("Odd", off={}), [TRIED]),
    "a plugin that ends PostFilter": (
        (Ends,),
        {
            "plugins": {
                "postFilter": {
                    "disabled": [{"name": "*"}],
                    "enabled": [{"name": "Ends"}, {"name": "DefaultPreemption"}],
                }
            }
        },
        [],
    ),
    "a plugin behind it": (
        (Ends,),
        {
            "plugins": {
                "postFilter": {
                    "disabled": [{"name": "*"}],
                    "enabled": [{"name": "DefaultPreemption"}, {"name": "Ends"}],
                }
            }
        },
        [TRIED],
    ),
}


@cases("plugins, profile, tried", CASES)
def test_answers_have_what_the_called_plugins_say(plugins, profile, tried):
    insight = asked(*plugins, profiles=[profile])
    answer = insight.explain("default/big")
    assert answer.outcome == "pending"
    assert sorted(each.text for each in answer.preemption) == sorted(tried)
    there = insight.why_not("default/big", "a").preemption
    assert there in (tried or [""])


def test_each_profile_has_its_own_plugins():
    profiles = [{"schedulerName": "default-scheduler"}, {"schedulerName": "mild", **only()}]
    by_name = {name: asked(profiles=profiles, big={"schedulerName": name}) for name in ("default-scheduler", "mild")}
    found = {name: [each.text for each in each.explain("default/big").preemption] for name, each in by_name.items()}
    assert found == {"default-scheduler": [TRIED], "mild": []}


def test_pod_that_must_not_preempt_is_not_tried():
    assert asked(big={"preemptionPolicy": "Never"}).explain("default/big").preemption == ()


@pytest.mark.parametrize(
    ("plugins", "profile", "helps"),
    [
        ((), {}, True),
        ((), only(), False),
        ((Inherits,), only("Inherits"), True),
        ((Otherwise,), only("Otherwise"), False),
        ((Silent,), only("Silent"), True),
        ((Tells,), only("Tells"), True),
    ],
)
def test_class_that_would_preempt_is_that_of_these_plugins(plugins, profile, helps):
    found = asked(*plugins, profiles=[profile]).explain("default/big").help
    assert ("give the pod the priority class class-300" in [each.change.text for each in found]) is helps
