"""ShadowFollower: feeds a shadow from an API server, by list and watch. It writes nothing.

Watches, and the shadow with its world, live on one event loop. A change that can't be used costs itself only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from http import HTTPStatus
from typing import Any

from bayplan.answers.insight.answers import plural
from bayplan.answers.shadow.backlog import CAUGHT_UP, Backlog, SeenChange
from bayplan.answers.shadow.comparisons import ShadowComparison
from bayplan.answers.shadow.feeds import ShadowFeeds
from bayplan.answers.shadow.shadow import Shadow
from bayplan.answers.shadow.written import written_at
from bayplan.answers.snapshots.feeds import SourceAnswer
from bayplan.answers.snapshots.rights import CUSTOM_EFFECT, EFFECTS, REQUIRED
from bayplan.answers.snapshots.served import LISTING_PAUSE, FollowedKind
from bayplan.core.api.custom_objects import CustomObject
from bayplan.core.api.kinds import POD, Kind
from bayplan.core.api.objects import decode
from bayplan.core.cluster.pod_decoder import PodDecoder
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.foundations.clock import Clock, SystemClock
from bayplan.foundations.collector import keep_pauses_short
from bayplan.foundations.failures import Failures
from bayplan.foundations.turns import Turn
from bayplan.running.client.client import Client
from bayplan.running.client.errors import ApiError, TransportError
from bayplan.running.client.pace import RequestError

logger = logging.getLogger(__name__)

TICK = 0.2
"""Seconds between two looks at the differences that wait to be explained."""


UNMEASURED = 600
"""How many decisions may be asked for in a row before it is known how long they take."""


class ShadowError(Exception):
    """The cluster can't be followed. The message is for the user."""


