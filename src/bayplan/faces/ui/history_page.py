"""The page that goes through a history or a recording: the bay plan at a moment, and the steps before and after it.

Moment n comes after n steps. What would be decided otherwise is looked for in steps of a bounded time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from operator import attrgetter
from urllib.parse import urlencode

from aiohttp import web

from bayplan.answers.insight.answers import Progress, plural
from bayplan.answers.insight.insight import Insight
from bayplan.answers.moments.steps import Step, StepKind
from bayplan.answers.simulation.world import World
from bayplan.core.api.times import time_meant
from bayplan.faces.ui.addresses import LONGEST_NUMBER, at_moment, time_text
from bayplan.faces.ui.app import PageError, PageRequest
from bayplan.faces.ui.bay_plan import BayPlan, bay_plan
from bayplan.faces.ui.moments import MomentSources
from bayplan.faces.ui.reports import waiting_pods

AROUND = 12
"""How many moments before and after the chosen one are listed."""
MOST_LINES = 60
"""The most lines of that list; a decision about a gang has one for each pod."""
TICK = 1.0
"""Seconds between two pictures while the history plays."""
IN_A_MINUTE = 60
"""How many pictures the whole history has, if it plays in a minute."""
EACH, ALL = "each", "all"
"""The paces: each step, or the whole history in a minute."""


@dataclass(frozen=True, slots=True)
class ListedStep:
    """A step as the page lists it. `subject`, `node`: addresses of pages at the moment before or after it; "" for none.

    `difference`: what would be decided instead; "" if that isn't known.
    """

    step: Step
    subject: str
    node: str
    difference: str


async def history_page(visit: PageRequest) -> web.Response:
    """Return the cluster at a moment; with `?time=` or `?seconds=` since the start, lead to that moment."""
    sources, _ = _chosen(visit)
    if wanted := visit.query.get("time", "").strip():
        return _to(visit, sources.moments.at(_time(sources, wanted)))
    if seconds := visit.query.get("seconds", ""):
        return _to(visit, sources.moments.at(_after(sources, seconds)))
    return await _show(visit, sources)


async def difference_page(visit: PageRequest) -> web.Response:
    """Lead to the moment before the next decision that would be another one, or say that there is none."""
    sources, here = _chosen(visit)
    after = visit.query.get("after", "")
    number = min(int(after), sources.last) if after.isdecimal() and len(after) < LONGEST_NUMBER else here
    found = await sources.next_difference(visit.asking, number)
    if found.step is not None:
        return _to(visit, found.step - 1)
    since, until = time_text(sources.moments.time(number)), time_text(sources.moments.time(found.reached))
    until = "" if found.reached >= sources.last else f", and until {until},"
    note = f"After {since}{until} no decision would be another one"
    if found.skipped:
        note += f"; {plural(found.skipped, 'decision')} not asked about: no profile has the schedulerName of these pods"
    more = at_moment(here, f"/history/difference?after={found.reached}") if until else ""
    return await _show(visit, sources, f"{note}.", more)


async def _show(visit: PageRequest, sources: MomentSources, note: str = "", more: str = "") -> web.Response:
    moments, number = sources.moments, _chosen(visit)[1]
    resource, pace = visit.query.get("resource", "cpu"), visit.query.get("play", "")

    def draw(insight: Insight, _: Progress) -> tuple[BayPlan, int]:
        world: World = insight.world
        return bay_plan(world, resource), len(waiting_pods(world))

    plan, pending = await visit.ask(("plan at a moment", resource), draw)
    begin, end = moments.time(0), moments.time(sources.last)
    chosen = {"resource": plan.resource} if plan.resource != "cpu" else {}

    def address(moment: int, **parameters: str) -> str:
        query = urlencode({**chosen, **parameters})
        return at_moment(moment, f"/history?{query}" if query else "/history")

    following = _following(sources, number, pace)
    after = number + 1 if number + 1 in sources.differences else number
    return visit.page(
        "history.html",
        plan=plan,
        pending=pending,
        number=number,
        last=sources.last,
        begin=begin,
        end=end,
        length=(end - begin).total_seconds(),
        seconds=(moments.time(number) - begin).total_seconds(),
        time=moments.time(number),
        notes=moments.notes,
        lines=lines_around(sources, number),
        comparable=sources.compare is not None,
        difference=sources.differences.get(number + 1, ""),
        difference_address=at_moment(number, f"/history/difference?after={after}"),
        address=address,
        pace=pace if following is not None else "",
        paces=((EACH, "each step"), (ALL, "in a minute")),
        playing="" if following is None else address(following, play=pace),
        tick=TICK,
        note=note,
        more=more,
        every=0,
        title="History",
    )


def lines_around(sources: MomentSources, number: int) -> list[ListedStep]:
    """Return the steps before and after a moment."""
    steps, of = sources.moments.steps, attrgetter("number")
    here = bisect_right(steps, number, key=of)
    first = max(bisect_left(steps, number - AROUND + 1, key=of), here - MOST_LINES // 2)
    last = min(bisect_right(steps, number + AROUND, key=of), here + MOST_LINES // 2)
    return [_line(sources, step) for step in steps[first:last]]


def _line(sources: MomentSources, step: Step) -> ListedStep:
    before = max(step.number - 1, 0)
    there = step.number if step.what in {StepKind.ARRIVED, StepKind.NODE_CAME, StepKind.NODE_CHANGED} else before
    kind = "nodes" if step.about_node else "pods"
    return ListedStep(
        step,
        at_moment(there, f"/{kind}/{step.subject}"),
        at_moment(before, f"/nodes/{step.node}") if step.node else "",
        sources.differences.get(step.number, ""),
    )


def _following(sources: MomentSources, number: int, pace: str) -> int | None:
    """The moment that is shown next while the history plays; None if it doesn't, or is at its end."""
    if pace not in {EACH, ALL} or number >= sources.last:
        return None
    if pace == EACH:
        return number + 1
    moments = sources.moments
    length = moments.time(sources.last) - moments.time(0)
    return max(number + 1, moments.at(moments.time(number) + length / IN_A_MINUTE))


def _chosen(visit: PageRequest) -> tuple[MomentSources, int]:
    """The moments, and the number of the chosen one. Raises PageError."""
    if visit.moments is None or visit.moment is None:
        raise PageError(HTTPStatus.NOT_FOUND, "there is no history: `bayplan ui --from` shows one, or a recording")
    return visit.moments, visit.moment


def _to(visit: PageRequest, number: int) -> web.Response:
    kept = {name: visit.query[name] for name in ("resource",) if visit.query.get(name)}
    return visit.redirect(at_moment(number, f"/history?{urlencode(kept)}" if kept else "/history"))


def _after(sources: MomentSources, seconds: str) -> datetime:
    try:
        return sources.moments.time(0) + timedelta(seconds=float(seconds))
    except (ValueError, OverflowError):
        raise PageError(HTTPStatus.BAD_REQUEST, f"{seconds}: expected seconds since the start") from None


def _time(sources: MomentSources, text: str) -> datetime:
    begin, end = sources.moments.time(0), sources.moments.time(sources.last)
    try:
        found = time_meant(text, begin)
    except ValueError as error:
        raise PageError(HTTPStatus.BAD_REQUEST, f"{text}: {error}") from None
    if not begin.replace(microsecond=0) <= found <= end + timedelta(seconds=1):
        span = f"it goes from {time_text(begin)} to {time_text(end)}"
        raise PageError(HTTPStatus.BAD_REQUEST, f"{text} is not in {sources.moments.source}: {span}")
    return found
