"""Which volumes would do for a claim, whatever the node.

Mirrors FindMatchingVolume (component-helpers' storage/volume/pv_helpers.go).
"""

from __future__ import annotations

from collections.abc import Iterable

from lightkube.models.core_v1 import PersistentVolume, PersistentVolumeClaim

from bayplan.api.selectors import label_selector
from bayplan.api.volumes import capacity, is_bound_to, requested_storage

_FILESYSTEM = "Filesystem"


def fitting(claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume]) -> list[tuple[PersistentVolume, bool]]:
    """The volumes that would do, best first, each with whether it is set aside for the claim.

    Those that are set aside come first, then the smallest. Raises InvalidSelector for a claim whose selector cannot
    be read.
    """
    spec = claim.spec
    selector = label_selector(spec.selector) if spec is not None and spec.selector is not None else None
    wanted = requested_storage(claim) or 0
    set_aside: list[tuple[PersistentVolume, bool]] = []
    free: list[tuple[PersistentVolume, bool]] = []
    for volume in volumes:
        if capacity(volume) < wanted or not _agree(claim, volume):
            continue
        if is_bound_to(volume, claim):
            set_aside.append((volume, True))
        elif _is_free(volume) and _has_modes(claim, volume):
            labels = (volume.metadata.labels if volume.metadata else None) or {}
            if selector is None or selector.matches(labels):
                free.append((volume, False))
    return set_aside + sorted(free, key=lambda each: capacity(each[0]))


def _agree(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Whether both mean the same kind of volume, and the volume is there to stay."""
    want, have = claim.spec, volume.spec
    if want is None or have is None or (volume.metadata and volume.metadata.deletionTimestamp is not None):
        return False
    if (want.volumeMode or _FILESYSTEM) != (have.volumeMode or _FILESYSTEM):
        return False
    return (want.volumeAttributesClassName or "") == (have.volumeAttributesClassName or "")


def _is_free(volume: PersistentVolume) -> bool:
    available = volume.status is not None and volume.status.phase == "Available"
    return available and volume.spec is not None and volume.spec.claimRef is None


def _has_modes(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    want = (claim.spec.accessModes if claim.spec else None) or ()
    have = (volume.spec.accessModes if volume.spec else None) or ()
    return set(want) <= set(have)
