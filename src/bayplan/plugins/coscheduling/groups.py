"""Groups of pods: which group a pod belongs to, what the group wants, and who else is in it.

A group is a PodGroup that pods name by a label, or exists by its pods' labels alone (the older form, which needs no
custom resource). Mirrors apis/scheduling/v1alpha1/types.go, pkg/util/podgroup.go, and kep/2-lightweight-coscheduling.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from bayplan.api import requests
from bayplan.api.quantity import InvalidQuantity
from bayplan.cluster.objects import ObjectStore
from bayplan.cluster.pod_groups import PodsByGroup
from bayplan.cluster.pod_info import PodInfo

POD_GROUPS = "podgroups.v1alpha1.scheduling.x-k8s.io"
POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
LIGHTWEIGHT_LABEL = "pod-group.scheduling.sigs.k8s.io/name"
MIN_AVAILABLE_LABEL = "pod-group.scheduling.sigs.k8s.io/min-available"


class PodGroupSpec(msgspec.Struct):
    """`spec` of a PodGroup."""

    minMember: int = 0
    minResources: dict[str, str | int] = {}
    scheduleTimeoutSeconds: int | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """What a group wants. `min_resources`: in units as nodes count them. `problem`: why it cannot be understood."""

    key: str
    name: str
    min_member: int = 0
    min_resources: Mapping[str, int] = field(default_factory=dict)
    timeout: int | None = None
    problem: str = ""


class Groups:
    """All groups, by the keys of `key_of`. `members` has their pods."""

    def __init__(self, members: PodsByGroup, pod_groups: ObjectStore) -> None:
        self._members = members
        self._pod_groups = pod_groups

    def of(self, pod: PodInfo) -> Group | None:
        """The group of a pod; None for a pod without one, and where there is no such PodGroup."""
        key = key_of(pod)
        if key is None:
            return None
        if POD_GROUP_LABEL not in pod.labels:
            return _lightweight(key, pod)
        pod_group = self._pod_groups.get(key)
        return None if pod_group is None else _read(key, pod_group)

    def created(self, pod: PodInfo) -> datetime | None:
        """When the group of a pod was created: its PodGroup, or the oldest pod of one without; None if unknown."""
        key = key_of(pod)
        if key is None:
            return None
        if POD_GROUP_LABEL in pod.labels:
            pod_group = self._pod_groups.get(key)
            created: datetime | None = pod_group.metadata.creationTimestamp if pod_group is not None else None
            return created
        return self._members[key].oldest


def key_of(pod: PodInfo) -> str | None:
    """`namespace/name` of a pod's group; None for a pod without one."""
    name = pod.labels.get(POD_GROUP_LABEL) or pod.labels.get(LIGHTWEIGHT_LABEL)
    return f"{pod.namespace}/{name}" if name else None


def amounts(pods: Iterable[PodInfo]) -> dict[str, int]:
    """What pods request together."""
    total: dict[str, int] = {}
    for pod in pods:
        for resource, amount in pod.requested.items():
            total[resource] = total.get(resource, 0) + amount
    return total


def spec_of(pod_group: Any) -> PodGroupSpec:
    """The spec of a PodGroup. Raises msgspec.ValidationError."""
    return msgspec.convert(pod_group.get("spec") or {}, PodGroupSpec)


def _read(key: str, pod_group: Any) -> Group:
    name = key.partition("/")[2]
    try:
        spec = spec_of(pod_group)
        resources = {resource: str(amount) for resource, amount in spec.minResources.items()}
        least = requests.counted(requests.parse_amounts(resources))
    except (msgspec.ValidationError, InvalidQuantity) as error:
        return Group(key, name, problem=f"PodGroup {key} cannot be understood: {error}")
    return Group(key, name, spec.minMember, least, spec.scheduleTimeoutSeconds)


def _lightweight(key: str, pod: PodInfo) -> Group:
    name, text = key.partition("/")[2], pod.labels.get(MIN_AVAILABLE_LABEL, "")
    if text.isascii() and text.isdigit() and int(text) > 0:
        return Group(key, name, int(text))
    problem = f"label {MIN_AVAILABLE_LABEL} is {text!r}, expected how many pods of group {key} are needed, 1 at least"
    return Group(key, name, problem=problem)
