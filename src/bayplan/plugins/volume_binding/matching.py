"""Finds the volumes that match a claim, independently of nodes.

Mirrors FindMatchingVolume (component-helpers' storage/volume/pv_helpers.go).
"""

from __future__ import annotations

from collections.abc import Iterable

from lightkube.models.core_v1 import PersistentVolume, PersistentVolumeClaim

from bayplan.api.selectors import label_selector
from bayplan.api.volumes import capacity, is_bound_to, requested_storage

_FILESYSTEM = "Filesystem"


def matching_volumes(
    claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume]
) -> list[tuple[PersistentVolume, bool]]:
    """The matching volumes, each with whether it is pre-bound to the claim.

    Pre-bound volumes come first, then the others by size. Raises InvalidSelector for an invalid selector of the claim.
    """
    spec = claim.spec
    selector = label_selector(spec.selector) if spec is not None and spec.selector is not None else None
    wanted = requested_storage(claim) or 0
    prebound: list[tuple[PersistentVolume, bool]] = []
    free: list[tuple[PersistentVolume, bool]] = []
    for volume in volumes:
        if capacity(volume) < wanted or not _compatible(claim, volume):
            continue
        if is_bound_to(volume, claim):
            prebound.append((volume, True))
        elif _is_free(volume) and _has_modes(claim, volume):
            labels = (volume.metadata.labels if volume.metadata else None) or {}
            if selector is None or selector.matches(labels):
                free.append((volume, False))
    return prebound + sorted(free, key=lambda each: capacity(each[0]))


def _compatible(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Whether the volume modes and attributes classes match, and the volume isn't being deleted."""
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
