"""Keeps the status of PodGroups up to date. Mirrors pkg/controllers/podgroup_controller.go of scheduler-plugins."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from lightkube.models.core_v1 import Pod

from bayplan.api.kinds import POD, custom_kind
from bayplan.cluster.objects import ObjectStore
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.handle import Handle
from bayplan.plugins.coscheduling.groups import POD_GROUP_LABEL, POD_GROUPS, spec_of

log = logging.getLogger(__name__)

PENDING, SCHEDULING, RUNNING, FINISHED, FAILED = "Pending", "Scheduling", "Running", "Finished", "Failed"
_AT_MOST_EVERY = 0.5
"""Seconds between two rounds: pods come and go in crowds."""
_AGAIN_SECONDS = 5.0
_NOT_FOUND = 404


class PodGroupStatuses:
    """Writes what has become of groups. It is counted at the server, which alone still knows of pods that are done.

    `run` does so until it is cancelled, for the groups that something has happened to.
    """

    def __init__(self, handle: Handle, pods: ObjectStore, pod_groups: ObjectStore) -> None:
        self._handle = handle
        self._kind = custom_kind(POD_GROUPS)
        self._pod_groups = pod_groups
        self._due: set[str] = set()
        self._work = asyncio.Event()
        pods.listen(self._pod_changed)
        pod_groups.listen(self._group_changed)

    async def run(self) -> None:
        """Bring one group after the other up to date."""
        if self._handle.client is None:
            return
        while True:
            await self._work.wait()
            failed = await self.catch_up()
            await asyncio.sleep(_AGAIN_SECONDS if failed else _AT_MOST_EVERY)
            for key in failed:
                self._note(key)

    async def catch_up(self) -> list[str]:
        """Bring every group up to date that needs it. Returns those for which it failed."""
        self._work.clear()
        due, failed = sorted(self._due), []
        self._due.clear()
        for key in due:
            try:
                await self._bring_up_to_date(key)
            except Exception as error:  # noqa: BLE001 - the client's errors are its own; none may stop the others
                if getattr(error, "status", None) == _NOT_FOUND:
                    continue  # it is gone, and nobody asks for its status any more
                log.warning("the status of PodGroup %s could not be written: %s", key, error)
                failed.append(key)
        return failed

    async def _bring_up_to_date(self, key: str) -> None:
        client, pod_group = self._handle.client, self._pod_groups.get(key)
        if client is None or pod_group is None or (least := least_members(pod_group)) is None:
            return
        namespace, _, name = key.partition("/")
        page = await client.list(POD, namespace, label_selector=f"{POD_GROUP_LABEL}={name}")
        before = pod_group.get("status") or {}
        after = next_status(before, least, page.items, self._handle.now())
        changes = {field: value for field, value in after.items() if before.get(field) != value}
        if changes:
            await client.patch(self._kind, name, {"status": changes}, namespace, subresource="status")

    def _pod_changed(self, old: PodInfo | None, new: PodInfo | None) -> None:
        for pod in (old, new):
            if pod is not None and POD_GROUP_LABEL in pod.labels:
                self._note(f"{pod.namespace}/{pod.labels[POD_GROUP_LABEL]}")

    def _group_changed(self, old: Any, new: Any) -> None:
        if new is not None:
            self._note(f"{new.metadata.namespace}/{new.metadata.name}")

    def _note(self, key: str) -> None:
        self._due.add(key)
        self._work.set()


def least_members(pod_group: Any) -> int | None:
    """`minMember` of a PodGroup, 1 at least; None for one that cannot be understood."""
    try:
        return max(spec_of(pod_group).minMember, 1)
    except msgspec.ValidationError:
        return None


def next_status(status: Mapping[str, Any], min_member: int, pods: Sequence[Pod], now: datetime) -> dict[str, Any]:
    """The status that a group should have, given the one that it has and all of its pods, those that are done included.

    What has finished or failed stays so. A group that has its pods is Scheduling, until `min_member` of them run or
    have succeeded: then it is Running, and Finished when so many have succeeded; it has Failed when a pod has, of
    enough pods that have started.
    """
    phase = status.get("phase") or PENDING
    if phase in {FINISHED, FAILED}:
        return dict(status)
    after = {**status, "phase": PENDING, **_counts(pods)}
    if len(pods) < min_member:
        return after
    if phase == PENDING:
        after["scheduleStartTime"] = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
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
