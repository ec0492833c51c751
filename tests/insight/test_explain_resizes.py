"""`explain` of a bound pod whose resize is deferred, where resizes may preempt: what it waits for, and who must go."""

from tests.support.tables import cases

from bayplan.core.cluster.resizes import RESIZES_PREEMPT
from bayplan.core.versions import gates_of
from bayplan.insight import Insight, Snapshot

OFF, ON = gates_of("1.37"), gates_of("1.37").but(RESIZES_PREEMPT)
LACKS = "its resize is deferred: Insufficient cpu: lacks 200m"
FITS = "its deferred resize fits now; it waits for the kubelet to carry it out"


def node(**spec):
    room = {"cpu": "300m", "memory": "8Gi", "pods": "110"}
    status = {"capacity": room, "allocatable": room}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": spec, "status": status}


def pod(name, cpu, has=None, **spec):
    """A running pod. `has`: what it has, if its resize is deferred."""
    container = {"name": "c", "image": "i"}
    status = {"phase": "Running"}
    if has is not None:
        sizes = {"resources": {"requests": {"cpu": has}}, "allocatedResources": {"cpu": has}}
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]
        status["containerStatuses"] = [{**container, "imageID": "", "ready": True, "restartCount": 0, **sizes}]
    containers = [{**container, "resources": {"requests": {"cpu": cpu}}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"nodeName": "n", "containers": containers, **spec},
        "status": status,
    }


GROWS = pod("grows", "300m", "100m", priority=10)
CASES = {
    "somebody must go": (
        [node(), GROWS, pod("low", "200m")],
        [LACKS, "it would preempt default/low for its resize now"],
        ("default/low",),
        [],
    ),
    "nobody may go": ([node(), GROWS, pod("same", "200m", priority=10)], [LACKS], (), ["no pod of lower priority"]),
    "it may not preempt": (
        [node(), {**GROWS, "spec": {**GROWS["spec"], "preemptionPolicy": "Never"}}, pod("low", "200m")],
        [LACKS, "its preemptionPolicy is Never, so it preempts no pod for its resize"],
        (),
        [],
    ),
    "its node forbids it": (
        [node(podPreemptionPolicy={"disableResizePreemption": ["me"]}), GROWS, pod("low", "200m")],
        ["its resize is deferred: node had resize preemption disabled; Insufficient cpu: lacks 200m"],
        (),
        [],
    ),
    "there is room": ([node(), GROWS], [FITS], (), []),
    "it is not deferred": ([node(), pod("grows", "300m", priority=10)], [], (), []),
}


@cases("objects, notes, victims, trials", CASES)
def test_what_a_deferred_resize_waits_for(objects, notes, victims, trials):
    answer = Insight(Snapshot.of(objects), gates=ON).explain("default/grows")
    assert list(answer.notes)[: len(notes)] == notes
    assert answer.victims == victims
    assert [each.text for each in answer.preemption] == trials
    assert answer.bound
    assert answer.outcome == "placed"


def test_nothing_is_said_where_nobody_is_evicted_for_it():
    answer = Insight(Snapshot.of(CASES["somebody must go"][0]), gates=OFF).explain("default/grows")
    assert answer.victims == ()
    assert not [note for note in answer.notes if "resize" in note]
