"""Groups of pods, and their requirements.

Pods name a PodGroup object in a label, or define a group by labels alone (the older, lightweight form, which needs no
custom resource). Mirrors apis/scheduling/v1alpha1/types.go, pkg/util/podgroup.go, and kep/2-lightweight-coscheduling.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from bayplan.plugin import (
    LIGHTWEIGHT_LABEL,
    MIN_AVAILABLE_LABEL,
    POD_GROUP_LABEL,
    InvalidQuantity,
    ObjectStore,
    PodInfo,
    PodsByGroup,
    amounts_of,
)


class CoschedulingSpec(msgspec.Struct):
    """The spec of a PodGroup."""

    minMember: int = 0
    minResources: dict[str, str | int] = {}
    scheduleTimeoutSeconds: int | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """The requirements of a group.

    `finished`: how many members have succeeded, as the status says; they need no node any more. `min_resources`: in
    millicores of cpu and base units of other resources. `timeout`: in seconds. `problem`: why the group is invalid; ""
    if it is valid.
    """

    key: str
    name: str
    min_member: int = 0
    finished: int = 0
    min_resources: Mapping[str, int] = field(default_factory=dict)
    timeout: int | None = None
    problem: str = ""

    @property
    def needed(self) -> int:
        """How many members need a node at the same time."""
        return max(self.min_member - self.finished, 0)


class Groups:
    """All groups. `members`: the pods of groups, by the keys of `key_of`."""

    def __init__(self, members: PodsByGroup, pod_groups: ObjectStore) -> None:
        self._members = members
        self._pod_groups = pod_groups

    def of(self, pod: PodInfo) -> Group | None:
        """Return the group of a pod; None if it has none, or if its PodGroup does not exist."""
        key = key_of(pod)
        if key is None:
            return None
        if POD_GROUP_LABEL not in pod.labels:
            return _lightweight(key, pod)
        pod_group = self._pod_groups.get(key)
        return None if pod_group is None else _read(key, pod_group)

    def created(self, pod: PodInfo) -> datetime | None:
        """Return the creation time of a pod's group: of its PodGroup or, without one, of its oldest pod; or None."""
        key = key_of(pod)
        if key is None:
            return None
        if POD_GROUP_LABEL in pod.labels:
            pod_group = self._pod_groups.get(key)
            created = pod_group.metadata.creationTimestamp if pod_group is not None else None
            return created.replace(tzinfo=created.tzinfo or UTC) if created else None
        return self._members.oldest(key)


def key_of(pod: PodInfo) -> str | None:
    """Return `namespace/name` of a pod's group; None if it has none."""
    name = pod.labels.get(POD_GROUP_LABEL) or pod.labels.get(LIGHTWEIGHT_LABEL)
    return f"{pod.namespace}/{name}" if name else None


def spec_of(pod_group: Any) -> CoschedulingSpec:
    """Return the spec of a PodGroup. Raises msgspec.ValidationError."""
    return msgspec.convert(pod_group.get("spec") or {}, CoschedulingSpec)


def _read(key: str, pod_group: Any) -> Group:
    name = key.partition("/")[2]
    try:
        spec = spec_of(pod_group)
        least = amounts_of(spec.minResources)
    except (msgspec.ValidationError, InvalidQuantity) as error:
        return Group(key, name, problem=f"PodGroup {key} is invalid: {error}")
    return Group(key, name, spec.minMember, succeeded(pod_group), least, spec.scheduleTimeoutSeconds)


def succeeded(pod_group: Mapping[str, Any]) -> int:
    """Return how many members have succeeded, as the status says."""
    status = pod_group.get("status")
    number = status.get("succeeded") if isinstance(status, Mapping) else None
    return number if isinstance(number, int) and number > 0 else 0


def _lightweight(key: str, pod: PodInfo) -> Group:
    name, text = key.partition("/")[2], pod.labels.get(MIN_AVAILABLE_LABEL, "")
    if text.isascii() and text.isdigit() and int(text) > 0:
        return Group(key, name, int(text))
    problem = f"label {MIN_AVAILABLE_LABEL} is {text!r}, expected the number of pods that group {key} needs, at least 1"
    return Group(key, name, problem=problem)
