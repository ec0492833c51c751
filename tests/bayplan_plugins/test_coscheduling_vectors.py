"""The tables of upstream's tests of Coscheduling and of its controller."""

from datetime import timedelta

from msgspec import structs
from tests.support.tables import cases
from tests.support.vectors import vectors

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.api.kinds import POD, kind_of
from bayplan.plugin import POD_GROUP_LABEL, POD_GROUPS, CustomObject, CycleState, Diagnosis, Status, Wait
from bayplan.testing import make_cluster, make_node, make_pod
from bayplan.testing.builders import CREATED
from bayplan_plugins.coscheduling.arguments import CoschedulingArgs
from bayplan_plugins.coscheduling.plugin import Coscheduling
from bayplan_plugins.coscheduling.status import next_status


def table(*names):
    found = {name: vectors("coscheduling", name) for name in names}
    return {f"{name} {case}": values for name, each in found.items() for case, values in each.items()}


def group(name, least, *, namespace="ns", created=0, **spec):
    at = (CREATED + timedelta(seconds=created)).isoformat()
    metadata = {"name": name, "namespace": namespace, "creationTimestamp": at}
    return CustomObject(metadata=metadata, spec={"minMember": least, **spec})


def member(name, of="pg1", namespace="ns", **fields):
    return make_pod(name, namespace=namespace, labels={POD_GROUP_LABEL: of} if of else {}, **fields)


def staged(groups, *pods, nodes=("4", "4"), **arguments):
    """The plugin and the nodes of a cluster."""
    cluster = make_cluster(*(make_node(f"n{number}", cpu=cpu) for number, cpu in enumerate(nodes)), *pods)
    for each in groups:
        key = f"{each['metadata']['namespace']}/{each['metadata']['name']}"
        cluster.state.objects[kind_of(POD_GROUPS)].set(key, each)
    for each in pods:
        cluster.state.objects[POD].set(each.key, each)
    return Coscheduling(OfflineHandle(cluster.state), CoschedulingArgs(**arguments)), cluster.state.nodes


def gates(gated):
    return {"spec": {"schedulingGates": [{"name": "example-gate"}]}} if gated else {}


@cases("case", table("TestPreFilter"))
def test_pre_filter(case):
    spec = {"minResources": {"cpu": str(case["cpu"])}} if "cpu" in case else {}
    groups = [group(name, least, **spec) for name, least in case["groups"].items()]
    pod = member("p", case.get("pod", "pg1"))
    others = [
        member(f"p{each}", one.get("of", "pg1"), **gates(one.get("gated"))) for each, one in enumerate(case["others"])
    ]
    plugin, nodes = staged(groups, pod, *others)
    assert (plugin.pre_filter(CycleState(), pod, nodes) is None) is case["passes"]


@cases("case", table("TestCheckClusterResource"))
def test_resources_of_the_cluster(case):
    used = [
        member(f"u{each}", of, node=f"n{each}", requests={"cpu": str(cpu)})
        for each, (of, cpu) in enumerate(case["used"])
    ]
    pod = member("p")
    plugin, nodes = staged([group("pg1", 1, minResources={"cpu": "4"})], pod, *used, nodes=("3", "3"))
    assert (plugin.pre_filter(CycleState(), pod, nodes) is None) is case["passes"]


@cases("case", table("TestPermitOfManager", "TestPermit"))
def test_permit(case):
    pod = member("p", case.get("pod", "pg1"))
    bound = [member(f"b{each}", node="n0") for each in range(case.get("bound", 0))]
    plugin, _ = staged([group(name, least) for name, least in case["groups"].items()], pod, *bound)
    answer = plugin.permit(CycleState(), pod, "n1")
    assert ("wait" if isinstance(answer, Wait) else answer or "success") == case["answer"]


@cases("case", table("TestPostFilter"))
def test_post_filter(case):
    pod = member("p", case.get("pod", "pg1"))
    bound = [member(f"b{each}", node="n0") for each in range(case.get("bound", 0))]
    plugin, _ = staged([group(name, least) for name, least in case["groups"].items()], pod, *bound)
    said = plugin.post_filter(CycleState(), pod, Diagnosis(2, absent=Status.unschedulable("full")), None).status.message
    message = "PodGroup ns/pg1 gets rejected due to Pod p is unschedulable even after PostFilter"
    assert said == (message if case["rejected"] else "")


@cases("case", table("TestPostFilterRejectThreshold"))
def test_the_percentage_that_rejects(case):
    pod, bound = member("p"), [member(f"b{each}", node="n0") for each in range(case["bound"])]
    plugin, _ = staged([group("pg1", 10)], pod, *bound, podGroupRejectPercentage=case["percentage"])
    result = plugin.post_filter(CycleState(), pod, Diagnosis(2, absent=Status.unschedulable("full")), None)
    assert ("gets rejected" in result.status.message) is case["rejected"]


def created_at(pod, seconds):
    metadata = structs.replace(pod.metadata, creationTimestamp=CREATED + timedelta(seconds=seconds))
    return type(pod)(structs.replace(pod.object, metadata=metadata))


@cases("case", table("TestLess"))
def test_order(case):
    groups = [group(name, 1, namespace=space, created=created) for space, name, created in case.get("groups", ())]
    pods = [
        created_at(member(f"p{number}", of, space, priority=priority), created)
        for number, (space, priority, of, created) in enumerate(case["pods"], 1)
    ]
    plugin, _ = staged(groups, *pods)
    first, second = (plugin.sort_key(each, 0.0) for each in pods)
    assert (first < second) is case["first"]


@cases("case", table("TestRunOfController"))
def test_phases(case):
    status = {"phase": case["before"]}
    for phases in case["phases"]:
        for _ in range(2):  # upstream counts pods one round after it has found them
            pods = [make_pod(f"p{each}", status={"phase": phase}).object for each, phase in enumerate(phases)]
            status = next_status(status, case["least"], pods, CREATED)
    assert status["phase"] == case["after"]


@cases("case", table("TestFillGroupStatusOccupied"))
def test_owners(case):
    pod = make_pod("p", owner=("v1", "Job", "one")).object
    owners = [structs.replace(pod.metadata.ownerReferences[0], name=name) for name in case["owners"]]
    pod.metadata.ownerReferences = owners
    assert next_status({}, 1, [pod], CREATED)["occupiedBy"] == case["occupied"]


def test_a_member_that_is_created_again_counts_with_those_that_have_finished():
    """Upstream, it waits for ever: pods that have succeeded aren't known to the scheduler."""
    pod, pod_group = member("again"), group("pg1", 3)
    plugin, nodes = staged([pod_group], pod)
    assert "cannot find enough sibling pods" in str(plugin.pre_filter(CycleState(), pod, nodes).message)
    plugin, nodes = staged([CustomObject({**pod_group, "status": {"succeeded": 2}})], pod)
    assert plugin.pre_filter(CycleState(), pod, nodes) is None
    assert plugin.permit(CycleState(), pod, "n0") is None
