from __future__ import annotations

import pytest
from lightkube.models.core_v1 import PersistentVolume
from tests.support.storage_documents import volume

from bayplan.api.objects import convert
from bayplan.devcluster.controllers.volume_reclaim import Disposal, disposal_of

CSI = {"csi": {"driver": "d", "volumeHandle": "h"}}
NFS = {"nfs": {"server": "s", "path": "/"}}
MADE = {"metadata": {"annotations": {"pv.kubernetes.io/provisioned-by": "d"}}}
FAIL, NOTHING, REUSE, DELETE = Disposal.What.FAIL, Disposal.What.NOTHING, Disposal.What.REUSE, Disposal.What.DELETE


@pytest.mark.parametrize(
    ("policy", "fields", "what", "problem"),
    [
        pytest.param("Retain", {}, NOTHING, "", id="kept"),
        pytest.param("Delete", CSI, NOTHING, "", id="left to the driver"),
        pytest.param("Delete", MADE, NOTHING, "", id="left to the provisioner"),
        pytest.param("Delete", {"hostPath": {"path": "/tmp/x"}}, DELETE, "", id="a temporary folder"),
        pytest.param("Delete", {"hostPath": {"path": "/data"}}, FAIL, "only supports /tmp/.+ but", id="any folder"),
        pytest.param("Delete", NFS, FAIL, "no deletable volume plugin matched", id="no deleter"),
        pytest.param("Recycle", NFS, REUSE, "", id="recycled"),
        pytest.param("Recycle", CSI, FAIL, "No recycler plugin found for the volume!", id="no recycler"),
        pytest.param("Burn", {}, FAIL, "unrecognized PersistentVolumeReclaimPolicy", id="unknown policy"),
    ],
)
def test_action_for_a_released_volume(policy, fields, what, problem):
    found = disposal_of(convert(PersistentVolume, volume("v", persistentVolumeReclaimPolicy=policy, **fields)))
    assert found.what is what
    assert problem in found.problem
    assert bool(found.reason) is (what is FAIL)
