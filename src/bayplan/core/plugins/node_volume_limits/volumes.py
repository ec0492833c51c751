"""Which CSI volumes a pod uses. Mirrors filterAttachableVolumes (plugins/nodevolumelimits/csi.go).

An in-tree volume counts as the CSI volume that it is migrated to; a claim without a volume counts for the driver of its
class.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lightkube.models.core_v1 import PersistentVolumeClaim, Volume

from bayplan.core.api.csi_translation import BY_NAME, Untranslatable, in_tree_plugin, translate_inline
from bayplan.core.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS
from bayplan.core.api.volumes import claim_name, class_of_claim, is_controlled_by, volume_name
from bayplan.core.cluster.objects import ObjectStore
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.volume_access import VolumeAccesses
from bayplan.core.framework.status import Status

CsiVolumeKey = tuple[str, str]
"""Driver and handle."""
CsiVolumes = Mapping[CsiVolumeKey, None]
"""A set of volumes, in order."""
NONE: CsiVolumes = {}
_UNBOUND = "\0"
"""How the handle of a claim without a volume begins. No real handle begins with a null byte."""


class VolumeLookup:
    """Looks up the volumes of pods in the object stores."""

    def __init__(self, claims: ObjectStore, volumes: ObjectStore, classes: ObjectStore) -> None:
        self._claims = claims
        self._volumes = volumes
        self._classes = classes
        self._accesses = volumes.view(VolumeAccesses)

    def of_pending(self, pod: PodInfo, *, migrated: bool) -> CsiVolumes | Status:
        """The volumes of a pending pod, or a Status if they cannot be determined.

        `migrated`: whether in-tree volumes count for their CSI drivers.
        """
        volumes: dict[CsiVolumeKey, None] = {}
        for volume in pod.volumes:
            found = self._attachable(pod, volume, migrated=migrated)
            if isinstance(found, Status):
                return found
            if found is not None:
                volumes[found] = None
        return volumes

    def problem(self, pod: PodInfo) -> Status | None:
        """Why `of_pending` can't determine the volumes of a pending pod; None if it can. It takes less time."""
        for volume in pod.volumes:
            name = claim_name(pod.name, volume)
            found = _inline(volume) if name is None else self._claim(pod, volume, name)
            if isinstance(found, Status):
                return found
        return None

    def of_placed(self, pod: PodInfo) -> CsiVolumes | Status:
        """The volumes of a pod on a node with a CSINode, or the error of one. Deleted claims are not counted."""
        volumes: dict[CsiVolumeKey, None] = {}
        for volume in pod.volumes:
            found = self._attachable(pod, volume, migrated=True)
            if isinstance(found, Status):
                if found.rejected:
                    continue
                return found
            if found is not None:
                volumes[found] = None
        return volumes

    def sources(self, pod: PodInfo) -> Iterator[tuple[str, str]]:
        """The objects that the pod's volumes depend on, by kind's name and key, whether they exist or not."""
        for volume in pod.volumes:
            name = claim_name(pod.name, volume)
            if not name:
                continue
            key = f"{pod.namespace}/{name}"
            yield PERSISTENT_VOLUME_CLAIM.kind, key
            claim = self._claims.get(key)
            if claim is None:
                continue
            if bound := volume_name(claim):
                yield PERSISTENT_VOLUME.kind, bound
            if bound not in self._volumes:
                yield STORAGE_CLASS.kind, class_of_claim(claim)

    def _attachable(self, pod: PodInfo, volume: Volume, *, migrated: bool) -> CsiVolumeKey | Status | None:
        """A volume of a pod; None if it does not count."""
        name = claim_name(pod.name, volume)
        if name is None:
            return _inline(volume) if migrated else None
        claim = self._claim(pod, volume, name)
        if isinstance(claim, Status):
            return claim
        return self._of_claim(claim, f"{pod.namespace}/{name}", migrated=migrated)

    def _claim(self, pod: PodInfo, volume: Volume, name: str) -> PersistentVolumeClaim | Status:
        """The claim of a volume of a pod."""
        if not name:
            return Status.error("PersistentVolumeClaim had no name")
        claim: PersistentVolumeClaim | None = self._claims.get(f"{pod.namespace}/{name}")
        if claim is None:
            problem = f'persistentvolumeclaim "{name}" not found'
            return Status.unresolvable(f"looking up PVC {pod.namespace}/{name}: {problem}")
        if volume.persistentVolumeClaim is None and not is_controlled_by(claim, pod.uid):
            problem = f"was not created for pod {pod.key} (pod is not owner)"
            return Status.error(f"PVC {pod.namespace}/{name} {problem}")
        return claim

    def _of_claim(self, claim: PersistentVolumeClaim, key: str, *, migrated: bool) -> CsiVolumeKey | None:
        volume = self._volumes.get(volume_name(claim))
        if volume is None or volume.spec is None:
            return self._of_class(claim, key, migrated=migrated)
        driver, handle = "", ""
        if volume.spec.csi is not None:
            driver, handle = volume.spec.csi.driver, volume.spec.csi.volumeHandle
        elif migrated:
            translated = self._accesses.of(volume).translated
            if translated is None:
                return None
            driver, handle = translated.driver, translated.handle
        return (driver, handle) if driver and handle else None

    def _of_class(self, claim: PersistentVolumeClaim, key: str, *, migrated: bool) -> CsiVolumeKey | None:
        """An unbound claim counts as one volume of the driver of its storage class."""
        storage_class = self._classes.get(class_of_claim(claim))
        if storage_class is None:
            return None
        driver = storage_class.provisioner
        plugin = BY_NAME.get(driver)
        if plugin is not None:
            if not plugin.migrated or not migrated:
                return None
            driver = plugin.driver
        return (driver, f"{_UNBOUND}{key}") if driver else None


def is_unbound(volume: CsiVolumeKey) -> bool:
    """Whether a claim without a volume counts as this one."""
    return volume[1].startswith(_UNBOUND)


def may_count(volume: Volume) -> bool:
    """Whether a volume of a pod may be one of a CSI driver."""
    return (
        volume.persistentVolumeClaim is not None or volume.ephemeral is not None or in_tree_plugin(volume) is not None
    )


def _inline(volume: Volume) -> CsiVolumeKey | Status | None:
    plugin = in_tree_plugin(volume)
    if plugin is None or not plugin.migrated:
        return None
    try:
        translated = translate_inline(volume, plugin)
    except Untranslatable as error:
        return Status.error(f"converting volume({volume.name}) from inline to csi: {error}")
    return translated.driver, translated.handle
