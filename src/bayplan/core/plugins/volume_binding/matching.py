"""Finds the volumes that match a claim, independently of nodes.

Mirrors FindMatchingVolume (component-helpers' storage/volume/pv_helpers.go).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from lightkube.models.core_v1 import PersistentVolume, PersistentVolumeClaim

from bayplan.core.api.labels import LabelSelector
from bayplan.core.api.selectors import label_selector
from bayplan.core.api.volumes import capacity, is_bound_to, requested_storage
from bayplan.core.plugins.volume_binding.candidates import ClaimCandidates

_FILESYSTEM = "Filesystem"


def matching_volumes(
    claim: PersistentVolumeClaim, candidates: ClaimCandidates
) -> Iterator[tuple[PersistentVolume, bool]]:
    """The matching volumes, each with whether it is pre-bound to the claim.

    Pre-bound volumes come first, then the others by size. Raises InvalidSelector for an invalid selector of the claim.
    """
    spec = claim.spec
    selector = label_selector(spec.selector) if spec is not None and spec.selector is not None else None
    return _matching(claim, candidates, selector)


def _matching(
    claim: PersistentVolumeClaim, candidates: ClaimCandidates, selector: LabelSelector | None
) -> Iterator[tuple[PersistentVolume, bool]]:
    wanted = requested_storage(claim) or 0
    for volume in candidates.reserved:
        if capacity(volume) >= wanted and _compatible(claim, volume) and is_bound_to(volume, claim):
            yield volume, True
    free = candidates.free
    for index in range(bisect_left(free, (wanted,)), len(free)):
        volume = free[index][2]
        if _compatible(claim, volume) and _has_modes(claim, volume):
            labels = (volume.metadata.labels if volume.metadata else None) or {}
            if selector is None or selector.matches(labels):
                yield volume, False


def _compatible(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Whether the volume modes and attributes classes match, and the volume isn't being deleted."""
    want, have = claim.spec, volume.spec
    if want is None or have is None or (volume.metadata and volume.metadata.deletionTimestamp is not None):
        return False
    if (want.volumeMode or _FILESYSTEM) != (have.volumeMode or _FILESYSTEM):
        return False
    return (want.volumeAttributesClassName or "") == (have.volumeAttributesClassName or "")


def _has_modes(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    want = (claim.spec.accessModes if claim.spec else None) or ()
    have = (volume.spec.accessModes if volume.spec else None) or ()
    return set(want) <= set(have)
