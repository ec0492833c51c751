"""Plugins of users explain their rejections, and nothing that they do wrong there costs the answer."""

import pytest
from bayplan_documents import document

from bayplan import Plugin, filter_plugin
from bayplan.core.framework.checks import check_plugin
from bayplan.core.framework.functions import InvalidPlugin
from bayplan.insight import Insight, Snapshot
from bayplan.plugin import Details, Remedy, delete_pods, remove_label

TIER = "example.com/tier"


def node(name, labels=None):
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    made = document("Node", name, namespace="", status={"allocatable": room, "capacity": room})
    made["metadata"]["labels"] = {"kubernetes.io/hostname": name, **(labels or {})}
    return made


def pod(name, on=None, **spec):
    made = document("Pod", name, spec={"containers": [{"name": "c", "image": "i"}], **spec})
    made["metadata"] |= {"uid": name}
    if on:
        made["spec"]["nodeName"] = on
    return made


def explain(plugin, *objects):
    return Insight(Snapshot.of(objects), plugins=[plugin]).explain("default/new")


def test_policy_of_ten_lines_names_the_label_to_remove():
    @filter_plugin(explain=lambda pod, node: Details(f"{node.name} is taken", [remove_label(node, TIER)]))
    def tier(pod, node):
        return "node is reserved" if node.labels.get(TIER) == "control" else None

    answer = explain(tier, node("main", {TIER: "control"}), pod("new"))

    assert answer.nearest[0].blockers == ("main is taken",)
    assert answer.help[0].change.text == f"remove the label {TIER}=control from main"


class Alone(Plugin):
    """One pod on a node."""

    name = "Alone"

    def filter(self, cycle, pod, node):
        return "another pod is there" if node.pods else None

    def explain(self, cycle, pod, node):
        return Details(remedies=delete_pods(pod, node.pods))


def test_pods_that_are_in_the_way_are_deleted_in_the_try():
    answer = explain(Alone, node("n1"), pod("old", on="n1"), pod("new"))

    assert "delete pod default/old on n1" in [each.change.text for each in answer.help]


class Approval(Plugin):
    """Pods with an annotation only."""

    name = "Approval"

    def pre_enqueue(self, pod):
        return None if pod.annotations.get("ok") else "waits for approval"

    def explain(self, cycle, pod, node):
        assert node is None
        return Details(remedies=[Remedy("annotate the pod with ok=1", pod=self.approve)])

    def approve(self, document):
        document["metadata"]["annotations"] = {"ok": "1"}


def test_plugin_that_gates_the_pod_is_asked_without_a_node():
    answer = explain(Approval, node("n1", {TIER: "x"}), pod("new", nodeSelector={TIER: "y"}))

    assert f"annotate the pod with ok=1 and remove {TIER}=y from the pod's nodeSelector" in [
        each.change.text for each in answer.help
    ]


class Broken(Plugin):
    """Rejects all nodes, and fails when it is asked why."""

    name = "Broken"

    def filter(self, cycle, pod, node):
        return "no"

    def explain(self, cycle, pod, node):
        return self.fault()

    def fault(self):
        raise KeyError("tier")


class BrokenRemedies(Broken):
    """Fails while its remedies are read, or made."""

    def fault(self):
        def remedies():
            yield Remedy("break", pod=lambda document: document["no such field"])
            raise KeyError("tier")

        return Details("details", remedies())


class NotDetails(Broken):
    """Returns something else."""

    def fault(self):
        return "because"


class UnhashableKind(Broken):
    """Gives a list as the kind of its rejection."""

    def fault(self):
        return Details("kind of a list", kind=[])


@pytest.mark.parametrize(
    ("plugin", "text"),
    [
        (UnhashableKind, "kind of a list"),
        (Broken, "no (plugin Broken failed in Explain: KeyError: 'tier')"),
        (BrokenRemedies, "details"),
        (NotDetails, "no"),
    ],
)
def test_plugin_that_fails_to_explain_costs_only_its_details(plugin, text, capfd):
    answer = explain(plugin, node("n1"), pod("new"))

    assert answer.outcome == "pending"
    assert answer.nearest[0].blockers[0].startswith(text)
    assert capfd.readouterr().err == ""


def test_method_with_the_wrong_signature_is_reported():
    class Wrong(Plugin):
        name = "Wrong"

        def filter(self, cycle, pod, node):
            return None

        def explain(self, pod):
            return None

    with pytest.raises(InvalidPlugin, match=r"explain is called with \(cycle, pod, node\)"):
        check_plugin(Wrong)
