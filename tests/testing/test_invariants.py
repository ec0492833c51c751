import itertools

import pytest
from tests.support.invariants import check_invariants, waiting_or_bound

from bayplan.core.api.kinds import EVENT, NODE, POD
from bayplan.testing.observer import Observer

OURS = "bayplan"
VERSIONS = itertools.count(1)
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}


def pod(name, node=None, cpu="1", *, port=None, scheduler=OURS, phase="Pending", condition=None, uid=None):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    if port:
        container["ports"] = [{"containerPort": port, "hostPort": port}]
    spec = {"schedulerName": scheduler, "containers": [container]}
    if node:
        spec["nodeName"] = node
    metadata = {"name": name, "namespace": "d", "uid": uid or f"uid-{name}", "resourceVersion": str(next(VERSIONS))}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase, "conditions": condition and [condition]}}


def claiming(document, resource):
    """With an extended resource that a claim gives."""
    (container,) = document["spec"]["containers"]
    container["resources"]["requests"][resource] = "1"
    mapping = {"containerName": "c", "resourceName": resource, "requestName": "r"}
    document["status"]["extendedResourceClaimStatus"] = {"resourceClaimName": "e", "requestMappings": [mapping]}
    return document


def node(name, cpu="2", pods="10"):
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(next(VERSIONS))}
    return {"metadata": metadata, "status": {"allocatable": {"cpu": cpu, "pods": pods}}}


def event(name, note, reason="Scheduled"):
    metadata = {"name": f"{name}.{next(VERSIONS)}", "namespace": "d", "uid": f"uid-{name}", "resourceVersion": "1"}
    regarding = {"namespace": "d", "name": name, "uid": f"uid-{name}"}
    return {
        "metadata": metadata, "regarding": regarding, "reason": reason, "note": note, "reportingController": OURS
    }  # fmt: skip


def observer_of(pods=(), nodes=(), events=()):
    """`pods`: versions in their order; a version that is the string "-name" is that pod's disappearance."""
    observer = Observer(client=None)
    for one in nodes:
        observer._note(NODE, "ADDED", one)
    for one in events:
        observer._note(EVENT, "ADDED", one)
    for one in pods:
        if isinstance(one, str):
            observer._note(POD, "DELETED", observer.pods[f"d/{one[1:]}"])
        else:
            known = f"d/{one['metadata']['name']}" in observer.pods
            observer._note(POD, "MODIFIED" if known else "ADDED", one)
    return observer


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param([], id="nothing"),
        pytest.param([pod("a"), pod("b"), pod("a", "n"), pod("b", "n")], id="full, not overcommitted"),
        pytest.param(
            [pod("a", cpu="2"), pod("a", "n", "2"), "-a", pod("b", cpu="2"), pod("b", "n", "2")],
            id="freed by a deletion",
        ),
        pytest.param(
            [pod("a", cpu="2"), pod("b", cpu="2"), pod("a", "n", "2"), pod("a", "n", "2", phase="Succeeded"),
             pod("b", "n", "2")], id="freed by a terminated pod"
        ),
        pytest.param([pod("b", cpu="2"), pod("x", "n", "2", scheduler="x"), pod("b", "n", "2")], id="late event"),
        pytest.param([pod("x", "n", "3", scheduler="other")], id="overcommitted by another scheduler"),
        pytest.param([pod("s", "n", "3")], id="created with a node"),
        pytest.param([pod("x", scheduler="other")], id="pod of another scheduler"),
        pytest.param([pod("a", cpu="0"), pod("a", "full", "0")], id="requests nothing that is used up"),
        pytest.param(
            [claiming(pod("a"), "example.com/gpu"), claiming(pod("a", "n"), "example.com/gpu")],
            id="devices of a claim instead of a node resource",
        ),
    ],
)  # fmt: skip
def test_good_histories_pass(pods):
    check_invariants(observer_of(pods, [node("n"), node("full", "0")]), OURS)


