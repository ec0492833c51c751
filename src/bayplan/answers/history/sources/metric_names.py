"""The names of labels and resources, which kube-state-metrics writes with _ in place of most characters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kinds import NODE, POD

_WELL_KNOWN = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "node.kubernetes.io/instance-type",
    "node-role.kubernetes.io/control-plane",
    "karpenter.sh/nodepool",
    "karpenter.sh/capacity-type",
    "eks.amazonaws.com/nodegroup",
    "eks.amazonaws.com/capacityType",
    "cloud.google.com/gke-nodepool",
    "cloud.google.com/gke-spot",
    "kubernetes.azure.com/agentpool",
    "app.kubernetes.io/name",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/component",
)
_RESOURCES = ("ephemeral-storage", "nvidia.com/gpu", "amd.com/gpu", "hugepages-2Mi", "hugepages-1Gi")
_UNSAFE = re.compile(r"[^a-zA-Z0-9_]")


def resource_names(snapshot: Snapshot) -> Mapping[str, str]:
    """Safe name -> resource: well-known ones, and those of a snapshot's nodes."""
    return _names(_RESOURCES, _resource_names(snapshot))


def label_keys(snapshot: Snapshot) -> Mapping[str, str]:
    """Safe name -> label key: well-known ones, and those of a snapshot's nodes and pods."""
    return _names(_WELL_KNOWN, _label_keys(snapshot))


def safe(name: str) -> str:
    """A name as kube-state-metrics writes it."""
    return _UNSAFE.sub("_", name)


def _names(well_known: Iterable[str], found: Iterable[str]) -> dict[str, str]:
    return {safe(name): name for name in (*well_known, *sorted(set(found)))}


def _resource_names(snapshot: Snapshot) -> Iterator[str]:
    for key in snapshot.of_kind(NODE):
        document = snapshot.document(NODE, key)
        yield from ((document or {}).get("status") or {}).get("allocatable") or ()


def _label_keys(snapshot: Snapshot) -> Iterator[str]:
    for kind in (NODE, POD):
        for key in snapshot.of_kind(kind):
            document = snapshot.document(kind, key)
            yield from ((document or {}).get("metadata") or {}).get("labels") or ()
