"""Keeps the status of PodGroups up to date. Mirrors pkg/controllers/podgroup_controller.go of scheduler-plugins.

It runs in the plugin's `background` task, beside attempts, and affects no decision.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from lightkube.models.core_v1 import Pod

from bayplan.client import kind_of, kinds
from bayplan.plugin import POD_GROUP_LABEL, POD_GROUPS, Handle, ObjectStore, PodInfo
from bayplan_plugins.coscheduling.groups import spec_of
from bayplan_plugins.status_writer import StatusWriter

log = logging.getLogger("bayplan.coscheduling")

PENDING, SCHEDULING, RUNNING, FINISHED, FAILED = "Pending", "Scheduling", "Running", "Finished", "Failed"


class PodGroupStatuses(StatusWriter):
    """Updates the status of PodGroups whose pods, or which themselves, have changed.

    Pods are listed from the API server, because the scheduler's store holds no terminated pods.
    """

    def __init__(self, handle: Handle, pods: ObjectStore, pod_groups: ObjectStore) -> None:
        super().__init__(handle, log)
        self._kind = kind_of(POD_GROUPS)
        self._pod_groups = pod_groups
        pods.listen(self._pod_changed)
        pod_groups.listen(self._group_changed)

    async def catch_up(self) -> list[str]:
        """Update the status of all changed groups. Returns the keys of those that failed."""
        return [key for key in sorted(self.take()) if not await self.written(f"PodGroup {key}", self._update(key))]

    async def _update(self, key: str) -> None:
        client, pod_group = self._handle.client, self._pod_groups.get(key)
        if client is None or pod_group is None or (least := least_members(pod_group)) is None:
            return
        namespace, _, name = key.partition("/")
        page = await client.list(kinds.POD, namespace, label_selector=f"{POD_GROUP_LABEL}={name}")
        before = pod_group.get("status") or {}
        after = next_status(before, least, page.items, self._handle.now())
        changes = {field: value for field, value in after.items() if before.get(field) != value}
        if changes:
            await client.patch(self._kind, name, {"status": changes}, namespace, subresource="status")

    def _pod_changed(self, old: PodInfo | None, new: PodInfo | None) -> None:
        for pod in (old, new):
            if pod is not None and POD_GROUP_LABEL in pod.labels:
                self.note(f"{pod.namespace}/{pod.labels[POD_GROUP_LABEL]}")

    def _group_changed(self, old: Any, new: Any) -> None:
        if new is not None:
            self.note(f"{new.metadata.namespace}/{new.metadata.name}")


def least_members(pod_group: Any) -> int | None:
    """Return `minMember` of a PodGroup, at least 1; None if the PodGroup is invalid."""
    try:
        return max(spec_of(pod_group).minMember, 1)
    except msgspec.ValidationError:
        return None


def next_status(status: Mapping[str, Any], min_member: int, pods: Sequence[Pod], now: datetime) -> dict[str, Any]:
    """Return the new status of a group, given its current status and all its pods, terminated pods included.

    A group with at least `min_member` pods is Scheduling; Running once `min_member` pods run or have succeeded;
    Finished once `min_member` have succeeded; Failed if a pod has failed and at least `min_member` have started.
    Finished and Failed are final.
    """
    phase = status.get("phase") or PENDING
    if phase in {FINISHED, FAILED}:
        return dict(status)
    after = {**status, "phase": PENDING, **_counts(pods)}
    if len(pods) < min_member:
        return after
    if phase == PENDING:
        after["scheduleStartTime"] = now.strftime("%Y-%m-%dT%H:%M:%SZ")
        if pods and (owners := _owners(pods[0])):
            after["occupiedBy"] = owners
    running, succeeded, failed = (after[count] for count in ("running", "succeeded", "failed"))
    after["phase"] = RUNNING if running + succeeded >= min_member else SCHEDULING
    if failed and failed + running + succeeded >= min_member:
        after["phase"] = FAILED
    if succeeded >= min_member:
        after["phase"] = FINISHED
    return after


def _counts(pods: Sequence[Pod]) -> dict[str, int]:
    phases = Counter(pod.status.phase if pod.status else None for pod in pods)
    return {"running": phases["Running"], "succeeded": phases["Succeeded"], "failed": phases["Failed"]}


def _owners(pod: Pod) -> str:
    metadata = pod.metadata
    if metadata is None or not metadata.ownerReferences:
        return ""
    return ",".join(sorted(f"{metadata.namespace}/{owner.name}" for owner in metadata.ownerReferences))
