"""What controllers do after a change: replace pods once, follow nodes, use quotas, evict from tainted devices."""

import pytest
from bayplan_documents import document, node, pod, workload

from bayplan.answers.simulation.usual import USUAL_GATES
from bayplan.core.versions import gates_of
from bayplan.insight import Changes, Insight, Snapshot


def ask(*objects, gates=USUAL_GATES, **changes):
    return Insight(Snapshot.of(objects), gates=gates).what_if(Changes(**changes))


def changed(answer):
    """The nodes or states before and after, by name, without the suffixes of generated names."""
    return sorted(
        (
            change.pod.partition("/")[2],
            change.before.node or change.before.state,
            change.after.node or change.after.state,
        )
        for change in answer.pods
        if change.states != ("pending", "pending")
    )


def terminating(made):
    made["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    return made


OWNED = {"owner": ("ReplicaSet", "web")}
WAITS = pod("waits", cpu="4")


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        # Nothing replaces a pod whose owner is unknown and that is being deleted.
        ((terminating(pod("old", "a1", cpu="4", **OWNED)),), [("old", "a1", "absent"), ("waits", "pending", "a1")]),
        # The owner has its pod already.
        (
            (
                workload("ReplicaSet", "web", 1),
                terminating(pod("old", "a1", cpu="3", **OWNED)),
                pod("new", "a1", **OWNED),
            ),
            [("old", "a1", "absent")],
        ),
        # The owner is about to make one.
        (
            (workload("ReplicaSet", "web", 1), terminating(pod("old", "a1", cpu="4", **OWNED))),
            [("waits", "pending", "a1")],
        ),
        # The owner is gone; the snapshot has others of its kind.
        (
            (workload("ReplicaSet", "other", 0), pod("old", "a1", cpu="4", **OWNED)),
            [("old", "a1", "absent"), ("waits", "pending", "a1")],
        ),
        # A StatefulSet waits for the name.
        (
            (
                workload("StatefulSet", "old", 1, serviceName="x"),
                terminating(pod("old-0", "a1", cpu="4", owner=("StatefulSet", "old"))),
            ),
            [("old-0", "a1", "pending"), ("waits", "pending", "a1")],
        ),
    ],
    ids=["owner unknown", "replaced", "not replaced yet", "owner gone", "stateful"],
)
def test_terminating_pods_do_not_come_back(objects, expected):
    name = "old-0" if any("old-0" in str(each["metadata"]["name"]) for each in objects) else "old"

    answer = ask(node("a1"), WAITS, *objects, delete_pods=[name])

    found = changed(answer)
    if ("old", "a1", "pending") in found:
        found.remove(("old", "a1", "pending"))  # the one that the owner makes
    assert found == expected
    assert ("force-delete" if "deletionTimestamp" in str(objects) else "delete") in answer.steps[0]


def test_evictions_do_not_bring_terminating_pods_back():
    old = [terminating(pod(f"old-{number}", "a1", **OWNED)) for number in range(3)]
    new = [pod(f"new-{number}", "a2", **OWNED) for number in range(3)]

    answer = ask(node("a1"), node("a2"), workload("ReplicaSet", "web", 3), *old, *new, remove_nodes=["a1"])

    assert changed(answer) == [(f"old-{number}", "a1", "absent") for number in range(3)]
    assert answer.pending == 0


def daemon_set(**spec):
    made = workload("DaemonSet", "agent", 0)
    del made["spec"]["replicas"]
    made["spec"]["template"]["spec"] |= spec
    return made


AGENT = {"owner": ("DaemonSet", "agent")}


@pytest.mark.parametrize(
    ("daemons", "changes", "expected"),
    [
        ({"nodeSelector": {"gpu": "yes"}}, {"labels": [("a3", "gpu=yes")]}, ["- a3"]),
        ({"nodeSelector": {"gpu": "yes"}}, {"labels": [("a2", "gpu=yes")]}, []),
        ({"nodeSelector": {"gpu": "yes"}}, {"labels": [("a1", "gpu-")]}, ["a1 -"]),
        ({}, {"taints": [("a1", "x=y:NoExecute")]}, ["a1 -"]),
        ({}, {"taints": [("a2", "off-")]}, ["- a2"]),
        ({}, {"cordon": ["a1"]}, []),
        ({}, {"remove_nodes": ["a1"]}, ["a1 -"]),
        ({"tolerations": [{"key": "off", "operator": "Exists"}]}, {"labels": [("a2", "b=c")]}, ["- a2"]),
    ],
    ids=[
        "label",
        "label on a tainted node",
        "label removed",
        "evicted",
        "taint removed",
        "cordoned",
        "node removed",
        "touched",
    ],
)
def test_daemon_sets_follow_their_nodes(daemons, changes, expected):
    nodes = [node("a1"), node("a2", taints=[{"key": "off", "effect": "NoSchedule"}]), node("a3")]
    nodes[0]["metadata"]["labels"]["gpu"] = "yes"

    answer = ask(*nodes, daemon_set(**daemons), pod("agent-1", "a1", **AGENT), **changes)

    assert {f"{each.before.node or '-'} {each.after.node or '-'}" for each in answer.pods} == set(expected)


