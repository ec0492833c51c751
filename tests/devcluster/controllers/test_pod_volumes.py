from lightkube.models.core_v1 import PersistentVolumeClaim, Pod
from tests.support.storage_documents import claim, ephemeral, using
from tests.support.tables import cases

from bayplan.core.api.objects import convert
from bayplan_devcluster.controllers.pod_volumes import claim_keys, keeps_claim

OWNED = {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "of p", "controller": True}]}
GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def pod(spec, *, node="n", **metadata):
    spec = {"containers": [{"name": "c"}], **({"nodeName": node} if node else {}), **spec}
    return convert(Pod, {"metadata": {"name": "p", "namespace": "default", "uid": "of p", **metadata}, "spec": spec})


def test_claims_of_a_pod():
    both = {"volumes": [*using("a", "b")["volumes"], *ephemeral("e")["volumes"], {"name": "x", "emptyDir": {}}]}
    assert claim_keys(pod(both)) == ("default/a", "default/b", "default/p-e")
    assert claim_keys(pod({})) == ()


@cases(
    "one, name, metadata, expected",
    {
        "on a node": (pod(using("c")), "c", {}, True),
        "without a node": (pod(using("c"), node=""), "c", {}, False),
        "another claim": (pod(using("other")), "c", {}, False),
        "until it is removed": (pod(using("c"), **GOING, deletionGracePeriodSeconds=0), "c", {}, True),
        "ephemeral": (pod(ephemeral("v")), "p-v", OWNED, True),
        "ephemeral, but not the pod's": (pod(ephemeral("v")), "p-v", {}, False),
        "stopping": (pod(ephemeral("v"), **GOING, deletionGracePeriodSeconds=30), "p-v", OWNED, True),
        "stopped": (pod(ephemeral("v"), **GOING, deletionGracePeriodSeconds=0), "p-v", OWNED, False),
    },
)
def test_pod_blocks_the_deletion_of_its_claims(one, name, metadata, expected):
    found = convert(PersistentVolumeClaim, claim(name, metadata=metadata))
    assert keeps_claim(one, found) is expected
