"""Asks the sources of feeds, such as a Prometheus, for what plugins read besides the objects of the cluster.

In a running scheduler, background tasks of plugins fill the feeds. A question about a live cluster, and a shadow, have
no such tasks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import msgspec

from bayplan.answers.snapshots.reading import Gap
from bayplan.answers.snapshots.rights import CUSTOM_EFFECT
from bayplan.core.api.kinds import Kind
from bayplan.core.framework.feeds import Feed, FeedError, FeedSource
from bayplan.foundations.clock import Clock, SystemClock
from bayplan.running.client.client import Client

WITHIN = 12.0
"""Seconds within which a source has to answer."""
PAUSE = 30.0
"""Seconds between two questions to a source of a cluster that is followed."""
OLD = 300.0
"""Seconds for which its last answer counts when it gives none."""

Found = dict[tuple[Kind, str], bytes]
"""The JSON of objects by their kinds and keys."""


@dataclass(frozen=True, slots=True)
class SourceAnswer:
    """What the source with this name said when it was asked last: an object of a kind, or why it gave none.

    `key`: of the object that it gave last; "" if it has given none so far.
    """

    source: str
    kind: Kind
    key: str = ""
    raw: bytes = b""
    problem: str = ""


async def ask_feeds(client: Client, feeds: Iterable[Feed]) -> tuple[Found, list[Gap]]:
    """Ask each source once. One that gives no object within WITHIN seconds is a gap."""
    answers = await _ask_all(client, feeds, SystemClock())
    return _found(answers), _gaps(answers)


async def _ask_all(client: Client, feeds: Iterable[Feed], clock: Clock) -> list[SourceAnswer]:
    asked = {(feed.kind, source.name): (feed, source) for feed in feeds for source in feed.sources}
    return await asyncio.gather(*(_ask(client, *each, clock) for each in asked.values()))


async def _ask(client: Client, feed: Feed, source: FeedSource, clock: Clock) -> SourceAnswer:
    try:
        async with asyncio.timeout(WITHIN):
            name, content = await source.ask(client, clock.now())
        return SourceAnswer(source.name, feed.kind, name, msgspec.json.encode(feed.made(name, content)))
    except TimeoutError:
        reason = f"{source.name} gave no answer within {WITHIN:g} s"
    except FeedError as error:
        reason = str(error)
    except Exception as error:  # noqa: BLE001 - of a plugin of the user, which costs only what it would have said
        reason = f"{source.name} can't be asked: {type(error).__name__}: {error}"
    return SourceAnswer(source.name, feed.kind, problem=" ".join(reason.split()))


def _found(answers: Iterable[SourceAnswer]) -> Found:
    return {(each.kind, each.key): each.raw for each in answers if not each.problem}


def _gaps(answers: Iterable[SourceAnswer]) -> list[Gap]:
    return [Gap(each.kind, each.problem, CUSTOM_EFFECT) for each in answers if each.problem]


class FollowedFeeds:
    """The objects of feeds for a cluster that is followed. `changed` is called whenever there are others.

    `asked`: whether all sources were asked once. `answers`: what each of them said last.
    """

    def __init__(
        self, client: Client, feeds: Iterable[Feed], changed: Callable[[], None], clock: Clock | None = None
    ) -> None:
        self.objects: Found = {}
        self.answers: list[SourceAnswer] = []
        self._client = client
        self._feeds = [feed for feed in feeds if feed.sources]
        self.asked = not self._feeds
        self._changed = changed
        self._clock = clock or SystemClock()
        self._read_at: dict[tuple[Kind, str], float] = {}
        self._keys: dict[tuple[Kind, str], str] = {}
        """The keys of the objects that the sources gave last, by kind and source."""

    @property
    def gaps(self) -> list[Gap]:
        """The sources that give nothing now."""
        return _gaps(self.answers)

    @property
    def problems(self) -> list[str]:
        """Why sources give nothing, one line each."""
        return [gap.reason for gap in self.gaps]

    async def run(self) -> None:
        """Ask again and again, until cancelled."""
        while self._feeds:
            before = self.objects, self.problems
            answers = await _ask_all(self._client, self._feeds, self._clock)
            self.answers = [self._with_last_key(each) for each in answers]
            found, now = _found(answers), self._clock.monotonic()
            self._read_at |= dict.fromkeys(found, now)
            self._read_at = {key: at for key, at in self._read_at.items() if now - at <= OLD}
            self.objects = {key: (self.objects | found)[key] for key in self._read_at}
            self.asked = True
            if before != (self.objects, self.problems):
                self._changed()
            await asyncio.sleep(PAUSE)

    def _with_last_key(self, answer: SourceAnswer) -> SourceAnswer:
        of = answer.kind, answer.source
        if not answer.problem:
            self._keys[of] = answer.key
        return replace(answer, key=self._keys.get(of, ""))
