"""Asks the sources of feeds, such as a Prometheus, for what plugins read besides the objects of the cluster.

In a running scheduler, background tasks of plugins fill the feeds. A question about a live cluster has no such tasks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

import msgspec

from bayplan.answers.snapshots.reading import Gap
from bayplan.answers.snapshots.rights import CUSTOM_EFFECT
from bayplan.core.api.kinds import Kind
from bayplan.core.framework.feeds import Feed, FeedError, FeedSource
from bayplan.running.client.client import Client

WITHIN = 12.0
"""Seconds within which a source has to answer."""
PAUSE = 30.0
"""Seconds between two questions to a source of a cluster that is followed."""
OLD = 300.0
"""Seconds for which its last answer counts when it gives none."""

Found = dict[tuple[Kind, str], bytes]
"""The JSON of objects by their kinds and keys."""


async def ask_feeds(client: Client, feeds: Iterable[Feed]) -> tuple[Found, list[Gap]]:
    """Ask each source once. One that gives no object within WITHIN seconds is a gap."""
    asked = {(feed.kind, source.name): (feed, source) for feed in feeds for source in feed.sources}
    answers = await asyncio.gather(*(_ask(client, *each) for each in asked.values()))
    found = {(each[0], each[1]): each[2] for each in answers if isinstance(each, tuple)}
    return found, [each for each in answers if isinstance(each, Gap)]


async def _ask(client: Client, feed: Feed, source: FeedSource) -> tuple[Kind, str, bytes] | Gap:
    try:
        async with asyncio.timeout(WITHIN):
            name, content = await source.ask(client, datetime.now(UTC))
        return feed.kind, name, msgspec.json.encode(feed.made(name, content))
    except TimeoutError:
        reason = f"{source.name} gave no answer within {WITHIN:g} s"
    except FeedError as error:
        reason = str(error)
    except Exception as error:  # noqa: BLE001 - of a plugin of the user, which costs only what it would have said
        reason = f"{source.name} can't be asked: {type(error).__name__}: {error}"
    return Gap(feed.kind, " ".join(reason.split()), CUSTOM_EFFECT)


class FollowedFeeds:
    """The objects of feeds for a cluster that is followed. `changed` is called whenever there are others.

    `asked`: whether all sources were asked once.
    """

    def __init__(self, client: Client, feeds: Iterable[Feed], changed: Callable[[], None]) -> None:
        self.objects: Found = {}
        self.gaps: list[Gap] = []
        self._client = client
        self._feeds = [feed for feed in feeds if feed.sources]
        self.asked = not self._feeds
        self._changed = changed
        self._read_at: dict[tuple[Kind, str], float] = {}

    @property
    def problems(self) -> list[str]:
        """Why sources give nothing, one line each."""
        return [gap.reason for gap in self.gaps]

    async def run(self) -> None:
        """Ask again and again, until cancelled."""
        while self._feeds:
            before = self.objects, self.problems
            found, self.gaps = await ask_feeds(self._client, self._feeds)
            now = time.monotonic()
            self._read_at |= dict.fromkeys(found, now)
            self._read_at = {key: at for key, at in self._read_at.items() if now - at <= OLD}
            self.objects = {key: (self.objects | found)[key] for key in self._read_at}
            self.asked = True
            if before != (self.objects, self.problems):
                self._changed()
            await asyncio.sleep(PAUSE)
