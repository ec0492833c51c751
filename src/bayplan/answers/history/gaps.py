"""Gaps: times without events. Each kind is lost and found again by itself, and an outage loses all of them.

Answers about a history say which times are missing. Gaps that overlap are one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from bayplan.answers.history.format import MissingEvents, Row

_REQUEST = re.compile(r"(GET|LIST|WATCH) \S+: ")
"""What the reasons of one outage differ in."""
_FIRST = ("pods", "nodes")
_MOST_REASONS = 3


class LostKind(NamedTuple):
    """A time without events of a kind, or of all kinds. `began`: its row. `end`: None if it didn't end."""

    began: Row
    end: datetime | None

    @property
    def resource(self) -> str:
        """The resource; "" for all kinds."""
        return self.began.reason.partition(": ")[0] if self.began.kind else ""

    @property
    def reason(self) -> str:
        """Why, without the resource and the request."""
        reason = self.began.reason.partition(": ")[2] if self.began.kind else self.began.reason
        return plain(reason)


def plain(reason: str) -> str:
    """Why a request failed, without the request."""
    return _REQUEST.sub("", reason, count=1)


def joined(lost: Iterable[LostKind]) -> list[MissingEvents]:
    """The outages, by their begin: times that overlap are one."""
    outages: list[list[LostKind]] = []
    end: datetime | None = None
    for each in sorted(lost, key=lambda each: each.began.time_utc):
        if outages and (end is None or each.began.time_utc <= end):
            outages[-1].append(each)
            end = None if end is None or each.end is None else max(end, each.end)
        else:
            outages.append([each])
            end = each.end
    return [_outage(found) for found in outages]


def _outage(lost: Sequence[LostKind]) -> MissingEvents:
    ends = [each.end for each in lost if each.end is not None]
    resources = dict.fromkeys(each.resource for each in lost)
    kinds = () if "" in resources else sorted(resources, key=lambda name: name not in _FIRST)
    reasons = list(dict.fromkeys(each.reason for each in lost))
    more = f", and {len(reasons) - _MOST_REASONS} more" if len(reasons) > _MOST_REASONS else ""
    return MissingEvents(
        lost[0].began.time_utc,
        max(ends) if len(ends) == len(lost) else None,
        "; ".join(reasons[:_MOST_REASONS]) + more,
        tuple(kinds),
    )
