"""What-ifs in which the user of a device goes: its allocation goes with it, as a cluster's controllers do it."""

import pytest
from bayplan_documents import document, node, pod, workload
from tests.support.tables import cases

from bayplan.insight import Changes, Insight, Snapshot

API = "resource.k8s.io/v1"
GPU = "acme.io/gpu"


def devices(node_name="n1", count=1):
    """A device class behind an extended resource, and the devices of a node."""
    yield document("DeviceClass", "gpu", API, namespace="", spec={"extendedResourceName": GPU})
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": 1}
    found = [{"name": f"g{number}"} for number in range(count)]
    spec = {"driver": "gpu.acme.io", "nodeName": node_name, "pool": pool, "devices": found}
    yield document("ResourceSlice", f"{node_name}-gpu", API, namespace="", spec=spec)


def holder(name="first", made_for="extended resources", owner=None):
    """A pod with a device, and its claim: made for extended resources, of a template, or shared."""
    extended = made_for == "extended resources"
    found = pod(name, "n1", owner=owner, requests={GPU: "1"} if extended else None)
    found["metadata"]["uid"] = f"u-{name}"
    claim = document("ResourceClaim", f"{name}-claim", API)
    claim["metadata"]["uid"] = f"u-{name}-claim"
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    claim["spec"] = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    result = {"request": "r", "driver": "gpu.acme.io", "pool": "n1", "device": "g0"}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    claim["status"] = {
        "allocation": {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [term]}},
        "reservedFor": [{"resource": "pods", "name": name, "uid": f"u-{name}"}],
    }
    if made_for != "all":
        reference = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"u-{name}", "controller": True}
        claim["metadata"]["ownerReferences"] = [reference]
    if extended:
        claim["metadata"]["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
        mapping = {"containerName": "c", "resourceName": GPU, "requestName": "r"}
        status = {"resourceClaimName": f"{name}-claim", "requestMappings": [mapping]}
        found["status"] = {"phase": "Running", "extendedResourceClaimStatus": status}
    elif made_for == "template":
        found["spec"]["resourceClaims"] = [{"name": "r", "resourceClaimTemplateName": "one"}]
        found["status"] = {"resourceClaimStatuses": [{"name": "r", "resourceClaimName": f"{name}-claim"}]}
    else:
        found["spec"]["resourceClaims"] = [{"name": "r", "resourceClaimName": f"{name}-claim"}]
    return [found, claim]


SECOND = pod("second", requests={GPU: "1"})


def placed_after(objects, **changes):
    answer = Insight(Snapshot.of(objects)).what_if(Changes(**changes))
    return {each.pod.partition("/")[2]: each.after.node for each in answer.pods if each.after.node}


@pytest.mark.parametrize("made_for", ["extended resources", "template", "all"])
@cases(
    "changes, owner",
    {
        "deleted": ({"delete_pods": ["first"]}, None),
        "scaled down": ({"scale": ["replicaset/first=0"]}, ("ReplicaSet", "first")),
        "evicted": ({"taints": [("n1", "gone:NoExecute"), ("n1", "gone-")]}, None),
    },
)
def test_a_device_is_free_when_its_user_goes(made_for, changes, owner):
    objects = [node("n1"), *devices(), *holder(made_for=made_for, owner=owner), workload("ReplicaSet", "first", 1)]

    assert placed_after([*objects, SECOND], **changes) == {"second": "n1"}


@pytest.mark.parametrize("made_for", ["extended resources", "template", "all"])
@cases(
    "changes",
    {
        "deleted": {"delete_pods": ["first"]},
        "evicted": {"taints": [("n1", "gone:NoExecute"), ("n1", "gone-")]},
    },
)
def test_a_replacement_takes_the_device_that_its_predecessor_freed(made_for, changes):
    found = holder(made_for=made_for, owner=("ReplicaSet", "first"))
    objects = [node("n1"), *devices(), *found, workload("ReplicaSet", "first", 1)]

    answer = Insight(Snapshot.of(objects)).what_if(Changes(**changes))

    assert (answer.pods, answer.pending) == ((), 0)


def test_a_replacement_takes_the_tainted_device_that_it_tolerates_for_a_time():
    """kube-scheduler accepts a taint that is tolerated for a time, so that the pod gets the same device again."""
    first, claim = holder(made_for="template", owner=("ReplicaSet", "first"))
    gone = {"key": "off", "value": "yes", "effect": "NoExecute"}
    tolerations = [{"key": "off", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]
    claim["spec"]["devices"]["requests"][0]["exactly"]["tolerations"] = tolerations
    claim["status"]["allocation"]["devices"]["results"][0]["tolerations"] = tolerations
    *_, tainted = devices()
    tainted["spec"]["devices"][0]["taints"] = [gone]
    objects = [node("n1"), *devices(), first, claim, workload("ReplicaSet", "first", 1)]

    answer = Insight(Snapshot.of(objects)).what_if(Changes(objects=[tainted]))

    assert (answer.pods, answer.pending) == ((), 0)


def test_a_pod_that_is_created_again_gets_a_device_anew():
    objects = [node("n1"), *devices(), node("n2"), *holder(owner=("ReplicaSet", "first"))]
    others = [each for each in devices("n2") if each["kind"] == "ResourceSlice"]

    assert placed_after([*objects, *others], remove_nodes=["n1"]) == {"first": "n2"}


def test_the_device_of_a_preempted_pod_is_free():
    first, claim = holder()
    first["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "4"
    urgent = pod("urgent", cpu="4", priority=10)

    answer = Insight(Snapshot.of([node("n1"), *devices(), first, claim])).fit([urgent, SECOND])

    assert [(each.pod, each.outcome) for each in answer.pods] == [
        ("default/urgent", "preempts"),
        ("default/second", "placed"),
    ]


def test_draining_a_node_frees_its_devices_and_copies_no_claim():
    objects = [node("n1"), *devices(), node("n2"), *holder(owner=("ReplicaSet", "first"))]
    others = [each for each in devices("n2") if each["kind"] == "ResourceSlice"]

    answer = Insight(Snapshot.of([*objects, *others])).drain(["n1"])

    assert [(each.outcome, each.node) for each in answer.pods] == [("placed", "n2")]


def test_a_pod_whose_claim_was_never_made_is_drained():
    lost = pod(
        "lost", "n1", owner=("ReplicaSet", "lost"), resourceClaims=[{"name": "r", "resourceClaimTemplateName": "one"}]
    )

    answer = Insight(Snapshot.of([node("n1"), *devices(), *holder(), lost])).drain(["n1"], force=True)

    assert {each.pod: each.outcome for each in answer.pods} == {"default/first": "deleted", "default/lost": "pending"}


def test_a_new_node_has_devices_like_the_other_one():
    objects = [node("n1"), *devices(), *holder()]

    assert placed_after([*objects, SECOND], add_nodes=["like:n1"]) == {"second": "n1-new-1"}
