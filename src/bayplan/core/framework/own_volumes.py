"""The topics of volumes: they tell which pending pods a change of a claim, of a volume or of its users concerns.

Pods that are rejected alike are attempted one for all, although their claims differ. An event with a topic of a pod
takes that pod out of its group (`bayplan.core.queue.rejection_groups`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from lightkube.models.core_v1 import PersistentVolume, PersistentVolumeClaim, Volume

from bayplan.core.api.csi_translation import Untranslatable, in_tree_plugin, translate_inline
from bayplan.core.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from bayplan.core.api.volumes import claim_name, full_name, volume_name
from bayplan.core.cluster.objects import ObjectStores
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.volume_access import VolumeAccesses
from bayplan.core.framework.events import Topics

_CLAIM, _VOLUME = PERSISTENT_VOLUME_CLAIM.kind, PERSISTENT_VOLUME.kind


def own_volumes(objects: ObjectStores) -> Topics:
    """Return the topics of pods with claims, and of the events about claims, volumes and the pods that use them.

    What plugins read of a pod's claims, of the volumes that these are bound to, and of other pods that use either of
    them, is the same until an event with a topic of the pod.
    """
    found = _OwnVolumes(objects)
    return Topics(lambda pod: list(found.of(pod)), lambda old, new: [*found.of(old), *found.of(new)])


class _OwnVolumes:
    def __init__(self, objects: ObjectStores) -> None:
        self._claims, self._volumes = objects[PERSISTENT_VOLUME_CLAIM], objects[PERSISTENT_VOLUME]
        self._accesses = self._volumes.view(VolumeAccesses)

    def of(self, obj: Any) -> Iterator[Hashable]:
        """The topics of a pod, of a claim or of a volume; nothing for other objects."""
        if isinstance(obj, PodInfo):
            for volume in obj.volumes:
                yield from self._of_pod_volume(obj, volume)
        elif isinstance(obj, PersistentVolumeClaim):
            yield from self._of_claim(full_name(obj), obj)
        elif isinstance(obj, PersistentVolume):
            yield from self._of_volume(full_name(obj), obj)

    def _of_pod_volume(self, pod: PodInfo, volume: Volume) -> Iterator[Hashable]:
        name = claim_name(pod.name, volume)
        if name is not None:
            key = f"{pod.namespace}/{name}"
            yield from self._of_claim(key, self._claims.get(key))
        elif (plugin := in_tree_plugin(volume)) is not None:
            try:
                translated = translate_inline(volume, plugin)
            except Untranslatable:
                return
            yield translated.driver, translated.handle

    def _of_claim(self, key: str, claim: PersistentVolumeClaim | None) -> Iterator[Hashable]:
        yield _CLAIM, key
        if claim is not None and (name := volume_name(claim)):
            yield from self._of_volume(name, self._volumes.get(name))

    def _of_volume(self, name: str, volume: PersistentVolume | None) -> Iterator[Hashable]:
        """The volume by its name, and by its driver and handle, which several volumes may have."""
        yield _VOLUME, name
        if volume is None or volume.spec is None:
            return
        if volume.spec.csi is not None:
            yield volume.spec.csi.driver, volume.spec.csi.volumeHandle
        elif (translated := self._accesses.of(volume).translated) is not None:
            yield translated.driver, translated.handle
