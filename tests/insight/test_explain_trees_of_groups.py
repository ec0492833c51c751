"""Questions about the pods of a tree of groups: which level, which group and which pod is in the way."""

from pathlib import Path

import pytest
import yaml
from bayplan_documents import document
from tests.support.tables import cases

from bayplan.core.versions import gates_of, with_gangs
from bayplan.insight import Insight, Snapshot

BETA, ALPHA = "scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha3"


def node(name, cpu="2", **labels):
    room = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    made = document("Node", name, namespace="", status={"allocatable": room, "capacity": room})
    made["metadata"]["labels"] = {"kubernetes.io/hostname": name, **labels}
    return made


def above(name, least=2, parent=None, topology=None):
    return _group("CompositePodGroup", name, ALPHA, {"minGroupCount": least}, parent, topology)


def group(name, least, parent="job", topology=None):
    return _group("PodGroup", name, BETA, {"minCount": least}, parent, topology)


def _group(kind, name, version, gang, parent, topology):
    spec = {"schedulingPolicy": {"gang": gang}, "workloadRef": {"workloadName": "work", "templateName": name}}
    spec |= {"parentCompositePodGroupName": parent} if parent else {}
    spec |= {"schedulingConstraints": {"topology": [{"key": topology}]}} if topology else {}
    made = document(kind, name, version, spec=spec)
    made["metadata"]["uid"] = name
    return made


def pods(of, count, cpu="1"):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    fields = {"containers": [container], "schedulingGroup": {"podGroupName": of}}
    for number in range(count):
        made = document("Pod", f"{of}-{number}", spec=fields)
        made["metadata"]["uid"] = f"{of}-{number}"
        yield made


def job(workers=2):
    return [above("job"), group("driver", 1), group("workers", 2), *pods("driver", 1), *pods("workers", workers)]


def explain(*objects, pod="driver-0"):
    return Insight(Snapshot.of(objects)).explain(f"default/{pod}")


def test_the_group_and_the_pod_that_find_no_node_are_named():
    answer = explain(node("n1"), *job())

    assert answer.message.startswith(
        "gang job: 1 of 2 groups fit; the next one: gang workers: 1 of 2 members fit; the next one: 0/1 nodes are"
    )
    assert "workers-1 is the member that finds no node; what follows is about it" in answer.notes
    assert answer.notes[:2] == ("gang job: 2 groups, 2 needed", "gang driver: 0 pods placed, 1 more needed, 1 pending")
    assert [each.text for each in answer.help] == ["add a node like n1 -> n1-new"]


LACKING = {
    "pods": (
        job(workers=1),
        'waiting for composite pod group "job" tree to meet quorum',
        "1 of the 2 groups that CompositePodGroup default/job needs have the pods that they need; 1 more must get them",
        "gang job: 2 groups, 2 needed; too few pods exist for workers",
    ),
    "the group above": (
        [above("jobs"), *job()[1:]],
        'waiting for composite pod group "job" to appear in scheduling queue',
        "CompositePodGroup default/job does not exist; did you mean default/jobs?",
        "gang driver: 0 pods placed, 1 more needed, 1 pending",
    ),
    "a root": (
        [above("job", parent="team"), above("team", parent="job"), *job()[1:]],
        "composite pod groups are above themselves: driver -> job -> team -> job",
        "composite pod groups are above themselves: driver -> job -> team -> job",
        "gang driver: 0 pods placed, 1 more needed, 1 pending",
    ),
}


@cases("objects, message, gated, note", LACKING)
def test_what_a_tree_lacks(objects, message, gated, note):
    answer = explain(node("n1"), *objects)

    assert answer.message == message
    assert gated in answer.notes[0]
    assert note in answer.notes


def test_the_domains_of_each_level_are_compared():
    nodes = [node(name, cpu, block=name[0], rack=name) for name, cpu in (("a1", "1"), ("b1", "2"), ("b2", "1"))]
    groups = [above("job", topology="block"), group("one", 2, topology="rack"), group("two", 2, topology="rack")]

    answer = explain(*nodes, *groups, *pods("one", 2), *pods("two", 2), pod="two-0")

    notes = "\n".join(answer.notes)
    of_job = "gang job must be placed on nodes with the same block: b has room for 1 of 2 groups, a has room for 0 of 2"
    of_two = "gang two must be placed on nodes with the same rack: b2 has room for 1 of 2 members, b1 has room for 0"
    assert of_job in notes
    assert of_two in notes


def test_a_tree_is_placed_by_fit():
    empty = [node("n1", "3"), above("other")]
    assert Insight(Snapshot.of(empty)).fit(job()).fits
    assert not Insight(Snapshot.of([node("n1"), above("other")])).fit(job()).fits


def test_when_all_groups_of_a_tree_start():
    insight = Insight(Snapshot.of([node("n1", "3"), above("team", 1), above("job", parent="team"), *job()[1:]]))
    assert [insight.when(f"compositepodgroup/{name}").pods for name in ("team", "job")] == [3, 3]


@pytest.mark.parametrize("ends", [True, False])
def test_a_tree_starts_when_there_is_room_for_all_of_its_groups(ends):
    running = document("Pod", "old", spec={"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]})
    running["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    running["status"] = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
    if ends:
        running["spec"]["activeDeadlineSeconds"] = 3600
    objects = [node("n1", "3"), running, *job()]
    answer = Insight(Snapshot.of(objects)).when("default/workers-1")
    assert answer.never == (0.0 if ends else 1.0)


EXAMPLE = Path(__file__).parents[2] / "examples" / "composite-pod-groups" / "jobset.yaml"
RACK, ZONE = "topology.example.com/rack", "topology.kubernetes.io/zone"


@cases(
    "cpus, zone",
    {
        "room in both zones": ({"a1": 2, "a2": 4, "b1": 6, "b2": 6}, None),
        "one zone has racks for all jobs": ({"a1": 1, "a2": 5, "b1": 4, "b2": 2}, "b"),
        "jobs of both zones together": ({"a1": 2, "a2": 3, "b1": 1, "b2": 2}, ""),
    },
)
def test_the_example_of_a_jobset(cpus, zone):
    """The pods of each Job share a rack, and all of them a zone."""
    nodes = [node(name, str(cpu), **{ZONE: name[0], RACK: name}) for name, cpu in cpus.items()]
    asked = Insight(Snapshot.of(nodes), gates=with_gangs(gates_of("1.37")))
    answer = asked.fit(list(yaml.safe_load_all(EXAMPLE.read_text(encoding="utf-8"))))
    placed = {each.pod: each.node for each in answer.pods if each.outcome == "placed"}
    assert answer.fits is (zone != "")
    assert len(placed) == (0 if zone == "" else 6)
    jobs = {job: {node for pod, node in placed.items() if f"train-{job}-" in pod} for job in ("learner-0", "worker-0")}
    assert all(len(racks) == (zone != "") for racks in jobs.values())
    assert {node[0] for node in placed.values()} <= ({zone} if zone else {"a", "b"})
    assert len({node[0] for node in placed.values()}) == (zone != "")
