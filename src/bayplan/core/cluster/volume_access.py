"""From where volumes can be accessed, and as which CSI volumes: parsed and translated once per version of a volume.

An in-tree volume whose plugin is migrated on a node counts there as the CSI volume that it is translated to. What can't
be translated says why.
"""

from __future__ import annotations

from dataclasses import dataclass

from lightkube.models.core_v1 import NodeSelector as NodeSelectorObject
from lightkube.models.core_v1 import PersistentVolume

from bayplan.core.api.csi_translation import CsiVolume, InTreePlugin, Untranslatable, in_tree_plugin, translate
from bayplan.core.api.selectors import NodeSelector, parse_node_selector
from bayplan.core.api.volumes import full_name
from bayplan.core.cluster.objects import ObjectStore


@dataclass(frozen=True, slots=True)
class VolumeAccess:
    """What a volume requires of nodes.

    `required`: the node affinity; None means that all nodes match. `plugin`: the in-tree plugin of the volume, if its
    volumes are migrated. `translated`: the CSI volume that it is on nodes with the migrated plugin, and
    `translated_required` its node affinity; None if it can't be translated, for the reason in `untranslatable`.
    """

    required: NodeSelector | None
    plugin: InTreePlugin | None = None
    translated: CsiVolume | None = None
    translated_required: NodeSelector | None = None
    untranslatable: str = ""

    @classmethod
    def of(cls, volume: PersistentVolume) -> VolumeAccess:
        """Parse a volume's node affinity, and translate the volume."""
        affinity = volume.spec.nodeAffinity if volume.spec else None
        required = _parsed(affinity.required if affinity else None)
        plugin = in_tree_plugin(volume.spec) if volume.spec else None
        if plugin is None or not plugin.migrated:
            return cls(required)
        try:
            translated = translate(volume, plugin)
        except Untranslatable as error:
            return cls(required, plugin, untranslatable=str(error))
        return cls(required, plugin, translated, _parsed(translated.required))


class VolumeAccesses:
    """A view of the persistent volumes: the VolumeAccess of each that was asked for."""

    def __init__(self, volumes: ObjectStore) -> None:
        self._volumes = volumes
        self._by_name: dict[str, VolumeAccess] = {}
        volumes.listen(self._changed)

    def of(self, volume: PersistentVolume) -> VolumeAccess:
        """The VolumeAccess of a version of a volume; only the one in the store is kept."""
        name = full_name(volume)
        if self._volumes.get(name) is not volume:
            return VolumeAccess.of(volume)
        access = self._by_name.get(name)
        if access is None:
            access = self._by_name[name] = VolumeAccess.of(volume)
        return access

    def _changed(self, before: PersistentVolume | None, _now: PersistentVolume | None) -> None:
        if before is not None:
            self._by_name.pop(full_name(before), None)


def _parsed(required: NodeSelectorObject | None) -> NodeSelector | None:
    return None if required is None else parse_node_selector(required)
