"""The claims of a pod's volumes, and whether the pod blocks their deletion.

Mirrors pkg/controller/volume/common/common.go.
"""

from __future__ import annotations

from bayplan.core.api.served import PersistentVolumeClaim, Pod
from bayplan.core.api.volumes import claim_name, is_controlled_by
from bayplan.core.expansion import pods


def claim_keys(pod: Pod) -> tuple[str, ...]:
    """The keys of the claims of a pod's volumes, including generic ephemeral volumes."""
    metadata = pod.metadata
    names = (claim_name(metadata.name, volume) for volume in pod.spec.volumes or ())
    return tuple(f"{metadata.namespace}/{name}" for name in names if name is not None)


def keeps_claim(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """Whether a terminating claim must be kept because a pod uses it.

    Only pods on nodes count, as kubelets don't start pods with terminating claims. A finished pod doesn't block the
    deletion of its ephemeral volumes, as its own deletion may wait for them. Mirrors podUsesPVCForDeletion.
    """
    if not pod.spec.nodeName:
        return False
    for volume in pod.spec.volumes or ():
        if claim_name(pod.metadata.name, volume) != claim.metadata.name:
            continue
        if volume.persistentVolumeClaim is not None:
            return True
        shut_down = pods.is_terminating(pod) and pod.metadata.deletionGracePeriodSeconds == 0
        if not shut_down and is_controlled_by(claim, pod.metadata.uid):
            return True
    return False
