"""Translates volumes of former in-tree volume plugins into volumes of the CSI drivers that replaced them.

Mirrors the parts of csi-translation-lib that affect scheduling: driver, handle and topology.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
from lightkube.models.core_v1 import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PersistentVolume, Volume

from bayplan.core.api.well_known_labels import BETA_ZONE, ZONE

REGION = "topology.kubernetes.io/region"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"

_ZONES_DELIMITER = "__"
_UNSPECIFIED = "UNSPECIFIED"
_AWS_VOLUME = re.compile(r"vol-[^/]*")


class Untranslatable(ValueError):
    """A volume that can't be translated to a CSI volume. The message is upstream's."""


@dataclass(frozen=True, slots=True)
class InTreePlugin:
    """A former in-tree plugin and the CSI driver that replaced it.

    `source` is the field of the plugin's volumes. `migrated` means that its volumes count as the driver's.
    """

    name: str
    driver: str
    source: str
    handle: Callable[[Any, Mapping[str, str] | None], str]
    """Returns the handle for a source and the volume's labels (None for a volume in a pod's spec)."""
    topology_key: str = ""
    migrated: bool = True


@dataclass(frozen=True, slots=True)
class CsiVolume:
    """A CSI volume. `required` selects the nodes that can access it; None means all nodes."""

    driver: str
    handle: str
    required: NodeSelector | None = None


def in_tree_plugin(owner: Any) -> InTreePlugin | None:
    """The former in-tree plugin of a persistent volume's spec or of a pod's volume; None if there is none."""
    return next((plugin for plugin in PLUGINS if getattr(owner, plugin.source) is not None), None)


def translate(volume: PersistentVolume, plugin: InTreePlugin) -> CsiVolume:
    """Translate a persistent volume of a plugin. Raises Untranslatable."""
    assert volume.spec is not None
    labels = (volume.metadata.labels if volume.metadata else None) or {}
    handle = plugin.handle(getattr(volume.spec, plugin.source), labels)
    affinity = volume.spec.nodeAffinity
    required = affinity.required if affinity else None
    return CsiVolume(plugin.driver, handle, _translated(required, labels, plugin.topology_key))


def translate_inline(volume: Volume, plugin: InTreePlugin) -> CsiVolume:
    """Translate a volume in a pod's spec. Raises Untranslatable."""
    return CsiVolume(plugin.driver, plugin.handle(getattr(volume, plugin.source), None))


def _aws_handle(source: Any, _labels: Mapping[str, str] | None) -> str:
    text: str = source.volumeID
    if not text.startswith("aws://"):
        return text
    failure = "failed to translate Kubernetes ID to EBS Volume ID"
    try:
        handle = unquote(urlsplit(text).path).strip("/")
    except ValueError as error:
        raise Untranslatable(f"{failure} Invalid disk name ({text}): {error}") from None
    if not _AWS_VOLUME.fullmatch(handle):
        raise Untranslatable(f"{failure} Invalid format for AWS volume ({text})")
    return handle


def _gce_handle(source: Any, labels: Mapping[str, str] | None) -> str:
    names = ((labels or {}).get(BETA_ZONE) or (labels or {}).get(ZONE) or "").split(_ZONES_DELIMITER)
    where = f"zones/{names[0] or _UNSPECIFIED}" if len(names) == 1 else f"regions/{_gce_region(names)}"
    return f"projects/{_UNSPECIFIED}/{where}/disks/{source.pdName}"


def _gce_region(zones: list[str]) -> str:
    failure = "failed to get region from zones"
    regions = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            problem = f"zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
            raise Untranslatable(f"{failure}: {problem}")
        regions.add("-".join(parts[:2]))
    if len(regions) != 1:
        names = " ".join(f"{region}:{{}}" for region in sorted(regions))
        raise Untranslatable(f"{failure}: multiple or no regions gotten from zones, got: map[{names}]")
    return regions.pop()