@pytest.mark.parametrize(
    ("pods", "events", "complaint"),
    [
        pytest.param([pod("a"), pod("a", "n"), pod("a", "m")], [], "d/a was bound to n, then to m", id="moved"),
        pytest.param(
            [pod("a"), pod("a", "n", condition=UNSCHEDULABLE)], [],
            "d/a is on n, but its conditions report it as pending", id="bound and waiting",
        ),
        pytest.param([pod("a")], [], "d/a is pending, but its conditions don't report it", id="no condition"),
        pytest.param(
            [pod("a", condition={"type": "PodScheduled", "status": "False"})], [],
            "d/a is pending without a reason", id="no reason",
        ),
        pytest.param([pod("a", condition=UNSCHEDULABLE)], [], "d/a is pending, but no event reports why", id="event"),
        pytest.param(
            [pod("a"), pod("a", "n")], [event("a", "Successfully assigned d/a to n")] * 2, "d/a has 2 Scheduled events",
            id="twice",
        ),
        pytest.param(
            [pod("a"), pod("a", "n")], [event("a", "Successfully assigned d/a to m")],
            "d/a is on n, but an event reports: Successfully assigned d/a to m", id="elsewhere",
        ),
        pytest.param(
            [pod("a", cpu="1500m"), pod("b"), pod("b", "n"), pod("a", "n", "1500m")], [],
            "d/a was bound to n next to d/b: 2.5 cpu of 2", id="overcommitted by itself",
        ),
        pytest.param(
            [pod("x", "n", "2", scheduler="x"), pod("b", cpu="1m"), pod("b", "n", "1m")], [],
            "d/b was bound to n next to d/x: 2.001 cpu of 2", id="overcommitted, and known",
        ),
        pytest.param([pod("a", cpu="0"), pod("a", "none", "0")], [], "which never existed", id="no such node"),
        pytest.param(
            [pod("a", port=80), pod("b", port=80), pod("a", "n", port=80), pod("b", "n", port=80)], [],
            "d/b and d/a both have the port ('', 'TCP', 80) of n", id="host port",
        ),
        pytest.param(
            [pod("a", cpu="0"), pod("b", cpu="0"), pod("a", "one", "0"), pod("b", "one", "0")], [], "2 pods of 1",
            id="too many pods"
        ),
    ],
)  # fmt: skip
def test_bad_histories_are_reported(pods, events, complaint):
    events = [{**one, "metadata": {**one["metadata"], "name": f"{n}"}} for n, one in enumerate(events)]
    with pytest.raises(AssertionError) as error:
        check_invariants(observer_of(pods, [node("n"), node("m"), node("one", pods="1")], events), OURS)
    assert complaint in str(error.value)


def test_two_schedulers_with_one_name_may_overcommit_only_by_unknown_pods():
    late = [pod("a", cpu="2"), pod("b", cpu="2"), pod("a", "n", "2"), pod("b", "n", "2")]
    in_order = [pod("a", cpu="2"), pod("a", "n", "2"), pod("b", cpu="2"), pod("b", "n", "2")]
    check_invariants(observer_of(late, [node("n")]), OURS, schedulers=2)
    with pytest.raises(AssertionError, match="4 cpu of 2"):
        check_invariants(observer_of(late, [node("n")]), OURS)
    with pytest.raises(AssertionError, match="4 cpu of 2"):
        check_invariants(observer_of(in_order, [node("n")]), OURS, schedulers=2)


def test_pods_bound_by_others_are_named():
    pods = [pod("a", cpu="2"), pod("b", cpu="2"), pod("a", "n", "2"), pod("b", "n", "2")]
    check_invariants(observer_of(pods, [node("n")]), OURS, foreign={"d/b"})


def test_a_pending_pod_needs_a_reason_and_an_event():
    observer = observer_of([pod("a", condition=UNSCHEDULABLE)], [], [event("a", "0/1 nodes", "FailedScheduling")])
    assert waiting_or_bound(observer, OURS)
    gated = UNSCHEDULABLE | {"reason": "SchedulingGated"}
    assert waiting_or_bound(observer_of([pod("a", condition=gated)]), OURS)
    with pytest.raises(AssertionError, match="d/a is pending, but its conditions don't report it"):
        waiting_or_bound(observer_of([pod("a")]), OURS)


async def test_until_reports_the_pods_and_the_last_error():
    observer = observer_of([pod("a", condition=UNSCHEDULABLE), pod("b"), pod("b", "n")])
    with pytest.raises(AssertionError, match=r"not within 0.01 s: n: 1 \(d/b...\); waiting: 0/1 nodes: 1 \(d/a...\)"):
        await observer.until(lambda: False, within=0.01)
    with pytest.raises(AssertionError, match="pod d/a is pending, but no event reports why"):
        await observer.until(lambda: waiting_or_bound(observer, OURS), within=0.01)
