"""The page about a shadow: how far a scheduler and Bayplan agree over time, why not, and the newest differences."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import web
from markupsafe import Markup

from bayplan.answers.shadow.comparisons import ShadowComparison
from bayplan.answers.shadow.record import ShadowFileError
from bayplan.answers.shadow.shown import ShadowReport, because_of, percent, summary
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kinds import POD
from bayplan.faces.ui.addresses import at_moment
from bayplan.faces.ui.app import PageError, PageRequest

SHOWN = 100
"""How many differences are listed: the newest."""
INTERVALS_SHOWN = 48
"""How many intervals are listed: the newest."""
PAUSE = 5
"""Seconds between two looks at the file."""


@dataclass(frozen=True, slots=True)
class ListedDifference:
    """A difference as the page lists it. `address`: that of the pod's page; "" if the pod isn't there."""

    found: ShadowComparison
    because: str
    address: str


async def agreement_page(visit: PageRequest) -> web.Response:
    """Return what a shadow has found."""
    if visit.shadow is None:
        raise PageError(HTTPStatus.NOT_FOUND, "there is no shadow: `bayplan ui --shadow FILE` shows what one has found")
    try:
        record, version = await asyncio.to_thread(visit.shadow.read)
    except ShadowFileError as error:
        raise PageError(HTTPStatus.NOT_FOUND, str(error)) from None
    snapshot = await visit.snapshot()
    agreement, newest = record.agreement, record.differences[: -SHOWN - 1 : -1]
    differences = await asyncio.to_thread(lambda: [_difference(visit, snapshot, each) for each in newest])
    return visit.page(
        "agreement.html",
        changing=version,
        record=record,
        summary=summary(record.tally),
        percent=percent,
        chart=Markup(agreement.chart()),  # noqa: S704 - it has numbers and times, and escapes its text
        length=agreement.length,
        intervals=agreement.intervals[: -INTERVALS_SHOWN - 1 : -1],
        causes=ShadowReport(record).rows(),
        differences=differences,
        every=PAUSE,
        title="Agreement",
    )


def _difference(visit: PageRequest, snapshot: Snapshot, found: ShadowComparison) -> ListedDifference:
    page, address = f"/pods/{found.pod}", ""
    if visit.moments is not None and visit.moments.covers(found.time):
        address = at_moment(visit.moments.before(found.pod, found.time), page)
    elif found.pod in snapshot.of_kind(POD):
        address = page
    return ListedDifference(found, because_of(found), address)
