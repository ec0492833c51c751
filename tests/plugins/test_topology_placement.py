"""Placements of PodGroups. Cases of topology_placement_test.go."""

from tests.support.tables import cases

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.api.custom_objects import CustomObject
from bayplan.core.api.kinds import NODE, POD, custom_kind
from bayplan.core.api.pod_groups import POD_GROUPS
from bayplan.core.framework.events import Hint
from bayplan.core.framework.gangs import Gang
from bayplan.core.framework.status import Code
from bayplan.core.plugins.topology_placement import TopologyPlacementGenerator
from bayplan.testing.builders import make_cluster, make_node, make_pod


def labelled(name, key="rack", value=None):
    return make_node(name, labels={} if value is None else {key: value})


def group(key="rack"):
    constraints = {"schedulingConstraints": {"topology": [{"key": key}]}} if key else {}
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, **constraints}
    return CustomObject(metadata={"name": "red", "namespace": "default"}, spec=spec)


class Stage:
    def __init__(self, pod_group, *nodes):
        self.state = make_cluster(*nodes).state
        if pod_group is not None:
            self.state.objects[custom_kind(POD_GROUPS)].set("default/red", pod_group)
        self.plugin = TopologyPlacementGenerator(OfflineHandle(self.state))

    def placements(self, *nodes_taken, of="default/red"):
        gang = Gang("red", (), 2, len(nodes_taken), nodes=nodes_taken, pod_group=of)
        found = self.plugin.generate_placements(gang, self.state.nodes)
        if not isinstance(found, list):
            return found
        return {each.name: [each.nodes.name(at) for at in range(len(each.nodes))] for each in found}


RACKS = [labelled("a", value="r1"), labelled("b", value="r2"), labelled("c", value="r1"), labelled("d")]
CASES = {
    "no constraint": (group(key=""), RACKS, [], None),
    "one placement for each domain": (group(), RACKS, [], {"r1": ["a", "c"], "r2": ["b"]}),
    "no node has the label": (group(key="zone"), RACKS, [], {}),
    "the domain of pods on nodes already": (group(), RACKS, ["c"], {"r1": ["a", "c"]}),
    "pods on several nodes of one domain": (group(), RACKS, ["a", "c"], {"r1": ["a", "c"]}),
    "domain with an empty name": (group(), [labelled("a", value="")], [], {"": ["a"]}),
    "missing group": (None, RACKS, [], None),
}


@cases("pod_group, nodes, taken, placements", CASES)
def test_placements(pod_group, nodes, taken, placements):
    assert Stage(pod_group, *nodes).placements(*taken) == placements


def test_other_gangs_have_no_placements():
    assert Stage(group(), *RACKS).placements(of="") is None


UNDETERMINED = {
    "in conflicting domains": (["a", "b"], "more than 1 domain found for pod group: r1, r2"),
    "on a deleted node": (["x"], "no topology domain found for pods on node x"),
    "on a node without the label": (["d"], "no topology domain found for pods on node d"),
}


@cases("taken, why", UNDETERMINED)
def test_pods_on_nodes_already(taken, why):
    status = Stage(group(), *RACKS).placements(*taken)
    assert (status.code, status.message) == (Code.ERROR, f"cannot determine domain for already scheduled pods: {why}")


def test_deleted_nodes_are_in_no_domain():
    stage = Stage(group(), *RACKS)
    stage.state.remove_node("b")
    assert stage.placements() == {"r1": ["a", "c"]}


def member(name="m", of="red", **fields):
    return make_pod(name, spec={"schedulingGroup": {"podGroupName": of}}, **fields)


NODES = {
    "new, with the label": (None, labelled("n", value="r1"), Hint.QUEUE),
    "new, without the label": (None, labelled("n"), Hint.SKIP),
    "gets the label": (labelled("n"), labelled("n", value="r1"), Hint.QUEUE),
    "moves to another domain": (labelled("n", value="r2"), labelled("n", value="r1"), Hint.QUEUE),
    "loses the label": (labelled("n", value="r2"), labelled("n"), Hint.SKIP),
    "label unchanged": (labelled("n", value="r1"), labelled("n", value="r1"), Hint.SKIP),
}


@cases("old, new, hint", NODES)
def test_hint_after_a_node_change(old, new, hint):
    plugin = Stage(group()).plugin
    assert plugin.after_node_change(member(), old, new) is hint
    assert plugin.after_node_change(member(of="blue"), old, new) is Hint.SKIP


def test_hint_after_deletion_of_a_member():
    plugin = Stage(group()).plugin
    assert plugin.after_pod_deletion(member(), member("other"), None) is Hint.QUEUE
    assert plugin.after_pod_deletion(member(), member("other", "blue"), None) is Hint.SKIP
    assert plugin.after_pod_deletion(make_pod("p"), make_pod("q"), None) is Hint.SKIP
    assert [hint.event.resource for hint in plugin.events()] == [NODE.kind, POD.kind]
