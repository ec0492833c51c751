"""Kubernetes' own PodGroup (scheduling.k8s.io/v1alpha2): as much of it as a scheduler reads.

The API is alpha: PodGroups are read leniently, as custom objects, so that a field that is new or gone breaks nothing.
"""

from __future__ import annotations

from typing import Any

import msgspec

POD_GROUPS = "podgroups.v1alpha2.scheduling.k8s.io"

TOGETHER = "PodGroup"
"""The disruption mode of groups of which all pods are evicted, or none."""


class GangPolicy(msgspec.Struct):
    """`gang` of a scheduling policy."""

    minCount: int


class SchedulingPolicy(msgspec.Struct):
    """`schedulingPolicy`; without `gang`, the group's pods do not need each other."""

    gang: GangPolicy | None = None


class TopologyConstraint(msgspec.Struct):
    """The label whose value all nodes of the group have to share."""

    key: str


class SchedulingConstraints(msgspec.Struct):
    """`schedulingConstraints`; the API allows one topology at most."""

    topology: list[TopologyConstraint] | None = None


class PodGroupSpec(msgspec.Struct):
    """`spec` of a PodGroup."""

    schedulingPolicy: SchedulingPolicy
    schedulingConstraints: SchedulingConstraints | None = None
    disruptionMode: str | None = None
    priority: int | None = None

    @property
    def least(self) -> int:
        """How many pods have to be placed together."""
        return 0 if self.schedulingPolicy.gang is None else self.schedulingPolicy.gang.minCount

    @property
    def topology_key(self) -> str:
        """The label whose value all nodes of the group have to share; nothing where there is no constraint."""
        topology = self.schedulingConstraints.topology if self.schedulingConstraints else None
        return topology[0].key if topology else ""


def spec_of(pod_group: Any) -> PodGroupSpec:
    """The spec of a PodGroup. Raises msgspec.ValidationError for one that cannot be understood."""
    return msgspec.convert(pod_group.get("spec") or {}, PodGroupSpec)