class ShadowFollower:
    """Follows a cluster for a shadow, until it is cancelled.

    `report` is called with each comparison. `since`: until when an earlier run has compared; pods that were bound in
    between are counted as missed.
    """

    def __init__(
        self,
        client: Client,
        shadow: Shadow,
        report: Callable[[ShadowComparison], None],
        *,
        since: datetime | None = None,
        names: Iterable[str] = (),
        clock: Clock | None = None,
    ) -> None:
        self.synced = asyncio.Event()
        """Set once all kinds were listed, or can't be."""
        self._client = client
        self.shadow = shadow
        shadow.budget.limit(UNMEASURED)
        self._report = report
        self._since = since
        self._names = frozenset(names)
        self._clock = clock or SystemClock()
        self._backlog = Backlog(self._clock.monotonic)
        self._arrived = asyncio.Event()
        """Set while there is a backlog."""
        self._missed_before: int | None = None
        """How many decisions were missed before the shadow fell behind; None if it isn't behind."""
        self._failures = Failures()
        self._pods = PodDecoder()
        self._follows: list[_Follow] = []
        self._feeds = ShadowFeeds(
            client, shadow.world.handle.feeds.values(), self._keep_answers, self._take_answer, self._clock
        )
        self._denied: asyncio.Future[None] | None = None
        self._named: set[Kind] = set()
        """The kinds whose failure was reported since they could be read last."""
        self._watched: set[Kind] = set()
        """The kinds that were watched at any time."""
        self._refused: set[Kind] = set()
        """The kinds for which the server refuses the credentials."""
        self._refused_since: tuple[float, int] | None = None
        """When the server began to refuse the credentials, and how many decisions were missed then."""

    async def run(self) -> None:
        """Follow until cancelled. Raises ShadowError if the pods or nodes may not be read.

        Credentials that the server refuses are used again, or read again, until it accepts them.
        """
        watched = self.shadow.world.handle.served
        kinds = dict.fromkeys((*REQUIRED, *sorted(watched, key=lambda kind: kind.resource)))
        self._follows = [_Follow(self._client, self, kind, self._clock.monotonic) for kind in kinds]
        self._denied = asyncio.get_running_loop().create_future()
        tasks = [asyncio.create_task(each.run(), name=f"shadow {each.kind.resource}") for each in self._follows]
        tasks.append(asyncio.create_task(self._feeds.run(), name="ask feeds"))
        tasks.append(asyncio.create_task(self._take_in(), name="take in"))
        tasks.append(asyncio.create_task(self._settle(), name="settle"))
        tasks.append(asyncio.create_task(self._wait_for_lists(), name="wait for lists"))
        tasks.append(asyncio.create_task(self._end_if_denied(self._denied), name="wait for a denial"))
        try:
            while tasks:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    tasks.remove(task)
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)

    @staticmethod
    async def _end_if_denied(denied: asyncio.Future[None]) -> None:
        await denied

    @property
    def problems(self) -> list[str]:
        """Which kinds can't be read now, one line each."""
        return [each.problem for each in self._follows if each.problem]

    @property
    def late(self) -> float:
        """How many seconds the shadow is behind the cluster."""
        return self._backlog.late

    def schedulers(self) -> dict[str, int]:
        """Return how many pods without a node the schedulers have, by name. Visits all pods that are known."""
        found: dict[str, int] = {}
        for pod in self.shadow.world.state.objects[POD].values():
            if not pod.node_name and not pod.terminated:
                found[pod.scheduler_name] = found.get(pod.scheduler_name, 0) + 1
        return found

    async def _wait_for_lists(self) -> None:
        while not (self._feeds.asked and all(each.ready for each in self._follows)):  # noqa: ASYNC110 - a problem sets no event
            await asyncio.sleep(LISTING_PAUSE)
        for each in self._follows:
            if not each.synced:
                self._named.add(each.kind)
                logger.warning("%s: %s", each.problem, EFFECTS.get(each.kind, CUSTOM_EFFECT))
        self.synced.set()
        await keep_pauses_short()

    async def _take_in(self) -> None:
        """Take in what was seen. Meanwhile the watches go on reading."""
        turn = Turn(self._clock.monotonic)
        while True:
            await self._arrived.wait()
            turn.restart()
            while len(self._backlog):
                self._take_safely(self._backlog.take())
                await turn.pause()
            self._arrived.clear()

    async def _settle(self) -> None:
        problems = self.shadow.world.contents.problems
        while True:
            await asyncio.sleep(TICK)
            self._settle_some()
            while self.shadow.settles(self._backlog.seconds):
                await asyncio.sleep(0)
                self._settle_some()
            for kind in [each.kind for each in self._follows if not each.problem and each.kind in self._refused]:
                self.readable(kind)
            for problem in problems:
                logger.warning("%s", problem)
            problems.clear()

    def _settle_some(self) -> None:
        """Explain differences. What waits in the backlog may explain some, so that its time hasn't come yet."""
        with self._measured():
            self._tell(self.shadow.settle(self._backlog.seconds))

    @contextmanager
    def _measured(self) -> Iterator[None]:
        """Tell the shadow how long its decisions take here."""
        began = self._clock.monotonic()
        try:
            yield
        finally:
            self.shadow.budget.measure(self._clock.monotonic() - began)

    def finish(self) -> None:
        """Take in what was seen, and report what still waits to be explained. What is too late is only counted."""
        late, missed = self.late, self.shadow.tally.missed
        while len(self._backlog):
            self._take_safely(self._backlog.take(), counted=late > CAUGHT_UP)
        self._tell(self.shadow.settle(self._clock.monotonic(), everything=True))
        if late > CAUGHT_UP:
            more = self.shadow.tally.missed - missed
            logger.warning("the shadow ended %.0f s behind the cluster: %s missed", late, plural(more, "decision"))

    def _take_safely(self, change: SeenChange, *, counted: bool = False) -> None:
        """Take in a change. One object must not stop the others."""
        try:
            with self._measured():
                self._take(change, counted=counted)
        except Exception as error:  # noqa: BLE001 - it is recorded
            kind = change.kind
            self._failures.record(f"handling a change of {kind.plural}", error, f"{kind.kind} {change.key}")

    def _take(self, change: SeenChange, *, counted: bool) -> None:
        """Take in a change. `counted`: a decision is only counted as missed."""
        kind, key, new = change.kind, change.key, change.new
        if new is None:
            self.shadow.removed(kind, key, seconds=change.seconds, time=change.time)
            return
        if kind is POD and not change.gap:
            self._note_delay(self.shadow.world.pod(key), change)
        self._note_whether_behind()
        compared = not (change.gap or counted or self._backlog.behind)
        self._tell(self.shadow.put(kind, key, new, seconds=change.seconds, time=change.time, compared=compared))

    def _note_delay(self, old: PodInfo | None, change: SeenChange) -> None:
        if old is not None and not old.node_name and change.new.node_name:
            written = written_at(change.new)
            if written is not None:
                self._backlog.arrived((change.time - written).total_seconds())

    def _note_whether_behind(self) -> None:
        """Report when the shadow falls behind the cluster, and when it has caught up."""
        before, missed = self._missed_before, self.shadow.tally.missed
        if self._backlog.behind and before is None:
            self._missed_before = missed
            logger.warning(
                "the shadow is %.0f s behind the cluster: decisions are counted as missed until it has caught up",
                self.late,
            )
        elif before is not None and not self._backlog.behind:
            self._missed_before = None
            logger.warning("the shadow has caught up: %s missed", plural(missed - before, "decision"))

    def _tell(self, found: Iterable[ShadowComparison]) -> None:
        for each in found:
            self._report(each)

    # What the watches report

    def put(self, kind: Kind, key: str, new: Any, *, gap: bool) -> None:
        """An object was created or has changed. `gap`: it was seen later than it happened."""
        seconds, time = self._clock.monotonic(), self._clock.now()
        if not self.synced.is_set():
            if kind is POD:
                self._missed(new)
            self.shadow.load(kind, key, new, seconds=seconds, time=time)
            return
        if not gap:
            self._watched.add(kind)
        self._backlog.add(SeenChange(kind, key, new, gap, seconds, time))
        self._arrived.set()

    def _missed(self, pod: PodInfo) -> None:
        since, created = self._since, pod.creation_timestamp
        if since is not None and created is not None and created > since and pod.node_name:
            self.shadow.tally.missed += pod.scheduler_name in self._names

    def removed(self, kind: Kind, key: str) -> None:
        """An object was deleted."""
        seconds, time = self._clock.monotonic(), self._clock.now()
        if not self.synced.is_set():
            self.shadow.removed(kind, key, seconds=seconds, time=time)
            return
        self._backlog.add(SeenChange(kind, key, None, False, seconds, time))
        self._arrived.set()

    def _keep_answers(self, answers: Sequence[SourceAnswer]) -> None:
        self.shadow.feeds.answers = answers

    def _take_answer(self, kind: Kind, key: str, raw: bytes | None) -> None:
        """Take in what a source says, as a change of the cluster."""
        if raw is None:
            self.removed(kind, key)
        else:
            self.put(kind, key, self.decode(kind, raw), gap=False)

    def decode(self, kind: Kind, raw: bytes) -> Any:
        """Decode an object in the version that plugins read."""
        if kind is POD:
            return self._pods.decode(raw)
        obj = decode(kind.type, raw)
        if isinstance(obj, CustomObject):
            obj.setdefault("apiVersion", kind.api_version)
        return obj

    def failed(self, kind: Kind, error: RequestError) -> None:
        """A list or a watch failed. It ends the shadow if pods or nodes could never be watched, for lack of rights."""
        status = error.status if isinstance(error, ApiError) else None
        if status == HTTPStatus.UNAUTHORIZED:
            self._refuse(kind, error)
        elif status == HTTPStatus.FORBIDDEN and kind in REQUIRED and kind not in self._watched:
            if self._denied is not None and not self._denied.done():
                self._denied.set_exception(ShadowError(f"cannot read the {kind.plural}: {error}"))
        elif isinstance(error, TransportError) and kind is not POD:
            return  # the server is away, for all kinds
        elif self.synced.is_set() and kind not in self._named:
            self._named.add(kind)
            logger.warning("%s: %s", kind.resource, error)

    def _refuse(self, kind: Kind, error: RequestError) -> None:
        """Report once that the server refuses the credentials, for whatever kinds."""
        self._refused.add(kind)
        if self._refused_since is None:
            self._refused_since = self._clock.monotonic(), self.shadow.tally.missed
            logger.warning("%s: decisions are counted as missed until the server accepts the credentials again", error)

    def readable(self, kind: Kind) -> None:
        """A kind can be read, so that its next failure is news."""
        self._named.discard(kind)
        self._refused.discard(kind)
        if self._refused_since is not None and not self._refused:
            since, missed = self._refused_since
            self._refused_since = None
            logger.warning(
                "the server accepts the credentials again, after %.0f s: %s missed",
                self._clock.monotonic() - since,
                plural(self.shadow.tally.missed - missed, "decision"),
            )


class _Follow(FollowedKind):
    """Follows one kind for a shadow."""

    def __init__(self, client: Client, follower: ShadowFollower, kind: Kind, clock: Callable[[], float]) -> None:
        super().__init__(client, kind, clock=clock)
        self._follower = follower

    def decode(self, raw: bytes) -> Any:
        """Decode an object in the version that plugins read."""
        return self._follower.decode(self.kind, raw)

    def listed(self) -> None:
        """Tell the follower that the kind can be read."""
        self._follower.readable(self.kind)

    def failed(self, _kind: Kind, error: RequestError, _pause: float) -> None:
        """Tell the follower why a request failed."""
        self._follower.failed(self.kind, error)

    def put(self, key: str, new: Any) -> None:
        """Pass a new version on. After a failure it is old news, until the kind has been read again."""
        gap = bool(self.problem)
        if not gap:
            self._follower.readable(self.kind)
        self._follower.put(self.kind, key, new, gap=gap)

    def removed(self, key: str) -> None:
        """Pass on that an object is gone."""
        self._follower.removed(self.kind, key)
