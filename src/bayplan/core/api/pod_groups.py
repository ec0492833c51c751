"""The fields of Kubernetes' PodGroup (scheduling.k8s.io) that a scheduler reads, whatever version a server has.

Kubernetes 1.37 serves PodGroups in v1beta1 and v1alpha3, which have the same fields, and 1.36 in v1alpha2. All of them
are read as v1beta1 and kept in one store. A PodGroup keeps the form in which it was sent, and `apiVersion` says which
one that is. They are decoded leniently, as custom objects: added or removed fields do no harm. So are
CompositePodGroups, the groups of groups, which 1.37 has in v1alpha3 alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bayplan.core.api.kinds import Kind, custom_kind

POD_GROUPS = "podgroups.v1beta1.scheduling.k8s.io"
"""The kind that all PodGroups are read as."""

OLDER_POD_GROUPS = tuple(custom_kind(f"podgroups.{version}.scheduling.k8s.io") for version in ("v1alpha3", "v1alpha2"))
"""The other versions in which servers have them, the newest one first."""

COMPOSITES = "compositepodgroups.v1alpha3.scheduling.k8s.io"
"""The kind of CompositePodGroups."""

MOST_LEVELS = 4
"""The most levels that a tree of groups may have; the PodGroup is one of them. Mirrors WorkloadMaxTreeDepth."""

SCHEDULED, SCHEDULED_IN_1_36 = "PodGroupInitiallyScheduled", "PodGroupScheduled"
COMPOSITE_SCHEDULED = "CompositePodGroupInitiallyScheduled"


class GangPolicy(msgspec.Struct):
    """`gang` of a scheduling policy."""

    minCount: int


class CompositeGangPolicy(msgspec.Struct):
    """`gang` of a scheduling policy of a CompositePodGroup."""

    minGroupCount: int


class SchedulingPolicy(msgspec.Struct):
    """`schedulingPolicy`. Without `gang`, the group's pods are scheduled independently."""

    gang: GangPolicy | None = None


class CompositeSchedulingPolicy(msgspec.Struct):
    """`schedulingPolicy` of a CompositePodGroup. Without `gang`, one of its groups is enough."""

    gang: CompositeGangPolicy | None = None


class TopologyConstraint(msgspec.Struct):
    """A node label that must have the same value on all nodes of the group."""

    key: str


class SchedulingConstraints(msgspec.Struct):
    """`schedulingConstraints`. The API allows at most one topology."""

    topology: list[TopologyConstraint] | None = None


class DisruptionMode(msgspec.Struct):
    """`disruptionMode` since v1alpha3: `all` or `single`. v1alpha2 has the texts PodGroup and Pod."""

    all: dict[str, Any] | None = None


class GroupClaim(msgspec.Struct):
    """An item of `resourceClaims`: a claim that the group's pods share."""

    name: str = ""
    resourceClaimName: str | None = None
    resourceClaimTemplateName: str | None = None


class GroupSpec(msgspec.Struct, kw_only=True):
    """What the `spec` of a PodGroup and that of a CompositePodGroup have in common."""

    schedulingConstraints: SchedulingConstraints | None = None
    disruptionMode: DisruptionMode | str | None = None
    priority: int | None = None
    preemptionPolicy: str | None = None
    parentCompositePodGroupName: str | None = None

    @property
    def topology_key(self) -> str:
        """The node label that must have the same value on all nodes of the group; "" without such a constraint."""
        topology = self.schedulingConstraints.topology if self.schedulingConstraints else None
        return topology[0].key if topology else ""

    @property
    def evicted_together(self) -> bool:
        """Whether the group's pods are evicted all together or not at all."""
        mode = self.disruptionMode
        return mode.all is not None if isinstance(mode, DisruptionMode) else mode == "PodGroup"


class PodGroupSpec(GroupSpec, kw_only=True):
    """`spec` of a PodGroup."""

    schedulingPolicy: SchedulingPolicy
    resourceClaims: list[GroupClaim] | None = None

    @property
    def least(self) -> int:
        """The minimum number of pods that must be placed together."""
        return 0 if self.schedulingPolicy.gang is None else self.schedulingPolicy.gang.minCount


class CompositeSpec(GroupSpec, kw_only=True):
    """`spec` of a CompositePodGroup."""

    schedulingPolicy: CompositeSchedulingPolicy

    @property
    def least(self) -> int:
        """The minimum number of groups that must be placed together."""
        return 1 if self.schedulingPolicy.gang is None else self.schedulingPolicy.gang.minGroupCount


def spec_of(pod_group: Any) -> PodGroupSpec:
    """The spec of a PodGroup. Raises msgspec.ValidationError for a malformed one."""
    return msgspec.convert(pod_group.get("spec") or {}, PodGroupSpec)


def composite_spec_of(composite: Any) -> CompositeSpec:
    """The spec of a CompositePodGroup. Raises msgspec.ValidationError for a malformed one."""
    return msgspec.convert(composite.get("spec") or {}, CompositeSpec)


def claims_made_for(pod_group: Mapping[str, Any]) -> dict[str, str | None]:
    """The names of the claims that were made from templates for a PodGroup, by the names of its references."""
    statuses = (pod_group.get("status") or {}).get("resourceClaimStatuses") or ()
    return {each.get("name", ""): each.get("resourceClaimName") for each in statuses}


def served_as(pod_group: Mapping[str, Any]) -> Kind:
    """The kind by which the server has a PodGroup."""
    version = pod_group.get("apiVersion")
    return next((kind for kind in OLDER_POD_GROUPS if kind.api_version == version), custom_kind(POD_GROUPS))


def scheduled_condition(pod_group: Mapping[str, Any]) -> str:
    """The type of the condition that says whether the group was placed."""
    return SCHEDULED_IN_1_36 if served_as(pod_group).version == "v1alpha2" else SCHEDULED
