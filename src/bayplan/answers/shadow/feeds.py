"""What feeds, such as measured loads, had when a decision was compared; and the sources that a shadow asks for them.

An answer of a source is a change of the cluster as any other: the journal has it, so that earlier states have earlier
answers. A source that gives none is reported once, and each decision that was compared meanwhile is counted.
"""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from bayplan.answers.shadow.comparisons import FeedInput
from bayplan.answers.snapshots.feeds import FollowedFeeds, SourceAnswer
from bayplan.core.api.kinds import Kind
from bayplan.core.framework.feeds import Feed
from bayplan.foundations.clock import Clock
from bayplan.running.client.client import Client

logger = logging.getLogger(__name__)

_LATEST = 16
"""Of how many objects of a feed it is known when they came: more than a journal has."""


class ShadowFeeds:
    """Asks the sources of feeds for a shadow. `changed` is called with each object that is another one; None if gone.

    `answered`: called with what all sources said last, before their objects are passed on.
    """

    def __init__(
        self,
        client: Client,
        feeds: Iterable[Feed],
        answered: Callable[[Sequence[SourceAnswer]], None],
        changed: Callable[[Kind, str, bytes | None], None],
        clock: Clock,
    ) -> None:
        self._followed = FollowedFeeds(client, feeds, self._take, clock)
        self._answered, self._changed = answered, changed
        self._known: dict[tuple[Kind, str], bytes] = {}
        self._failing: set[tuple[Kind, str]] = set()

    @property
    def asked(self) -> bool:
        """Whether all sources were asked once."""
        return self._followed.asked

    async def run(self) -> None:
        """Ask again and again, until cancelled."""
        await self._followed.run()

    def _take(self) -> None:
        followed = self._followed
        self._answered(followed.answers)
        for answer in followed.answers:
            self._report(answer)
        before, self._known = self._known, followed.objects
        for kind, key in before.keys() - self._known.keys():
            self._changed(kind, key, None)
        for (kind, key), raw in self._known.items():
            if before.get((kind, key)) != raw:
                self._changed(kind, key, raw)

    def _report(self, answer: SourceAnswer) -> None:
        """Report once that a source gives nothing, until it does again."""
        source = answer.kind, answer.source
        if not answer.problem and source in self._failing:
            self._failing.remove(source)
            logger.warning("%s answers again", answer.source)
        elif answer.problem and source not in self._failing:
            self._failing.add(source)
            known = (answer.kind, answer.key) in self._followed.objects
            effect = "with its last answer, as long as that counts" if known else "without it"
            logger.warning("%s: decisions are compared %s", answer.problem, effect)


class KnownFeeds:
    """What the objects of feeds say of nodes, and since when. `answers`: what the sources said last."""

    def __init__(self, feeds: Mapping[Kind, Feed]) -> None:
        self.answers: Sequence[SourceAnswer] = ()
        self._feeds = feeds
        self._came: defaultdict[Kind, deque[tuple[object, datetime]]] = defaultdict(lambda: deque(maxlen=_LATEST))

    def note(self, kind: Kind, new: object, time: datetime) -> None:
        """Keep when an object of a feed came."""
        if kind in self._feeds and new is not None:
            self._came[kind].append((new, time))

    def inputs(self, answers: Sequence[SourceAnswer], theirs: str, ours: str) -> Iterator[FeedInput]:
        """Yield what each source says of two nodes in this state. It says nothing of a node without a name.

        `answers`: what the sources had said last when the scheduler decided.
        """
        for answer in answers:
            found = self._feeds[answer.kind].get(answer.key) if answer.key else None
            yield FeedInput(
                source=answer.source,
                since=next((time for each, time in self._came[answer.kind] if each is found), None),
                theirs=_of_node(found, theirs),
                ours=_of_node(found, ours),
                problem=answer.problem,
            )


def _of_node(content: Mapping[str, Any] | None, node: str) -> dict[str, Any]:
    """What an object says under the name of a node, by the field that has it."""
    fields = (content or {}).items() if node else ()
    return {
        name: msgspec.to_builtins(part[node]) for name, part in fields if isinstance(part, Mapping) and node in part
    }
