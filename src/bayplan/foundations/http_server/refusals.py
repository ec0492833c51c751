"""Log lines about what a server refuses: a few a minute, however often clients are refused."""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import dataclass

_LONGEST = 500
_PLAIN = re.compile(r"[A-Za-z0-9/._+-]+")


def quoted(text: str) -> str:
    """Return a text of a client as it is if it is a plain path or name, else in quotes and with escapes."""
    return text if _PLAIN.fullmatch(text) else ascii(text)


@dataclass(slots=True)
class _Reason:
    timer: asyncio.TimerHandle
    more: int = 0
    latest: str = ""


class Refusals:
    """Logs the first refusal for a reason at once, and then every `seconds` how many more there were.

    It belongs to the event loop that `record` is called in.
    """

    def __init__(self, log: logging.Logger, seconds: float) -> None:
        self._log = log
        self._seconds = seconds
        self._reasons: dict[str, _Reason] = {}

    def record(self, name: str, what: str = "") -> None:
        """Record a refusal. `name`: the reason, one of few texts. `what`: about this one; it may come from a client."""
        text = "".join(each if each.isprintable() else " " for each in what[:_LONGEST])
        known = self._reasons.get(name)
        if known is None:
            self._log.warning("%s%s", name, f": {text}" if text else "")
            self._reasons[name] = _Reason(self._later(name))
        else:
            known.more += 1
            known.latest = text

    def close(self) -> None:
        """Log the numbers that are not logged yet."""
        reasons, self._reasons = self._reasons, {}
        for name, reason in reasons.items():
            reason.timer.cancel()
            self._summarize(name, reason)

    def _later(self, name: str) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(self._seconds, self._expire, name)

    def _expire(self, name: str) -> None:
        reason = self._reasons.pop(name)
        if reason.more:
            self._summarize(name, reason)
            self._reasons[name] = _Reason(self._later(name))

    def _summarize(self, name: str, reason: _Reason) -> None:
        if reason.more:
            latest = f"; the latest: {reason.latest}" if reason.latest else ""
            times = "once more" if reason.more == 1 else f"{reason.more:,} more times"
            self._log.warning("%s: %s within %g s%s", name, times, self._seconds, latest)
