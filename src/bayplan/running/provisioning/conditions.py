"""Writes the answers: the conditions of provisioning requests, and the places that are held for them.

Only the latest answer to each request is written. A write that fails is repeated; a request that is gone needs none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from bayplan.core.api.provisioning import PROVISIONING_REQUEST, is_held_detail
from bayplan.core.api.times import rfc3339
from bayplan.core.cluster.objects import ObjectStore
from bayplan.core.framework.handle import ApiClient

log = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0
_CONFLICT_SECONDS = 0.1
_AT_ONCE = 20
_LONGEST_MESSAGE = 32_000
_NOT_FOUND, _CONFLICT = 404, 409


@dataclass(slots=True)
class RequestStatus:
    """What a request's status is to say. `conditions`: by type, its status, reason, message, and since when.

    `held`: the details that say where room is held; None to leave them.
    """

    uid: str
    conditions: dict[str, tuple[str, str, str, datetime]] = field(default_factory=dict)
    held: Mapping[str, str] | None = None


class RequestStatuses:
    """The answers that are to be written, by the key of the request."""

    def __init__(self, requests: ObjectStore, client: Callable[[], ApiClient | None]) -> None:
        self._requests = requests
        self._client = client
        self._due: dict[str, RequestStatus] = {}
        self._work = asyncio.Event()

    def say(self, key: str, uid: str, condition: str, status: str, reason: str, message: str, now: datetime) -> None:
        """Let a condition have a status, reason and message from now on."""
        self._of(key, uid).conditions[condition] = (status, reason, message[:_LONGEST_MESSAGE], now)
        self._work.set()

    def hold(self, key: str, uid: str, details: Mapping[str, str]) -> None:
        """Let the status say where room is held."""
        self._of(key, uid).held = details
        self._work.set()

    def forget(self, key: str) -> None:
        """Write nothing about a request that is gone."""
        self._due.pop(key, None)

    def _of(self, key: str, uid: str) -> RequestStatus:
        answer = self._due.get(key)
        if answer is None or answer.uid != uid:
            answer = self._due[key] = RequestStatus(uid)
        return answer

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._work.wait()
            self._work.clear()
            due, self._due = list(self._due.items()), {}
            pause = 0.0
            for first in range(0, len(due), _AT_ONCE):
                some = due[first : first + _AT_ONCE]
                waits = await asyncio.gather(*(self._try(key, answer) for key, answer in some))
                pause = max(pause, *waits)
            if pause:
                await asyncio.sleep(pause)
                self._work.set()

    async def _try(self, key: str, answer: RequestStatus) -> float:
        """Write an answer. Returns after how many seconds to try again; 0 if it is written."""
        try:
            await self._write(key, answer)
        except Exception as error:  # noqa: BLE001 - any error of the client; it must not affect other requests
            status = getattr(error, "status", None)
            if status == _NOT_FOUND:
                return 0.0
            level = logging.DEBUG if status == _CONFLICT else logging.WARNING
            log.log(level, "could not write the status of ProvisioningRequest %s: %s", key, error)
            self._again(key, answer)
            return _CONFLICT_SECONDS if status == _CONFLICT else _RETRY_SECONDS
        return 0.0

    def _again(self, key: str, answer: RequestStatus) -> None:
        """Keep an answer that could not be written, below what has been said since."""
        newer = self._due.get(key)
        if newer is None:
            self._due[key] = answer
        elif newer.uid == answer.uid:
            newer.conditions = {**answer.conditions, **newer.conditions}
            newer.held = answer.held if newer.held is None else newer.held

    async def _write(self, key: str, answer: RequestStatus) -> None:
        client, document = self._client(), self._requests.get(key)
        if client is None or document is None or document.metadata.uid != answer.uid:
            return
        status = changed_status(document, answer)
        if not status:
            return
        namespace, _, name = key.partition("/")
        metadata = document.metadata
        preconditions = {"uid": metadata.uid, "resourceVersion": metadata.resourceVersion}
        patch = {"metadata": preconditions, "status": status}
        await client.patch(PROVISIONING_REQUEST, name, patch, namespace, subresource="status")


def changed_status(document: Mapping[str, Any], answer: RequestStatus) -> dict[str, Any]:
    """Return what changes in a request's status, as a merge patch; {} if nothing does.

    `lastTransitionTime` changes only with the condition's status.
    """
    status = document.get("status") or {}
    generation = (document.get("metadata") or {}).get("generation")
    conditions = {each.get("type"): each for each in status.get("conditions") or []}
    before = dict(conditions)
    for type_, (state, reason, message, now) in answer.conditions.items():
        old = conditions.get(type_) or {}
        same = old.get("status") == state
        condition = {"type": type_, "status": state, "reason": reason, "message": message}
        if generation is not None:
            condition["observedGeneration"] = generation
        kept = old.get("lastTransitionTime") if same else None
        conditions[type_] = {**condition, "lastTransitionTime": kept or rfc3339(now)}
    changes: dict[str, Any] = {} if conditions == before else {"conditions": list(conditions.values())}
    details = status.get("provisioningClassDetails") or {}
    if answer.held is not None:
        gone = {name: None for name in details if is_held_detail(name) and name not in answer.held}
        new = {name: text for name, text in answer.held.items() if details.get(name) != text}
        if gone or new:
            changes["provisioningClassDetails"] = {**gone, **new}
    return changes