def _azure_disk_handle(source: Any, _labels: Mapping[str, str] | None) -> str:
    if source.kind is not None and source.kind.lower() != "managed":
        raise Untranslatable(f"kind({source.kind}) is not supported in csi migration")
    handle: str = source.diskURI
    return handle


def _volume_id(source: Any, _labels: Mapping[str, str] | None) -> str:
    handle: str = source.volumeID
    return handle


def _not_migrated(_source: Any, _labels: Mapping[str, str] | None) -> str:
    raise Untranslatable("volumes of this plugin don't count as volumes of a CSI driver")


PLUGINS: tuple[InTreePlugin, ...] = (
    InTreePlugin(
        "kubernetes.io/aws-ebs", "ebs.csi.aws.com", "awsElasticBlockStore", _aws_handle, "topology.ebs.csi.aws.com/zone"
    ),
    InTreePlugin(
        "kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "gcePersistentDisk", _gce_handle, "topology.gke.io/zone"
    ),
    InTreePlugin(
        "kubernetes.io/cinder",
        "cinder.csi.openstack.org",
        "cinder",
        _volume_id,
        "topology.cinder.csi.openstack.org/zone",
    ),
    InTreePlugin("kubernetes.io/azure-disk", "disk.csi.azure.com", "azureDisk", _azure_disk_handle),
    InTreePlugin("kubernetes.io/portworx-volume", "pxd.portworx.com", "portworxVolume", _volume_id),
    InTreePlugin("kubernetes.io/azure-file", "file.csi.azure.com", "azureFile", _not_migrated, migrated=False),
    InTreePlugin("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com", "vsphereVolume", _not_migrated, "", False),
)
BY_NAME: Mapping[str, InTreePlugin] = {plugin.name: plugin for plugin in PLUGINS}


def _translated(required: NodeSelector | None, labels: Mapping[str, str], key: str) -> NodeSelector | None:
    """The volume's required topology with the driver's topology keys.

    The volume's node affinity takes precedence over its labels; beta labels of nodes are replaced by the GA ones.
    Mirrors translateTopologyFromInTreeToCSI.
    """
    if not key:
        return required
    zone, region = _topology_labels(required, labels)
    names = {zone: key}
    if region == BETA_REGION:
        names[BETA_REGION] = REGION
    renamed = _renamed(required, {old: new for old, new in names.items() if _values(required, old)})
    if _values(required, zone) or zone not in labels:
        return renamed
    values = sorted({name.strip() for name in labels[zone].split(_ZONES_DELIMITER)} - {""})
    if not values:
        return renamed
    terms = (renamed.nodeSelectorTerms if renamed else None) or [NodeSelectorTerm()]
    added = NodeSelectorRequirement(key=key, operator="In", values=values)
    return NodeSelector(
        nodeSelectorTerms=[
            msgspec.structs.replace(term, matchExpressions=[*(term.matchExpressions or ()), added]) for term in terms
        ]
    )


def _topology_labels(required: NodeSelector | None, labels: Mapping[str, str]) -> tuple[str, str]:
    keys = {requirement.key for requirement in _requirements(required)}
    for known in (keys, labels):
        if ZONE in known:
            return ZONE, REGION
        if BETA_ZONE in known:
            return BETA_ZONE, BETA_REGION
    return ZONE, REGION


def _requirements(required: NodeSelector | None) -> list[NodeSelectorRequirement]:
    terms = (required.nodeSelectorTerms if required else None) or ()
    return [expression for term in terms for expression in term.matchExpressions or ()]


def _values(required: NodeSelector | None, key: str) -> bool:
    return any(requirement.values for requirement in _requirements(required) if requirement.key == key)


def _renamed(required: NodeSelector | None, names: Mapping[str, str]) -> NodeSelector | None:
    if required is None or not names:
        return required
    return NodeSelector(
        nodeSelectorTerms=[
            msgspec.structs.replace(
                term,
                matchExpressions=[
                    msgspec.structs.replace(expression, key=names.get(expression.key, expression.key))
                    for expression in term.matchExpressions or ()
                ],
            )
            for term in required.nodeSelectorTerms or ()
        ]
    )
