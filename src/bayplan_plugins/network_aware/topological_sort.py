"""TopologicalSort: sorts the pods of an AppGroup so that workloads come before those that depend on them, or after.

The controller of AppGroups decides on the order; its `status.topologyOrder` says it. Mirrors
pkg/networkaware/topologicalsort/topologicalsort.go of scheduler-plugins, whose order isn't one: A can come before B, B
before C, and C before A. Here, priority comes first, then the age of the AppGroup's oldest pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from bayplan.plugin import Handle, Plugin, PodInfo, PodsByGroup
from bayplan_plugins.definitions import definition
from bayplan_plugins.network_aware.groups import GROUP_LABEL, PERMISSIONS, AppGroups, NamespacesArgs

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class TopologicalSortArgs(NamespacesArgs, kw_only=True):
    """Arguments of TopologicalSort."""


class TopologicalSort(Plugin):
    """Pods with equal priorities are sorted by their age; those of an AppGroup stay together, in its order."""

    name = "TopologicalSort"
    arguments = TopologicalSortArgs
    permissions = PERMISSIONS[:1]

    def __init__(self, args: TopologicalSortArgs, handle: Handle) -> None:
        self._groups = AppGroups(handle, args.namespaces)
        self._members = PodsByGroup(handle.objects("Pod"), _group_of)

    @classmethod
    def definitions(cls) -> Iterable[Mapping[str, Any]]:
        """Return the definition of the resource that it reads."""
        return (definition("appgroups"),)

    def sort_key(self, pod: PodInfo, queued_at: float) -> tuple[int, datetime, int, float]:
        """Return the key of a queued pod: the smallest key is popped first."""
        group = _group_of(pod)
        oldest = self._members.oldest(group) if group is not None else None
        age = oldest or pod.creation_timestamp or _LONG_AGO
        return -pod.priority, age, self._groups.order(pod) if group is not None else 0, queued_at


def _group_of(pod: PodInfo) -> str | None:
    return pod.labels.get(GROUP_LABEL) or None
