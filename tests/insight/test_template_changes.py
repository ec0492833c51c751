"""A help that changes a pod of a workload is tried as a rollout of the workload, with surge and quotas."""

from small_manifests import node
from tests.support.tables import cases

from bayplan.insight import Insight, Snapshot

TAINT = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
TOLERATE = "add a toleration of dedicated=batch:NoSchedule to the pod -> b"
UNTAINT = "remove the taint dedicated=batch:NoSchedule from b -> b"
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
CONTAINER = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}
LABELS = {"app": "web"}


def quota(pods):
    metadata = {"name": "few", "namespace": "shop"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": {"pods": str(pods)}}}


def workload(kind, **spec):
    api_version = "batch/v1" if kind == "Job" else "apps/v1"
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [CONTAINER]}}
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
    metadata = {"name": "web", "namespace": "shop"}
    selecting = {} if kind == "Job" else {"selector": {"matchLabels": LABELS}}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": metadata,
        "spec": {"template": template, **selecting, **spec},
    }


def pod(name, kind, on=None):
    owner = {"Deployment": ("ReplicaSet", "web-abc")}.get(kind, (kind, "web"))
    labels = {**LABELS, **({"pod-template-hash": "abc"} if kind == "Deployment" else {})}
    reference = {"apiVersion": "apps/v1", "kind": owner[0], "name": owner[1], "uid": "u", "controller": True}
    metadata = {"name": name, "namespace": "shop", "uid": name, "labels": labels, "ownerReferences": [reference]}
    placed = {"nodeName": on} if on else {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [CONTAINER], **placed}}


def rolling(surge, unavailable):
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


def helps(objects, free):
    """The changes that help `web-2`. Node `a` is full with `web-1`; node `b` is tainted, and has that much free."""
    nodes = [node("a", "2"), {**node("b", free), "spec": {"taints": [TAINT]}}]
    found = Insight(Snapshot.of([*nodes, NAMESPACE, *objects])).explain("shop/web-2")
    return [each.text for each in found.help]


def deployed(**strategy):
    replicas = workload("Deployment", replicas=2, **({"strategy": rolling(**strategy)} if strategy else {}))
    return [replicas, pod("web-1", "Deployment", "a"), pod("web-2", "Deployment")]


REPLACES = " (replaces 1 running pod of deployment shop/web)"
STUCK = " (the rollout of {} shop/web gets stuck: {} pods run then, 1 now{})"
SURGE, NO_SURGE = {"surge": 1, "unavailable": 0}, {"surge": 0, "unavailable": 1}


@cases(
    "objects, free, expected",
    {
        "the workload is not known": (deployed()[1:], "4", TOLERATE),
        "a Deployment": (deployed(), "4", TOLERATE + REPLACES),
        "the last pod has no room for its surge": (
            deployed(),
            "2",
            TOLERATE + STUCK.format("deployment", "2 of 2", "; 1 old pod stays"),
        ),
        "the last pod needs no surge": (deployed(**NO_SURGE), "2", TOLERATE + REPLACES),
        "the quota leaves no room for the surge": ([*deployed(**SURGE), quota(1)], "4", None),
        "the pod that doesn't run stays, and the quota counts it": ([*deployed(**SURGE), quota(2)], "4", None),
        "the quota leaves room": ([*deployed(**SURGE), quota(3)], "4", TOLERATE + REPLACES),
        "old pods go first": ([*deployed(**NO_SURGE), quota(2)], "4", TOLERATE + REPLACES),
        "a ReplicaSet replaces no pods": (
            [workload("ReplicaSet", replicas=2), pod("web-1", "ReplicaSet", "a"), pod("web-2", "ReplicaSet")],
            "2",
            TOLERATE,
        ),
        "a Job": (
            [workload("Job", parallelism=2), pod("web-1", "Job", "a"), pod("web-2", "Job")],
            "2",
            TOLERATE + " (the template of a Job is immutable: create job shop/web again)",
        ),
        "a StatefulSet has no room for all its pods": (
            [
                workload("StatefulSet", replicas=4, serviceName="web"),
                *(pod(f"web-{number}", "StatefulSet", "a" if number == 1 else None) for number in range(4)),
            ],
            "2",
            TOLERATE
            + " (delete shop/web-0, shop/web-2, shop/web-3, too: statefulset shop/web is ordered, and waits for pods "
            "that don't run, the rollout of statefulset shop/web gets stuck: 2 of 4 pods run then, 1 now; "
            "1 old pod stays)",
        ),
    },
)
def test_help_is_tried_with_the_workload(objects, free, expected):
    found = helps(objects, free)
    assert [text for text in found if text.startswith(TOLERATE)] == ([expected] if expected else [])
    assert UNTAINT in found
