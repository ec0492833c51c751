"""Log lines about what a server refuses: a few a minute, however often clients are refused."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

_LONGEST = 500


@dataclass(slots=True)
class _Kind:
    timer: asyncio.TimerHandle
    more: int = 0
    latest: str = ""


class Refusals:
    """Logs the first refusal of a kind at once, and then every `seconds` how many more there were.

    It belongs to the event loop that `record` is called in.
    """

    def __init__(self, log: logging.Logger, seconds: float) -> None:
        self._log = log
        self._seconds = seconds
        self._kinds: dict[str, _Kind] = {}

    def record(self, kind: str, what: str = "") -> None:
        """Record a refusal. `kind` is one of few texts; `what` describes this refusal and may come from the client."""
        text = "".join(each if each.isprintable() else " " for each in what[:_LONGEST])
        known = self._kinds.get(kind)
        if known is None:
            self._log.warning("%s%s", kind, f": {text}" if text else "")
            self._kinds[kind] = _Kind(self._later(kind))
        else:
            known.more += 1
            known.latest = text

    def close(self) -> None:
        """Log the numbers that are not logged yet."""
        kinds, self._kinds = self._kinds, {}
        for name, kind in kinds.items():
            kind.timer.cancel()
            self._summarize(name, kind)

    def _later(self, name: str) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(self._seconds, self._expire, name)

    def _expire(self, name: str) -> None:
        kind = self._kinds.pop(name)
        if kind.more:
            self._summarize(name, kind)
            self._kinds[name] = _Kind(self._later(name))

    def _summarize(self, name: str, kind: _Kind) -> None:
        if kind.more:
            latest = f"; the latest: {kind.latest}" if kind.latest else ""
            times = "once more" if kind.more == 1 else f"{kind.more:,} more times"
            self._log.warning("%s: %s within %g s%s", name, times, self._seconds, latest)
