"""Which claims a pod names, and whether one is in its way. Mirrors pkg/controller/volume/common/common.go."""

from __future__ import annotations

from bayplan.api.volumes import claim_name, is_controlled_by
from bayplan.devcluster.controllers import pods
from bayplan.devcluster.controllers.served import PersistentVolumeClaim, Pod


def claim_keys(pod: Pod) -> tuple[str, ...]:
    """The keys of the claims behind a pod's volumes, those of generic ephemeral volumes among them."""
    metadata = pod.metadata
    names = (claim_name(metadata.name, volume) for volume in pod.spec.volumes or ())
    return tuple(f"{metadata.namespace}/{name}" for name in names if name is not None)


def keeps_claim(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """Whether a claim that is being deleted has to stay for a pod.

    Only pods on nodes count: kubelets start none whose claim is going. A pod that is through with its containers lets
    its ephemeral volumes go, for it may be waiting for them itself. Mirrors podUsesPVCForDeletion.
    """
    if not pod.spec.nodeName:
        return False
    for volume in pod.spec.volumes or ():
        if claim_name(pod.metadata.name, volume) != claim.metadata.name:
            continue
        if volume.persistentVolumeClaim is not None:
            return True
        if not _is_shut_down(pod) and is_controlled_by(claim, pod.metadata.uid):
            return True
    return False


def _is_shut_down(pod: Pod) -> bool:
    return pods.is_terminating(pod) and pod.metadata.deletionGracePeriodSeconds == 0
