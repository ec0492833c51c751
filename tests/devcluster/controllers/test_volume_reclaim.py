from lightkube.models.core_v1 import PersistentVolume
from tests.support.storage_documents import volume
from tests.support.tables import cases

from bayplan.core.api.objects import convert
from bayplan_devcluster.controllers.volume_reclaim import DisposalAction, disposal_of

CSI = {"csi": {"driver": "d", "volumeHandle": "h"}}
NFS = {"nfs": {"server": "s", "path": "/"}}
MADE = {"metadata": {"annotations": {"pv.kubernetes.io/provisioned-by": "d"}}}
FAIL, NOTHING, REUSE, DELETE = DisposalAction.FAIL, DisposalAction.NOTHING, DisposalAction.REUSE, DisposalAction.DELETE


@cases(
    "policy, fields, what, problem",
    {
        "kept": ("Retain", {}, NOTHING, ""),
        "left to the driver": ("Delete", CSI, NOTHING, ""),
        "left to the provisioner": ("Delete", MADE, NOTHING, ""),
        "a temporary folder": ("Delete", {"hostPath": {"path": "/tmp/x"}}, DELETE, ""),
        "any folder": ("Delete", {"hostPath": {"path": "/data"}}, FAIL, "only supports /tmp/.+ but"),
        "no deleter": ("Delete", NFS, FAIL, "no deletable volume plugin matched"),
        "recycled": ("Recycle", NFS, REUSE, ""),
        "no recycler": ("Recycle", CSI, FAIL, "No recycler plugin found for the volume!"),
        "unknown policy": ("Burn", {}, FAIL, "unrecognized PersistentVolumeReclaimPolicy"),
    },
)
def test_action_for_a_released_volume(policy, fields, what, problem):
    found = disposal_of(convert(PersistentVolume, volume("v", persistentVolumeReclaimPolicy=policy, **fields)))
    assert found.action is what
    assert problem in found.problem
    assert bool(found.reason) is (what is FAIL)
