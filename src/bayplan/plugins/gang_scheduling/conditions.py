"""Writes what has come of PodGroups into their status: the condition PodGroupScheduled.

Mirrors updatePodGroupCondition in pkg/scheduler/schedule_one_podgroup.go. What is to be written is state: the newest
word about a group replaces an older one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from bayplan.api.kinds import custom_kind
from bayplan.api.pod_groups import POD_GROUPS
from bayplan.cluster.objects import ObjectStore
from bayplan.framework.handle import Handle
from bayplan.framework.interface import GangOutcome

log = logging.getLogger(__name__)

SCHEDULED = "PodGroupScheduled"
_SAID = {
    GangOutcome.PLACED: ("True", "Scheduled"),
    GangOutcome.REFUSED: ("False", "Unschedulable"),
    GangOutcome.ERROR: ("False", "SchedulerError"),
}
_AGAIN_SECONDS = 1.0
_NOT_FOUND, _CONFLICT = 404, 409


@dataclass(frozen=True, slots=True)
class Word:
    """What is to be said of a group."""

    outcome: GangOutcome
    message: str


class PodGroupConditions:
    """What has come of groups, by key. `run` writes it until it is cancelled; before, it is kept."""

    def __init__(self, handle: Handle, pod_groups: ObjectStore) -> None:
        self._handle = handle
        self._pod_groups = pod_groups
        self._kind = custom_kind(POD_GROUPS)
        self._due: dict[str, Word] = {}
        self._placed: dict[str, str] = {}
        """The uids of groups that were placed, by key: no later word takes that back, told by the server or not."""
        self._work = asyncio.Event()
        pod_groups.listen(self._forget)

    def say(self, key: str, outcome: GangOutcome, message: str) -> None:
        """This has come of a group. That it was placed once is not taken back."""
        pod_group = self._pod_groups.get(key)
        if pod_group is None or self._placed.get(key) == pod_group.metadata.uid:
            return
        if outcome is GangOutcome.PLACED:
            self._placed[key] = pod_group.metadata.uid
        self._due[key] = Word(outcome, message)
        self._work.set()

    async def run(self) -> None:
        """Write what is due, and again what could not be written."""
        if self._handle.client is None:
            return
        while True:
            await self._work.wait()
            failed = await self.catch_up()
            if failed:
                await asyncio.sleep(_AGAIN_SECONDS)
                self._due = {**failed, **self._due}
                self._work.set()

    async def catch_up(self) -> dict[str, Word]:
        """Write all that is due. Returns what could not be written."""
        self._work.clear()
        due, self._due = self._due, {}
        failed: dict[str, Word] = {}
        for key, word in due.items():
            try:
                await self._write(key, word)
            except Exception as error:  # noqa: BLE001 - the client's errors are its own; none may stop the others
                if getattr(error, "status", None) == _NOT_FOUND:
                    continue  # it is gone, and nobody asks for its status any more
                level = logging.DEBUG if getattr(error, "status", None) == _CONFLICT else logging.WARNING
                log.log(level, "the condition of PodGroup %s could not be written: %s", key, error)
                failed[key] = word
        return failed

    async def _write(self, key: str, word: Word) -> None:
        client, pod_group = self._handle.client, self._pod_groups.get(key)
        if client is None or pod_group is None:
            return
        condition = changed_condition(pod_group, word, self._handle.now())
        if condition is None:
            return
        namespace, _, name = key.partition("/")
        others = [each for each in _conditions(pod_group) if each.get("type") != SCHEDULED]
        metadata = pod_group.metadata
        unless_changed = {"uid": metadata.uid, "resourceVersion": metadata.resourceVersion}
        patch = {"metadata": unless_changed, "status": {"conditions": [*others, condition]}}
        await client.patch(self._kind, name, patch, namespace, subresource="status")

    def _forget(self, old: Any, new: Any) -> None:
        if old is not None and new is None:
            self._placed.pop(f"{old.metadata.namespace}/{old.metadata.name}", None)


def changed_condition(pod_group: Mapping[str, Any], word: Word, now: datetime) -> dict[str, Any] | None:
    """The condition that a group is to get; None where it says so already, or that the group was placed once.

    It has the time of its last transition, which a change of reason or message is not.
    """
    old = next((each for each in _conditions(pod_group) if each.get("type") == SCHEDULED), None)
    status, reason = _SAID[word.outcome]
    if old is not None and old.get("status") == "True" != status:
        return None
    condition: dict[str, Any] = {"type": SCHEDULED, "status": status, "reason": reason, "message": word.message}
    generation = (pod_group.get("metadata") or {}).get("generation")
    if generation is not None:
        condition["observedGeneration"] = generation
    if old is not None and all(old.get(field, "") == value for field, value in condition.items()):
        return None
    kept = old.get("lastTransitionTime") if old is not None and old.get("status") == status else None
    return {**condition, "lastTransitionTime": kept or now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}


def _conditions(pod_group: Mapping[str, Any]) -> list[dict[str, Any]]:
    return (pod_group.get("status") or {}).get("conditions") or []
