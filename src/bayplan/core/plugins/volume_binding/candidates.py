"""The volumes that a claim may be bound to, by storage class: those reserved for the claim, and free ones by size.

A view of the volumes, kept sorted as they come and go, so that the smallest sufficient one is found without a scan.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field

from lightkube.models.core_v1 import PersistentVolume, PersistentVolumeClaim

from bayplan.core.api.volumes import capacity, class_of_claim, class_of_volume, full_name
from bayplan.core.cluster.objects import ObjectStore

_Entry = tuple[int, str, PersistentVolume]
"""Capacity (nano-units) and name, by which volumes are sorted."""
_ClaimKey = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class ClaimCandidates:
    """The volumes of a claim's class, without those that are bound or reserved for other claims.

    `reserved`: the volumes whose reference names the claim, by name. `free`: the available ones, by capacity and name.
    """

    reserved: tuple[PersistentVolume, ...]
    free: tuple[_Entry, ...]


@dataclass(slots=True)
class _Class:
    reserved: dict[_ClaimKey, dict[str, PersistentVolume]] = field(default_factory=dict)
    free: list[_Entry] = field(default_factory=list)
    snapshot: tuple[_Entry, ...] | None = None
    """`free` as it is now; None after a change."""


class VolumesByClass:
    """A view of the persistent volumes, by storage class, and by claim or size."""

    def __init__(self, volumes: ObjectStore) -> None:
        self._classes: dict[str, _Class] = {}
        volumes.listen(self._changed)

    def candidates(self, claim: PersistentVolumeClaim) -> ClaimCandidates:
        """The candidates of a claim. They don't change later."""
        known = self._classes.get(class_of_claim(claim))
        if known is None:
            return ClaimCandidates((), ())
        metadata = claim.metadata
        key = (metadata.namespace or "", metadata.name or "") if metadata else ("", "")
        reserved = known.reserved.get(key, {})
        if known.snapshot is None:
            known.snapshot = tuple(known.free)
        return ClaimCandidates(tuple(volume for _, volume in sorted(reserved.items())), known.snapshot)

    def _changed(self, before: PersistentVolume | None, now: PersistentVolume | None) -> None:
        if before is not None:
            self._remove(before)
        if now is not None:
            self._add(now)

    def _add(self, volume: PersistentVolume) -> None:
        key = _reference(volume)
        if key is None and not is_available(volume):
            return
        known = self._classes.setdefault(class_of_volume(volume), _Class())
        if key is not None:
            known.reserved.setdefault(key, {})[full_name(volume)] = volume
        else:
            insort(known.free, (capacity(volume), full_name(volume), volume))
            known.snapshot = None

    def _remove(self, volume: PersistentVolume) -> None:
        key, name = _reference(volume), class_of_volume(volume)
        if key is None and not is_available(volume):
            return
        known = self._classes[name]
        if key is not None:
            del known.reserved[key][full_name(volume)]
            if not known.reserved[key]:
                del known.reserved[key]
        else:
            del known.free[bisect_left(known.free, (capacity(volume), full_name(volume)))]
            known.snapshot = None
        if not known.free and not known.reserved:
            del self._classes[name]


def _reference(volume: PersistentVolume) -> _ClaimKey | None:
    """The claim that a volume is bound to or reserved for."""
    reference = volume.spec.claimRef if volume.spec else None
    return None if reference is None else (reference.namespace or "", reference.name or "")


def is_available(volume: PersistentVolume) -> bool:
    """Return whether a volume may be bound: the controller says so."""
    return volume.spec is not None and volume.status is not None and volume.status.phase == "Available"
