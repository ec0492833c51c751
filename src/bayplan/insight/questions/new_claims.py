"""What controllers do about the claims of a pod after a change that creates claims or volumes."""

from __future__ import annotations

from bayplan.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS
from bayplan.api.volumes import (
    NO_PROVISIONER,
    WAIT_FOR_FIRST_CONSUMER,
    claim_name,
    class_of_claim,
    full_name,
    volume_name,
)
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.missing_volumes import volume_of
from bayplan.simulation import volumes
from bayplan.simulation.world import World


def settle_claims(world: World, pod: PodInfo) -> None:
    """Bind the pod's claims that controllers would bind now: to the volume that was created for it, or to a new one."""
    objects = world.state.objects
    for name in _claim_names(pod):
        key = f"{pod.namespace}/{name}"
        claim = objects[PERSISTENT_VOLUME_CLAIM].get(key)
        storage_class = None if claim is None else objects[STORAGE_CLASS].get(class_of_claim(claim))
        waits = storage_class is not None and storage_class.volumeBindingMode == WAIT_FOR_FIRST_CONSUMER
        if claim is None or volume_name(claim):
            continue
        volume = objects[PERSISTENT_VOLUME].get(volume_of(claim))
        if volume is not None:
            volume, claim = volumes.bound(volume, claim)
        elif storage_class is not None and not waits and storage_class.provisioner != NO_PROVISIONER:
            volume, claim = volumes.provisioned(claim, objects)
        else:
            continue
        world.change(PERSISTENT_VOLUME, full_name(volume), volume)
        world.change(PERSISTENT_VOLUME_CLAIM, key, claim)


def _claim_names(pod: PodInfo) -> list[str]:
    names = [claim_name(pod.name, volume) for volume in pod.volumes if volume.persistentVolumeClaim is not None]
    return [name for name in names if name is not None]
