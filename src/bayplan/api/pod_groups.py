"""The fields of Kubernetes' PodGroup (scheduling.k8s.io/v1alpha2) that a scheduler reads.

The API is alpha, so PodGroups are decoded leniently, as custom objects: added or removed fields do no harm.
"""

from __future__ import annotations

from typing import Any

import msgspec

POD_GROUPS = "podgroups.v1alpha2.scheduling.k8s.io"

TOGETHER = "PodGroup"
"""The disruption mode of groups whose pods are evicted all together or not at all."""


class GangPolicy(msgspec.Struct):
    """`gang` of a scheduling policy."""

    minCount: int


class SchedulingPolicy(msgspec.Struct):
    """`schedulingPolicy`. Without `gang`, the group's pods are scheduled independently."""

    gang: GangPolicy | None = None


class TopologyConstraint(msgspec.Struct):
    """A node label that must have the same value on all nodes of the group."""

    key: str


class SchedulingConstraints(msgspec.Struct):
    """`schedulingConstraints`. The API allows at most one topology."""

    topology: list[TopologyConstraint] | None = None


class PodGroupSpec(msgspec.Struct):
    """`spec` of a PodGroup."""

    schedulingPolicy: SchedulingPolicy
    schedulingConstraints: SchedulingConstraints | None = None
    disruptionMode: str | None = None
    priority: int | None = None

    @property
    def least(self) -> int:
        """The minimum number of pods that must be placed together."""
        return 0 if self.schedulingPolicy.gang is None else self.schedulingPolicy.gang.minCount

    @property
    def topology_key(self) -> str:
        """The node label that must have the same value on all nodes of the group; "" without such a constraint."""
        topology = self.schedulingConstraints.topology if self.schedulingConstraints else None
        return topology[0].key if topology else ""


def spec_of(pod_group: Any) -> PodGroupSpec:
    """The spec of a PodGroup. Raises msgspec.ValidationError for a malformed one."""
    return msgspec.convert(pod_group.get("spec") or {}, PodGroupSpec)
