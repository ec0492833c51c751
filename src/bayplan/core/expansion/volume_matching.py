"""The volume that matches a claim, and the default class of claims.

It shares no code with the scheduler, which matches volumes for its nodes. Mirrors
FindMatchingVolume (component-helpers' storage/volume/pv_helpers.go) and checkVolumeSatisfyClaim
(pkg/controller/volume/persistentvolume/pv_controller.go).
"""

from __future__ import annotations

from collections.abc import Iterable

from bayplan.core.api import quantity
from bayplan.core.api.selectors import selector_or_nothing
from bayplan.core.api.served import PersistentVolume, PersistentVolumeClaim, StorageClass
from bayplan.core.api.volumes import (
    annotations_of,
    capacity,
    class_of_claim,
    class_of_volume,
    is_bound_to,
    requested_storage,
)
from bayplan.core.api.well_known_labels import BETA_STORAGE_CLASS, DEFAULT_STORAGE_CLASS

_DEFAULT_MARKS = (DEFAULT_STORAGE_CLASS, "storageclass.beta.kubernetes.io/is-default-class")
_FILESYSTEM = "Filesystem"


def best_match(
    claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume], *, delayed: bool
) -> PersistentVolume | None:
    """The volume to bind a claim to: one that is reserved for the claim, or else the smallest available one.

    As upstream, it checks volumes with few access modes first: an available one of them precedes a reserved one with
    more modes. With `delayed`, only a reserved volume matches, as the scheduler chooses among the available ones.
    """
    selector = selector_or_nothing(claim.spec.selector) if claim.spec.selector is not None else None
    wanted = requested_storage(claim) or 0
    found = []
    for volume in volumes:
        if capacity(volume) < wanted or not _same_sort(claim, volume) or not has_modes(claim, volume):
            continue
        set_aside = is_bound_to(volume, claim)
        if set_aside or (
            not delayed
            and is_free(volume)
            and class_of_volume(volume) == class_of_claim(claim)
            and (selector is None or selector.matches(volume.metadata.labels or {}))
        ):
            modes = len(set(volume.spec.accessModes or ()))
            found.append((modes, not set_aside, capacity(volume), volume.metadata.name, volume))
    return min(found, default=(None,))[-1]


def is_free(volume: PersistentVolume) -> bool:
    """Whether a volume is available to any claim."""
    available = volume.status is not None and volume.status.phase == "Available"
    return available and volume.spec.claimRef is None and volume.metadata.deletionTimestamp is None


def mismatch(volume: PersistentVolume, claim: PersistentVolumeClaim) -> str | None:
    """Why a claim cannot have the volume that it names; None if it can. The messages are those of upstream."""
    if volume.metadata.deletionTimestamp is not None:
        return f'the volume is marked for deletion "{volume.metadata.name}"'
    if quantity.value(capacity(volume)) < quantity.value(requested_storage(claim) or 0):
        return "requested PV is too small"
    if class_of_volume(volume) != class_of_claim(claim):
        return "storageClassName does not match"
    if (claim.spec.volumeAttributesClassName or "") != (volume.spec.volumeAttributesClassName or ""):
        return "volumeAttributesClassName does not match"
    if not same_mode(volume, claim):
        return "incompatible volumeMode"
    return None if has_modes(claim, volume) else "incompatible accessMode"


def same_mode(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether both are file systems, or both raw block devices."""
    return bool((volume.spec.volumeMode or _FILESYSTEM) == (claim.spec.volumeMode or _FILESYSTEM))


def has_modes(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Whether a volume has all access modes of a claim."""
    return set(claim.spec.accessModes or ()) <= set(volume.spec.accessModes or ())


def has_class(claim: PersistentVolumeClaim) -> bool:
    """Whether a claim names a class, including "" for no class."""
    return BETA_STORAGE_CLASS in annotations_of(claim) or claim.spec.storageClassName is not None


def is_default(storage_class: StorageClass) -> bool:
    """Whether a class is a default class."""
    return any(annotations_of(storage_class).get(mark) == "true" for mark in _DEFAULT_MARKS)


def default_class(classes: Iterable[StorageClass]) -> StorageClass | None:
    """The default class: the newest of several, then the first by name.

    Mirrors GetDefaultClass (pkg/volume/util/storageclass.go).
    """
    defaults = sorted((one for one in classes if is_default(one)), key=lambda one: str(one.metadata.name))
    return max(defaults, key=lambda one: one.metadata.creationTimestamp, default=None)


def _same_sort(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    attributes = (claim.spec.volumeAttributesClassName or "") == (volume.spec.volumeAttributesClassName or "")
    return attributes and same_mode(volume, claim) and volume.metadata.deletionTimestamp is None
