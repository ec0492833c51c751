"""Reports failed lists and watches of all kinds together: a message per cause, and all missing permissions at once.

When a server is gone, dozens of watches fail within a second; one line says so, and is repeated while it lasts.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import yaml

from bayplan.core.api.kinds import NODE, POD, Kind
from bayplan.running.client.client import Client
from bayplan.running.client.errors import ApiError
from bayplan.running.client.list_watch import Reports
from bayplan.running.client.pace import RequestError
from bayplan.running.client.permissions import Missing, denied_by, grant, missing_permissions

log = logging.getLogger(__name__)

GATHER = 1.0
"""Seconds from the first failure to its report: when a server is gone, the other kinds fail within this time."""
REPEAT = 30.0
"""Seconds until a cause that lasts is reported again."""


@dataclass(slots=True)
class _Cause:
    """A cause of failures: the first message, all kinds, and those that were reported."""

    message: str
    kinds: set[str] = field(default_factory=set)
    reported: set[str] = field(default_factory=set)
    reported_at: float = float("-inf")


class WatchFailures(Reports):
    """Collects failures and reports them while `run` runs.

    `client` reviews the scheduler's permissions. `readers` has the plugins that need each kind. `synced` returns
    whether the scheduler has listed all kinds.
    """

    def __init__(self, client: Client, readers: Mapping[Kind, Collection[str]], synced: Callable[[], bool]) -> None:
        self._client = client
        self._readers = readers
        self._synced = synced
        self._added = asyncio.Event()
        self._causes: dict[str, _Cause] = {}
        self._denied: dict[Kind, ApiError] = {}
        """The kinds that were denied since the last report."""
        self._missing: Missing = {}
        """The permissions that were reported as missing."""
        self._asked_at = float("-inf")

    def failed(self, kind: Kind, error: RequestError, pause: float) -> None:
        """Record that a list or a watch failed. It is tried again after `pause` seconds."""
        if isinstance(error, ApiError) and error.status == 403:
            self._denied[kind] = error
        else:
            cause = self._causes.setdefault(getattr(error, "cause", "") or str(error), _Cause(str(error)))
            cause.kinds.add(kind.resource)
        self._added.set()

    async def run(self) -> None:
        """Report failures until cancelled."""
        now = asyncio.get_running_loop().time
        while True:
            await self._added.wait()
            self._added.clear()
            if self._denied and (self._denied.keys() - self._missing.keys() or now() >= self._asked_at + REPEAT):
                await self._report_permissions()
                self._asked_at = now()
            if any(cause.kinds for cause in self._causes.values()):
                await asyncio.sleep(GATHER)
                self._report_causes(now())

    def _report_causes(self, now: float) -> None:
        for text, cause in list(self._causes.items()):
            if now >= cause.reported_at + REPEAT:
                if not cause.kinds:
                    del self._causes[text]
                    continue
                cause.reported = set()
            if cause.kinds - cause.reported:
                cause.reported |= cause.kinds
                cause.reported_at = now
                log.warning("%s: %s; retrying", _listing(cause.reported), cause.message)
            cause.kinds = set()

    async def _report_permissions(self) -> None:
        denied, self._denied = self._denied, {}
        missing = await missing_permissions(self._client, self._readers) or {**self._missing, **denied_by(denied)}
        if missing == self._missing:
            log.warning("permissions are still missing: %s", _listing({kind.resource for kind in missing}))
        else:
            log.warning("%s", report(missing, self._readers, next(iter(denied.values())), synced=self._synced()))
        self._missing = missing


def _listing(kinds: Collection[str]) -> str:
    """The kinds as text, in order; their number, if there are several."""
    return next(iter(kinds)) if len(kinds) == 1 else f"{len(kinds)} kinds ({', '.join(sorted(kinds))})"


def report(missing: Missing, readers: Mapping[Kind, Collection[str]], denied: ApiError, *, synced: bool) -> str:
    """Return the message about missing permissions: each kind, what fails without it, and the rule that grants it.

    `denied` is one of the denied requests. `synced`: whether the scheduler has listed all kinds.
    """
    match = re.search(r'User "([^"]+)"', denied.message)
    lines = [f"permissions are missing for {len(missing)} of {len(readers)} kinds ({denied}):"]
    for kind, verbs in sorted(missing.items(), key=lambda each: each[0].resource):
        needed = "every decision" if kind in {POD, NODE} else ", ".join(sorted(readers.get(kind, ())))
        effect = "no pod is scheduled until it is listed" if "list" in verbs and not synced else "changes go unnoticed"
        lines.append(
            f"  {kind.resource}: no {' or '.join(verbs)}; {effect}" + (f"; needed by {needed}" if needed else "")
        )
    lines.append("kubectl apply -f this grants them:")
    granting = grant(missing, match[1] if match else "USER")
    documents = yaml.safe_dump_all(granting, sort_keys=False, default_flow_style=None, width=120)
    return "\n".join([*lines, documents.rstrip()])
