"""The reclaim action for a volume whose claim was deleted.

Mirrors reclaimVolume, findDeletablePlugin and the plugins that delete and recycle (pkg/volume/hostpath, nfs). The
volumes of a simulated cluster have no storage, so deletion and recycling change only objects.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from bayplan.core.api.served import PersistentVolume
from bayplan.core.api.volumes import annotations_of

PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
_TEMPORARY = "/tmp/"  # noqa: S108 - compared with, no file is touched


class DisposalAction(Enum):
    """`NOTHING`: the volume stays, or its provisioner deletes it."""

    NOTHING = 0
    DELETE = 1
    REUSE = 2
    FAIL = 3


@dataclass(frozen=True, slots=True)
class Disposal:
    """The action; for FAIL, with upstream's reason and message of the event."""

    action: DisposalAction
    reason: str = ""
    problem: str = ""


def disposal_of(volume: PersistentVolume) -> Disposal:
    """The action for a released volume."""
    match volume.spec.persistentVolumeReclaimPolicy:
        case "Retain":
            return Disposal(DisposalAction.NOTHING)
        case "Delete":
            return _deletion_of(volume)
        case "Recycle":
            if volume.spec.hostPath is not None or volume.spec.nfs is not None:
                return Disposal(DisposalAction.REUSE)
            return Disposal(DisposalAction.FAIL, "VolumeFailedRecycle", "No recycler plugin found for the volume!")
        case _:
            problem = "Volume has unrecognized PersistentVolumeReclaimPolicy"
            return Disposal(DisposalAction.FAIL, "VolumeUnknownReclaimPolicy", problem)


def is_made_on_demand(volume: PersistentVolume) -> bool:
    """Whether a provisioner created the volume."""
    return PROVISIONED_BY in annotations_of(volume)


def _deletion_of(volume: PersistentVolume) -> Disposal:
    if is_made_on_demand(volume) or volume.spec.csi is not None:
        return Disposal(DisposalAction.NOTHING)
    path = volume.spec.hostPath
    if path is None:
        problem = f'error getting deleter volume plugin for volume "{volume.metadata.name}"'
        return _cannot_delete(f"{problem}: no deletable volume plugin matched")
    if not path.path.startswith(_TEMPORARY):
        return _cannot_delete(f"host_path deleter only supports /tmp/.+ but received provided {path.path}")
    return Disposal(DisposalAction.DELETE)


def _cannot_delete(problem: str) -> Disposal:
    return Disposal(DisposalAction.FAIL, "VolumeFailedDelete", problem)
