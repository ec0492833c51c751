"""Shadow: events of a cluster in, comparisons of its scheduler's decisions with Bayplan's out. No I/O, and no clock.

Each decision is asked on the state just before it was seen. If Bayplan decides otherwise there, the states shortly
before and after are asked, because the scheduler's view is an older or a newer one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import islice, zip_longest
from typing import Any

import msgspec

from bayplan.answers.shadow.comparisons import ShadowCause, ShadowComparison, ShadowSubject, ShadowTally
from bayplan.answers.shadow.doubts import BINDINGS, Doubts
from bayplan.answers.shadow.feeds import KnownFeeds
from bayplan.answers.shadow.guesses import ShadowGuess
from bayplan.answers.shadow.journal import WINDOW, ChangeJournal, JournalEntry
from bayplan.answers.shadow.judging import ComparedScheduler, ShadowQuestion
from bayplan.answers.shadow.moments import REACH, MomentSearch, SearchBudget, undo, vanished_in
from bayplan.answers.shadow.opened import CAUSES, OpenQuestion, comparison_of, crosses
from bayplan.answers.shadow.written import claims_of, decided_at, is_of, refusal, written_at
from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots.feeds import PAUSE
from bayplan.core.api.kinds import POD, Kind
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.config import ExtraPlugin, KubeSchedulerConfiguration, build_profiles
from bayplan.core.framework.profile import Profile

GRACE = 1.0
"""Seconds until a difference is explained: what the scheduler knew already may be seen that much later."""
NEXT_ANSWER = PAUSE + 3.0
"""The same where sources of feeds are asked, each at other times than the scheduler does: until their next answer."""
MOST_OPEN = 500
"""How many differences wait for that at most."""
MOST_DUE = 16
"""How many of them are explained at once."""
NEAR = 48
"""How many changes before a decision are looked at without waiting for later ones."""


class Shadow:
    """Compares the decisions of the schedulers with these `names`. Not for use in several threads.

    `world`: its configuration is Bayplan's; it is empty, and only this shadow changes it. `configuration`: that of the
    world. `theirs`: the configuration and plugins of the scheduler itself, if it is another one; a difference that it
    explains has the cause CONFIGURATION. `tally`: that of an earlier run, to go on with. `seconds` of all methods is a
    monotonic clock. Raises ConfigurationError.
    """

    def __init__(
        self,
        world: World,
        names: Collection[str],
        configuration: KubeSchedulerConfiguration | None = None,
        theirs: tuple[KubeSchedulerConfiguration, Sequence[ExtraPlugin]] | None = None,
        *,
        budget: SearchBudget | None = None,
        tally: ShadowTally | None = None,
    ) -> None:
        self.tally = tally or ShadowTally()
        self._world = world
        self._names = frozenset(names)
        self._ours = ComparedScheduler(world, configuration)
        self._theirs = self._ours if theirs is None else ComparedScheduler(world, *theirs, other=True)
        asks = any(feed.sources for feed in world.handle.feeds.values())
        self._grace = NEXT_ANSWER if asks else GRACE
        self.budget = budget or SearchBudget()
        """How many decisions may be asked for to explain differences."""
        self._journal = ChangeJournal(WINDOW + self._grace - GRACE)
        self.feeds = KnownFeeds(world.handle.feeds)
        """What sources of measurements say. Their objects are changes of the cluster, as others."""
        self._doubts = {
            name: Doubts(world, name, partial(_known, world, name, configuration, theirs)) for name in names
        }
        self._open: deque[OpenQuestion] = deque()
        self._answered = 0
        """How many of them are answered."""
        self._expected: dict[str, str] = {}
        """The nodes of pods that the scheduler has decided and not yet bound: uid -> node."""
        self._nominated: deque[tuple[int, str]] = deque(maxlen=MOST_OPEN)
        """The positions and nodes of the latest nominations."""

    @property
    def waiting(self) -> int:
        """How many differences wait to be explained."""
        return len(self._open) - self._answered

    @property
    def guesses(self) -> list[ShadowGuess]:
        """What the schedulers seem to have where most of their bindings have other scores, as far as is known now."""
        return [each.guess for each in self._doubts.values() if each.guess is not None]

    @property
    def world(self) -> World:
        """The cluster as it was seen last."""
        return self._world

    # Events

    def load(self, kind: Kind, key: str, new: Any, *, seconds: float, time: datetime) -> None:
        """An object was listed, or has changed before all kinds were listed. Nothing is compared.

        The scheduler is taken to know it.
        """
        self._world.handle.time = time
        if kind is POD:
            new = self._assumed(new, binds=self._binds(self._world.pod(key), new))
        self._world.change(kind, key, new)
        self._world.keep()
        self.feeds.note(kind, new, time)
        self.budget.pass_time(seconds)

    def put(
        self, kind: Kind, key: str, new: Any, *, seconds: float, time: datetime, compared: bool = True
    ) -> list[ShadowComparison]:
        """An object was created or has changed. Returns the comparisons that are complete; `settle` returns the others.

        `new`: as for `World.change`. `compared`: whether it was seen as it happened; otherwise it is only counted.
        """
        self._world.handle.time = time
        self._journal.forget(seconds)
        found: list[ShadowComparison] = []
        old, binds = self._known(kind, key), False
        try:
            if kind is POD:
                binds = self._binds(old, new)
                question = self._question(old, new, binds=binds)
                if question is not None and compared:
                    found += self._ask(question, seconds, decided_at(written_at(new), time))
                elif question is not None:
                    self.tally.missed += 1
        finally:  # whatever a plugin does, the cluster is what it is
            self._change(kind, key, old, self._assumed(new, binds=binds) if kind is POD else new, seconds)
        return found

    def removed(self, kind: Kind, key: str, *, seconds: float, time: datetime) -> None:
        """An object was deleted."""
        self._world.handle.time = time
        old = self._known(kind, key)
        if old is not None:
            if kind is POD:
                self._expected.pop(old.uid, None)
            self._change(kind, key, old, None, seconds)

    def _known(self, kind: Kind, key: str) -> Any:
        return self._world.pod(key) if kind is POD else self._world.state.objects[kind].known(key)

    def _change(self, kind: Kind, key: str, old: Any, new: Any, seconds: float) -> None:
        self._world.change(kind, key, new)
        self._world.keep()
        self._journal.add(seconds, kind, key, old, new)
        self.feeds.note(kind, new, self._world.handle.time)
        self.budget.pass_time(seconds)

    def _binds(self, old: PodInfo | None, new: PodInfo) -> bool:
        """Whether a pod was nominated for the node that the scheduler will bind it to.

        With NominatedNodeNameForExpectation, kube-scheduler writes that node before it waits for volumes or devices,
        which can take seconds. After a preemption, it writes why no node fits, too; but the pod may say that already.
        Then the node is one to bind to if the pod fits a node.
        """
        node, before = new.nominated_node_name, old.nominated_node_name if old is not None else ""
        if not node or new.node_name or node == before or new.scheduler_name not in self._names:
            return False
        message = refusal(new)
        if old is None or not message or message != refusal(old):
            return not message
        question = ShadowQuestion(ShadowSubject.BINDING, old.on_node(""), node)
        with self._before(question, self._journal.next):
            return bool(self._theirs.judge(question).ours)

    def _assumed(self, new: PodInfo, *, binds: bool) -> PodInfo:
        """A pod as the scheduler counts it: on the node that it will bind it to."""
        expected = self._expected.pop(new.uid, "")
        if new.node_name or not (binds or (expected and expected == new.nominated_node_name)):
            return new
        self._expected[new.uid] = new.nominated_node_name
        return new.on_node(new.nominated_node_name)

    def _question(self, old: PodInfo | None, new: PodInfo, *, binds: bool) -> ShadowQuestion | None:
        """What the scheduler has decided about a pod, if that is what its new version says."""
        if old is None or old.uid != new.uid or new.scheduler_name not in self._names:
            return None
        expected = self._expected.get(old.uid)
        if expected is not None:
            old = old.on_node("")
        if old.node_name or (new.node_name and new.node_name == expected):
            return None
        if new.node_name:
            return ShadowQuestion(ShadowSubject.BINDING, old, new.node_name)
        if new.nominated_node_name and new.nominated_node_name != old.nominated_node_name:
            subject = ShadowSubject.BINDING if binds else ShadowSubject.NOMINATION
            return ShadowQuestion(subject, old, new.nominated_node_name)
        message = refusal(new)
        return ShadowQuestion(ShadowSubject.FAILURE, old) if message and message != refusal(old) else None

    # Questions

    def _ask(self, question: ShadowQuestion, seconds: float, time: datetime) -> list[ShadowComparison]:
        opened = OpenQuestion(question, self._journal.next, seconds, time, self.feeds.answers)
        if question.subject is not ShadowSubject.NOMINATION:  # its victims may be seen later
            with self._before(question, opened.position):
                found = self._at_once(opened)
            if found is not None:
                self._keep_for_doubts(opened)
                return [self._counted(found, opened)]
        else:
            self._nominated.append((opened.position, question.node))
        self._open.append(opened)
        return self.settle(seconds, everything=True) if len(self._open) > MOST_OPEN else []

    def _keep_for_doubts(self, opened: OpenQuestion) -> None:
        """Keep a binding that is as good as any, if there are doubts about the configuration."""
        doubts = self._doubts[opened.question.pod.scheduler_name]
        wanted = opened.question.subject is ShadowSubject.BINDING and doubts.wants(self.waiting)
        if wanted and self._answered < BINDINGS:
            self._answered += 1
            self._open.append(opened._replace(answered=True))

    def settle(self, seconds: float, *, everything: bool = False) -> list[ShadowComparison]:
        """Return what can be explained by now. `everything`: without waiting for later events.

        To be called a few times a second, until `settles` is false: it goes back to the states of many differences at
        once, and not to those of too many, which would take long.
        """
        due: list[OpenQuestion] = []
        while everything or (self.settles(seconds) and len(due) < MOST_DUE):
            if not self._open:
                break
            due.append(self._open.popleft())
        found: list[ShadowComparison] = []
        if due:
            self._answered -= sum(each.answered for each in due)
            with self._world.what_if():
                undone = self._journal.next
                for each in reversed(due):
                    later = self._journal.since(each.position)
                    undo(self._world, [entry for entry in later if entry.position < undone])
                    undone = each.position
                    found += self._settled(self._with_victims(each, later), self._soon(each, later), seconds)
        for doubts in self._doubts.values():
            doubts.think(self._world.handle.time, everything=everything)
        return found[::-1]

    def _soon(self, asked: OpenQuestion, later: Sequence[JournalEntry]) -> Sequence[JournalEntry]:
        """The changes that the scheduler may have known: what was seen soon after its decision, and later answers."""
        feeds, end = self._world.handle.feeds, asked.seconds + GRACE
        return [each for each in later if each.seconds <= end or each.kind in feeds] if feeds else later

    def settles(self, seconds: float) -> bool:
        """Return whether there is anything to explain by now."""
        return bool(self._open) and self._open[0].seconds + self._grace <= seconds

    def _settled(
        self, asked: OpenQuestion, later: Sequence[JournalEntry], seconds: float
    ) -> Iterator[ShadowComparison]:
        """Answer one question in its state, and ask about its scores there if there are doubts."""
        question, name = asked.question, asked.question.pod.scheduler_name
        with self._before(question, asked.position):
            if not asked.answered:
                nominated = question.subject is ShadowSubject.NOMINATION  # the others were asked at once
                answer = (self._at_once(asked) if nominated else None) or self._at_last(asked, later)
                yield self._counted(answer, asked)
            if question.subject is ShadowSubject.BINDING:
                self._doubts[name].ask(question.pod, question.node, seconds)

    def _counted(self, found: ShadowComparison, opened: OpenQuestion) -> ShadowComparison:
        inputs = self.feeds.inputs(opened.answers, found.theirs, found.ours)
        found = msgspec.structs.replace(found, feeds=tuple(inputs))
        self.tally.add(found)
        self._doubts[opened.question.pod.scheduler_name].add(found)
        return found

    def _with_victims(self, opened: OpenQuestion, later: Sequence[JournalEntry]) -> OpenQuestion:
        """A nomination with the pods that its preemption evicts."""
        question = opened.question
        if question.subject is not ShadowSubject.NOMINATION:
            return opened
        entries = [*self._journal.before(opened.position), *later]
        victims = frozenset(each.key for each in entries if self._evicts_for(each, opened))
        return opened._replace(question=replace(question, victims=victims))

    def _evicts_for(self, entry: JournalEntry, opened: OpenQuestion) -> bool:
        """Whether this is an eviction for a nomination: that of its node which was seen at the closest time."""
        node = opened.question.node
        if entry.victim_on != node:
            return False
        closest = min((abs(entry.position - position) for position, name in self._nominated if name == node), default=0)
        return abs(entry.position - opened.position) <= closest

    @contextmanager
    def _before(self, question: ShadowQuestion, position: int) -> Iterator[None]:
        """The state without what the scheduler has written for this very decision."""
        claims = claims_of(question.pod)
        own = [each for each in self._journal.before(position) if is_of(each, claims)] if claims else []
        with self._world.what_if():
            undo(self._world, own[::-1])
            yield

    def _with_evictions(self, opened: OpenQuestion) -> ShadowComparison | None:
        """The answer about a preemption whose victims were seen first: the latest ones are put back one by one."""
        for each in self._journal.before(opened.position):
            if self._evicts_for(each, opened):
                undo(self._world, [each])
                if found := self._here(opened):
                    return found
        return None

    def _at_once(self, opened: OpenQuestion) -> ShadowComparison | None:
        """The answer that needs no later event; None if there is none."""
        found = self._here(opened)
        if found is None and opened.question.subject is ShadowSubject.NOMINATION:
            found = self._with_evictions(opened)
        if found is not None:
            return found
        search = self._search(opened)
        answers = search.with_other_answers(self._journal.before(opened.position))
        return answers or search.behind(islice(self._journal.before(opened.position), NEAR))

    def _here(self, opened: OpenQuestion) -> ShadowComparison | None:
        """The answer in this state; None if Bayplan decides otherwise in both configurations."""
        ours = self._ours.judge(opened.question)
        if ours.equal:
            return comparison_of(opened, ours, CAUSES[ours.standing])
        if self._theirs is not self._ours and self._theirs.judge(opened.question).equal:
            return self._different(opened, ShadowCause.CONFIGURATION)
        return None

    def _at_last(self, opened: OpenQuestion, later: Sequence[JournalEntry]) -> ShadowComparison:
        """The answer when all that may explain a difference is known."""
        if opened.question.subject is not ShadowSubject.NOMINATION:
            return self._searched(opened, later)
        own = [each for each in self._journal.before(opened.position) if self._evicts_for(each, opened)]
        with self._world.what_if():  # the scheduler has decided before it evicted its victims
            undo(self._world, own[::-1])
            return self._searched(opened, [each for each in later if each.key not in opened.question.victims])

    def _searched(self, opened: OpenQuestion, later: Sequence[JournalEntry]) -> ShadowComparison:
        """The answer with a search for the state on which the scheduler has decided."""
        question, search = opened.question, self._search(opened)
        earlier = [
            each
            for each in islice(self._journal.before(opened.position), REACH)
            if each.key not in question.victims or not self._evicts_for(each, opened)
        ]
        thorough = question.subject is not ShadowSubject.BINDING or not self._theirs.samples(question.pod)
        found = search.with_other_answers((), later)
        found = found or search.in_queue_order(earlier, later, thorough=thorough) or search.ahead(later)
        if found is None:
            theirs = self._theirs.judge(question)
            if self._theirs.sampling_explains(question, theirs):
                return self._different(opened, ShadowCause.SAMPLING)
            if thorough:
                found = search.singly(earlier, later, theirs, vanished_in(later, earlier))
        if found is not None:
            return found
        if self._theirs.has_extender_for(question.pod):
            return self._different(opened, ShadowCause.EXTENDER)
        found = self._different(opened, ShadowCause.UNKNOWN)
        around = (each for pair in zip_longest(earlier, later) for each in pair if each is not None)
        between = next((each for each in around if crosses(each, opened, found)), None)
        if between is None:
            return found
        return msgspec.structs.replace(found, cause=ShadowCause.NOMINATIONS, between=between.text)

    def _search(self, opened: OpenQuestion) -> MomentSearch:
        def found(between: str) -> ShadowComparison:
            ours = self._ours.judge(opened.question)
            if ours.equal:
                return comparison_of(opened, ours, ShadowCause.RACE, between)
            return self._different(opened, ShadowCause.CONFIGURATION, between)

        question = opened.question
        judge = partial(self._theirs.judge, question, quick=True)
        return MomentSearch(self._world, judge, self.budget, question.pod.key, found)

    def _different(self, opened: OpenQuestion, cause: ShadowCause, between: str = "") -> ShadowComparison:
        """A comparison with reasons. They cost another decision."""
        question = opened.question
        ours = self._ours.judge(question, explain=True)
        found = comparison_of(opened, ours, cause, between)
        if ours.decision is None:
            return msgspec.structs.replace(found, reason=ours.message)
        if not ours.ours or found.difference is None:
            status = ours.decision.diagnosis.status_of(question.node) if question.node else None
            reason = status.message if status is not None and status.rejected else ours.message
            return msgspec.structs.replace(found, reason=reason)
        return msgspec.structs.replace(found, plugins=ours.plugins(self._world.state.table))


def _known(
    world: World,
    name: str,
    ours: KubeSchedulerConfiguration | None,
    theirs: tuple[KubeSchedulerConfiguration, Sequence[ExtraPlugin]] | None,
) -> tuple[Profile, Collection[str]]:
    """What a scheduler is taken to have: its profile, and the plugins that have arguments of their own."""
    profile = world.profiles[name]
    if theirs is not None:
        profile = build_profiles(theirs[0], world.handle, theirs[1], world.gates)[name]
    configuration = ours if theirs is None else theirs[0]
    profiles = configuration.profiles if configuration is not None else ()
    return profile, [config.name for each in profiles if each.schedulerName == name for config in each.pluginConfig]
