"""A pod that is equal to a refused one is refused without calling plugins, until the state changes in what matters."""

import random

import pytest

from bayplan.core.api.kinds import SERVICE
from bayplan.core.api.objects import convert
from bayplan.core.framework.calling import call
from bayplan.core.framework.interface import Plugin, PostFilterResult
from bayplan.core.framework.profile import Point
from bayplan.core.framework.status import Status
from bayplan.core.scheduling import Decision, decide
from bayplan.core.sharing import Sharing
from bayplan.testing.builders import make_cluster, make_node, make_pod

SPREAD = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
    ]
}


class Decider:
    """Decides pods with shared results. `calls`: the calls of plugins since they were last cleared."""

    def __init__(self, *nodes, plugins=()) -> None:
        self.cluster = make_cluster(*nodes)
        self.state = self.cluster.state
        self.profile = self.cluster.profile
        if plugins:
            self.profile = self.profile.with_plugins({Point.POST_FILTER: plugins})
        self.sharing = Sharing(self.profile)
        self.calls: list[tuple[str, str]] = []

    def decide(self, pod, rng=None) -> Decision:
        def recorded(plugin, point, method, /, *arguments):
            self.calls.append((plugin.name, point))
            return call(plugin, point, method, *arguments)

        self.calls.clear()
        rng = rng or random.Random(1)
        return decide(self.profile, self.state, pod, rng, start=self.sharing.start, call=recorded)

    def refuse_two(self, make=lambda name: make_pod(name, cpu="8")) -> Decision:
        """The first pod of a signature is decided alone, and the second one makes what is shared."""
        return [self.decide(make(name)) for name in ("first", "second")][-1]


@pytest.fixture
def decider() -> Decider:
    return Decider(make_node("node-0", cpu="4", labels={"zone": "a"}), make_node("node-1", cpu="4"))


def test_an_equal_pod_shares_the_refusal(decider) -> None:
    earlier = decider.refuse_two()
    decision = decider.decide(make_pod("third", cpu="8"))
    assert decider.calls == []
    assert decision.pod.name == "third"
    assert (decision.message, decision.alike) == (earlier.message, earlier.alike)
    assert decision.diagnosis.unschedulable_plugins == {"NodeResourcesFit"}


def test_pods_with_terms_of_their_own_share_refusals(decider) -> None:
    decider.state.set_pod(make_pod("web", labels={"app": "web"}, node="node-0"))

    def spreading(name: str, app: str = "web"):
        return make_pod(name, labels={"app": app}, spec={**SPREAD, "nodeSelector": {"zone": "b"}})

    earlier = decider.refuse_two(spreading)
    assert decider.decide(spreading("third")).message == earlier.message
    assert decider.calls == []
    decider.decide(spreading("other labels", app="db"))
    assert decider.calls


@pytest.mark.parametrize(
    "pod",
    [
        make_pod("other request", cpu="9"),
        make_pod("other priority", cpu="8", priority=1),
        make_pod("never preempts", cpu="8", spec={"preemptionPolicy": "Never"}),
    ],
    ids=lambda pod: pod.name,
)
def test_another_pod_does_not(decider, pod) -> None:
    decider.refuse_two()
    decider.decide(pod)
    assert decider.calls


def test_a_nominated_pod_does_not(decider) -> None:
    decider.refuse_two()
    pod = make_pod("third", cpu="8")
    decider.state.nominations.add(pod, "node-0")
    decider.decide(pod)
    assert ("DefaultPreemption", "PostFilter") in decider.calls


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state.set_pod(make_pod("new", cpu="1", node="node-0", priority=-1)),
        lambda state: state.nominations.add(make_pod("nominated"), "node-0"),
        lambda state: state.objects[SERVICE].set("default/new", convert(SERVICE.type, {"metadata": {"name": "new"}})),
    ],
    ids=["a pod that may be evicted", "a nomination", "an object"],
)
def test_a_change_of_the_state_ends_it(decider, change) -> None:
    decider.state.set_pod(make_pod("old", node="node-1"))
    decider.refuse_two()
    change(decider.state)
    decider.decide(make_pod("third", cpu="8"))
    assert ("DefaultPreemption", "PostFilter") in decider.calls


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state.set_pod(make_pod("new", cpu="1", node="node-0")),
        lambda state: state.set_pod(make_pod("old", node="node-1", status={"phase": "Running"})),
        lambda state: state.remove_pod(make_pod("old").uid),
    ],
    ids=["a pod is bound", "a pod is replaced", "a pod ends"],
)
def test_pods_that_come_and_go_without_making_room_do_not_end_it(decider, change) -> None:
    """The decision and the random numbers that follow are as without sharing."""
    decider.state.set_pod(make_pod("old", node="node-1"))
    decider.refuse_two()
    change(decider.state)
    for name in ("third", "fourth"):
        pod, ours, plain = make_pod(name, cpu="8"), random.Random(7), random.Random(7)
        decision = decider.decide(pod, ours)
        assert ("DefaultPreemption", "PostFilter") not in decider.calls
        assert decision.message == decide(decider.cluster.profile, decider.state, pod, plain).message
        assert name == "fourth" or ours.random() == plain.random()


def test_a_plugin_that_does_not_tell_is_asked_again(decider) -> None:
    class Hopeful(Plugin):
        name = "Hopeful"

        def sign(self, pod):
            return ()

        def post_filter(self, cycle, pod, diagnosis, what_if):
            return PostFilterResult(Status.unschedulable("not yet"))

    decider = Decider(make_node("node-0", cpu="4"), plugins=[Hopeful()])
    decider.refuse_two()
    decider.state.set_pod(make_pod("new", cpu="1", node="node-0"))
    decider.decide(make_pod("third", cpu="8"))
    assert ("Hopeful", "PostFilter") in decider.calls


def test_room_for_the_pod_ends_it(decider) -> None:
    decider.refuse_two()
    decider.state.set_node(make_node("node-2", cpu="8"))
    assert decider.decide(make_pod("third", cpu="8")).node == "node-2"


def test_shared_rows_of_one_node_are_refreshed(decider) -> None:
    """A change of the only row costs one row, as in a large cluster: PreFilter isn't run again."""
    decider = Decider(make_node("node-0", cpu="4"))
    for number in range(4):
        decision = decider.decide(make_pod(f"p-{number}", cpu="1"))
        assert decision.node == "node-0"
        decider.state.assume(decision.pod, decision.node)
    assert ("NodeResourcesFit", "Filter") in decider.calls
    assert not [point for _, point in decider.calls if point in {"PreFilter", "PreScore"}]
