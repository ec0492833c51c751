"""Writes the condition of PodGroups that says whether they were placed: PodGroupInitiallyScheduled.

CompositePodGroups have CompositePodGroupInitiallyScheduled.

Writes are not queued: only the latest outcome of each group is written. Mirrors updatePodGroupCondition in
pkg/scheduler/schedule_one_podgroup.go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bayplan.core.api.kinds import Kind, custom_kind
from bayplan.core.api.pod_groups import COMPOSITE_SCHEDULED, COMPOSITES, scheduled_condition, served_as
from bayplan.core.api.times import rfc3339
from bayplan.core.cluster.objects import ObjectStore
from bayplan.core.framework.gangs import GangOutcome
from bayplan.core.framework.handle import Handle

log = logging.getLogger(__name__)

_STATUS_AND_REASON = {
    GangOutcome.PLACED: ("True", "Scheduled"),
    GangOutcome.REFUSED: ("False", "Unschedulable"),
    GangOutcome.ERROR: ("False", "SchedulerError"),
}
_RETRY_SECONDS = 1.0
_NOT_FOUND, _CONFLICT = 404, 409


@dataclass(frozen=True, slots=True)
class GroupReport:
    """The outcome of a group's attempt, with its message."""

    outcome: GangOutcome
    message: str


class PodGroupConditions:
    """The conditions to be written, by group key. Outcomes that are reported before `run` starts are kept."""

    what = "PodGroup"

    def __init__(self, handle: Handle, pod_groups: ObjectStore) -> None:
        self._handle = handle
        self._pod_groups = pod_groups
        self._due: dict[str, GroupReport] = {}
        self._placed: dict[str, str] = {}
        """By key: the UIDs of groups that have been placed, even if the API server does not know it yet."""
        self._work = asyncio.Event()
        pod_groups.listen(self._forget)

    def report(self, key: str, outcome: GangOutcome, message: str) -> None:
        """Report the outcome of a group. Once a group has been placed, later outcomes are ignored."""
        pod_group = self._pod_groups.get(key)
        if pod_group is None or self._placed.get(key) == pod_group.metadata.uid:
            return
        if outcome is GangOutcome.PLACED:
            self._placed[key] = pod_group.metadata.uid
        self._due[key] = GroupReport(outcome, message)
        self._work.set()

    async def run(self) -> None:
        """Write conditions until cancelled. Failed writes are retried."""
        if self._handle.client is None:
            return
        while True:
            await self._work.wait()
            failed = await self.catch_up()
            if failed:
                await asyncio.sleep(_RETRY_SECONDS)
                self._due = {**failed, **self._due}
                self._work.set()

    async def catch_up(self) -> dict[str, GroupReport]:
        """Write all conditions that are due. Returns those that failed."""
        self._work.clear()
        due, self._due = self._due, {}
        failed: dict[str, GroupReport] = {}
        for key, report in due.items():
            try:
                await self._write(key, report)
            except Exception as error:  # noqa: BLE001 - any error of the client; it must not affect other groups
                if getattr(error, "status", None) == _NOT_FOUND:
                    continue  # the group was deleted
                level = logging.DEBUG if getattr(error, "status", None) == _CONFLICT else logging.WARNING
                log.log(level, "could not write the condition of %s %s: %s", self.what, key, error)
                failed[key] = report
        return failed

    async def _write(self, key: str, report: GroupReport) -> None:
        client, pod_group = self._handle.client, self._pod_groups.get(key)
        if client is None or pod_group is None:
            return
        kind, type_ = self._kind_and_type(pod_group)
        condition = changed_condition(pod_group, report, self._handle.now(), type_)
        if condition is None:
            return
        namespace, _, name = key.partition("/")
        others = [each for each in _conditions(pod_group) if each.get("type") != condition["type"]]
        metadata = pod_group.metadata
        preconditions = {"uid": metadata.uid, "resourceVersion": metadata.resourceVersion}
        patch = {"metadata": preconditions, "status": {"conditions": [*others, condition]}}
        await client.patch(kind, name, patch, namespace, subresource="status")

    def _kind_and_type(self, pod_group: Any) -> tuple[Kind, str]:
        """The kind that the server has the group by, and the type of its condition."""
        return served_as(pod_group), scheduled_condition(pod_group)

    def _forget(self, old: Any, new: Any) -> None:
        if old is not None and new is None:
            self._placed.pop(f"{old.metadata.namespace}/{old.metadata.name}", None)


class CompositeConditions(PodGroupConditions):
    """The same for CompositePodGroups."""

    what = "CompositePodGroup"

    def _kind_and_type(self, pod_group: Any) -> tuple[Kind, str]:
        return custom_kind(COMPOSITES), COMPOSITE_SCHEDULED


def changed_condition(
    pod_group: Mapping[str, Any], report: GroupReport, now: datetime, type_: str = ""
) -> dict[str, Any] | None:
    """Return the new condition of a group; None if it would not change, or if the group was placed before.

    `lastTransitionTime` changes only with the condition's status. `type_`: by default that of a PodGroup.
    """
    type_ = type_ or scheduled_condition(pod_group)
    old = next((each for each in _conditions(pod_group) if each.get("type") == type_), None)
    status, reason = _STATUS_AND_REASON[report.outcome]
    if old is not None and old.get("status") == "True" != status:
        return None
    condition: dict[str, Any] = {"type": type_, "status": status, "reason": reason, "message": report.message}
    generation = (pod_group.get("metadata") or {}).get("generation")
    if generation is not None:
        condition["observedGeneration"] = generation
    if old is not None and all(old.get(field, "") == value for field, value in condition.items()):
        return None
    kept = old.get("lastTransitionTime") if old is not None and old.get("status") == status else None
    return {**condition, "lastTransitionTime": kept or rfc3339(now)}


def _conditions(pod_group: Mapping[str, Any]) -> list[dict[str, Any]]:
    return (pod_group.get("status") or {}).get("conditions") or []