def quota(hard):
    return document("ResourceQuota", "few", spec={"hard": {"pods": str(hard)}}, status={"hard": {"pods": str(hard)}})


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "Deployment"])
@pytest.mark.parametrize(
    ("changes", "made"),
    [
        ({"objects": [quota(3)]}, 1),
        ({"objects": [quota(9)]}, 2),
        ({"delete_pods": ["bare"]}, 1),
        ({"scale": ["replicaset/low=0"]}, 1),
        ({"objects": [quota(2)]}, 0),
        ({"cordon": ["a1"]}, 0),
    ],
    ids=["raised", "raised far", "deleted", "scaled", "same", "cordoned"],
)
def test_pods_that_a_quota_refused_are_created(kind, changes, made):
    low = workload("ReplicaSet", "low", 1), pod("low-x", "a1", owner=("ReplicaSet", "low"))
    urgent = workload(kind, "urgent", 2, **({"serviceName": "x"} if kind == "StatefulSet" else {}))

    answer = ask(node("a1"), quota(2), *low, pod("bare", "a1"), urgent, **changes)

    new = [each for each in answer.pods if each.states == ("absent", "placed")]
    assert len(new) == made
    assert all("urgent" in each.pod for each in new)


def test_scaling_beyond_a_quota_creates_what_it_allows():
    answer = ask(
        node("a1"),
        quota(2),
        workload("ReplicaSet", "low", 1),
        pod("low-x", "a1", owner=("ReplicaSet", "low")),
        scale=["replicaset/low=4"],
    )

    assert [each.states for each in answer.pods] == [("absent", "placed")]
    assert "2 pods refused: " in answer.steps[0]
    assert "exceeded quota: few" in answer.steps[0]


def device_objects(tolerations=()):
    results = [{"request": "r", "driver": "d", "pool": "a1", "device": "g0", "tolerations": list(tolerations)}]
    name = {"key": "metadata.name", "operator": "In", "values": ["a1"]}
    uses = pod("uses", "a1", resourceClaims=[{"name": "c", "resourceClaimName": "c"}])
    uses["metadata"]["uid"] = "uses"
    return [
        document("DeviceClass", "gpu", "resource.k8s.io/v1", namespace="", spec={}),
        _slice(),
        document(
            "ResourceClaim",
            "c",
            "resource.k8s.io/v1",
            spec={"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
            status={
                "allocation": {
                    "devices": {"results": results},
                    "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [name]}]},
                },
                "reservedFor": [{"resource": "pods", "name": "uses", "uid": "uses"}],
            },
        ),
        uses,
    ]


def _slice(taints=()):
    devices = [{"name": "g0", "taints": list(taints)}, {"name": "g1"}]
    spec = {"driver": "d", "nodeName": "a1", "pool": {"name": "a1", "generation": 1, "resourceSliceCount": 1}}
    return document("ResourceSlice", "s", "resource.k8s.io/v1", namespace="", spec=spec | {"devices": devices})


def rule(device="g0", effect="NoExecute"):
    taint = {"key": "off", "value": "yes", "effect": effect}
    selector = {"driver": "d", "pool": "a1", "device": device}
    spec = {"deviceSelector": selector, "taint": taint}
    return document("DeviceTaintRule", "off", "resource.k8s.io/v1", namespace="", spec=spec)


ALWAYS = {"key": "off", "operator": "Exists", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("change", "tolerations", "evicted"),
    [
        (rule(), (), True),
        (rule("g1"), (), False),
        (rule(effect="NoSchedule"), (), False),
        (rule(), [ALWAYS], False),
        (rule(), [{**ALWAYS, "tolerationSeconds": 60}], True),
        (_slice([{"key": "off", "effect": "NoExecute"}]), (), True),
        (_slice([{"key": "off", "effect": "NoSchedule"}]), (), False),
    ],
    ids=["rule", "other device", "other effect", "tolerated", "tolerated for a minute", "slice", "slice without"],
)
def test_tainted_devices_lose_their_pods(change, tolerations, evicted):
    answer = ask(node("a1"), *device_objects(tolerations), gates=gates_of("1.37"), objects=[change])

    assert changed(answer) == ([("uses", "a1", "absent")] if evicted else [])
