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
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from bayplan.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, RESOURCE_CLAIM, Kind
from bayplan.cluster.pod_info import PodInfo
from bayplan.config import ExtraPlugin, KubeSchedulerConfiguration
from bayplan.judging.choices import margin_of
from bayplan.judging.judgement import Judgement, Standing
from bayplan.shadow.comparisons import ShadowCause, ShadowComparison, ShadowOutcome, ShadowSubject, ShadowTally
from bayplan.shadow.journal import ChangeJournal, JournalEntry
from bayplan.shadow.judging import Contender, ShadowQuestion
from bayplan.shadow.moments import REACH, MomentSearch, SearchBudget, undo, vanished_in
from bayplan.simulation.world import World

GRACE = 1.0
"""Seconds until a difference is explained: what the scheduler knew already may be seen that much later."""
MOST_OPEN = 500
"""How many differences wait for that at most."""
NEAR = 48
"""How many changes before a decision are looked at without waiting for later ones."""
_CLAIMS = frozenset({PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, RESOURCE_CLAIM})
"""The kinds that a scheduler, or a controller for it, writes before it binds a pod."""


class _Open(NamedTuple):
    """A question that is answered after the grace. `position`: that of the journal before the decision was seen."""

    question: ShadowQuestion
    position: int
    seconds: float
    time: datetime


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
        grace: float = GRACE,
        budget: SearchBudget | None = None,
        tally: ShadowTally | None = None,
    ) -> None:
        self.tally = tally or ShadowTally()
        self._world = world
        self._names = frozenset(names)
        self._ours = Contender(world, configuration)
        self._theirs = self._ours if theirs is None else Contender(world, *theirs, other=True)
        self._grace = grace
        self._budget = budget or SearchBudget()
        self._journal = ChangeJournal()
        self._open: deque[_Open] = deque()
        self._expected: dict[str, str] = {}
        """The nodes of pods that the scheduler has decided and not yet bound: uid -> node."""
        self._nominated: deque[tuple[int, str]] = deque(maxlen=MOST_OPEN)
        """The positions and nodes of the latest nominations."""

    @property
    def waiting(self) -> int:
        """How many differences wait to be explained."""
        return len(self._open)

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
            new = self._assumed(self._world.pod(key), new)
        self._world.change(kind, key, new)
        self._world.keep()
        self._budget.pass_time(seconds)

    def put(
        self, kind: Kind, key: str, new: Any, *, seconds: float, time: datetime, compared: bool = True
    ) -> list[ShadowComparison]:
        """An object was created or has changed. Returns the comparisons that are complete; `settle` returns the others.

        `new`: as for `World.change`. `compared`: whether it was seen as it happened; otherwise it is only counted.
        """
        self._world.handle.time = time
        self._journal.forget(seconds)
        found: list[ShadowComparison] = []
        old = self._known(kind, key)
        question = self._question(old, new) if kind is POD else None
        try:
            if question is not None and compared:
                found += self._ask(question, seconds, time)
            elif question is not None:
                self.tally.missed += 1
        finally:  # whatever a plugin does, the cluster is what it is
            self._change(kind, key, old, self._assumed(old, new) if kind is POD else new, seconds)
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
        self._budget.pass_time(seconds)

    def _assumed(self, old: PodInfo | None, new: PodInfo) -> PodInfo:
        """A pod as the scheduler counts it: on the node that it expects to bind it to.

        With NominatedNodeNameForExpectation, kube-scheduler writes that node before it waits for volumes or devices,
        which can take seconds.
        """
        node = self._expected.pop(new.uid, "")
        if new.node_name or not new.nominated_node_name or new.scheduler_name not in self._names:
            return new
        if node != new.nominated_node_name and not _expects(old, new):
            return new
        self._expected[new.uid] = new.nominated_node_name
        return new.on_node(new.nominated_node_name)

    def _question(self, old: PodInfo | None, new: PodInfo) -> ShadowQuestion | None:
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
            subject = ShadowSubject.BINDING if _expects(old, new) else ShadowSubject.NOMINATION
            return ShadowQuestion(subject, old, new.nominated_node_name)
        message = _refusal(new)
        return ShadowQuestion(ShadowSubject.FAILURE, old) if message and message != _refusal(old) else None

    # Questions

    def _ask(self, question: ShadowQuestion, seconds: float, time: datetime) -> list[ShadowComparison]:
        opened = _Open(question, self._journal.next, seconds, time)
        if question.subject is not ShadowSubject.NOMINATION:  # its victims may be seen later
            with self._before(opened):
                found = self._at_once(opened)
            if found is not None:
                return [self._counted(found)]
        else:
            self._nominated.append((opened.position, question.node))
        self._open.append(opened)
        return self.settle(seconds, everything=True) if len(self._open) > MOST_OPEN else []

    def settle(self, seconds: float, *, everything: bool = False) -> list[ShadowComparison]:
        """Return what can be explained by now. `everything`: without waiting for later events.

        To be called a few times a second: it goes back to the states of all differences at once.
        """
        due: list[_Open] = []
        while self._open and (everything or self._open[0].seconds + self._grace <= seconds):
            due.append(self._open.popleft())
        if not due:
            return []
        found = []
        with self._world.what_if():
            undone = self._journal.next
            for each in reversed(due):
                later = self._journal.since(each.position)
                undo(self._world, [entry for entry in later if entry.position < undone])
                undone = each.position
                asked = self._with_victims(each, later)
                with self._before(asked):
                    nominated = asked.question.subject is ShadowSubject.NOMINATION  # the others were asked at once
                    found.append((self._at_once(asked) if nominated else None) or self._at_last(asked, later))
        return [self._counted(each) for each in reversed(found)]

    def _counted(self, found: ShadowComparison) -> ShadowComparison:
        self.tally.add(found)
        return found

    def _with_victims(self, opened: _Open, later: Sequence[JournalEntry]) -> _Open:
        """A nomination with the pods that its preemption evicts."""
        question = opened.question
        if question.subject is not ShadowSubject.NOMINATION:
            return opened
        entries = [*self._journal.before(opened.position), *later]
        victims = frozenset(each.key for each in entries if self._evicts_for(each, opened))
        return opened._replace(question=replace(question, victims=victims))

    def _evicts_for(self, entry: JournalEntry, opened: _Open) -> bool:
        """Whether this is an eviction for a nomination: that of its node which was seen at the closest time."""
        node = opened.question.node
        if entry.victim_on != node:
            return False
        closest = min((abs(entry.position - position) for position, name in self._nominated if name == node), default=0)
        return abs(entry.position - opened.position) <= closest

    @contextmanager
    def _before(self, opened: _Open) -> Iterator[None]:
        """The state without what the scheduler has written for this very decision."""
        question = opened.question
        claims = _claims_of(question.pod)
        own = [each for each in self._journal.before(opened.position) if _is_of(each, claims)] if claims else []
        with self._world.what_if():
            undo(self._world, own[::-1])
            yield

    def _with_evictions(self, opened: _Open) -> ShadowComparison | None:
        """The answer about a preemption whose victims were seen first: the latest ones are put back one by one."""
        for each in self._journal.before(opened.position):
            if self._evicts_for(each, opened):
                undo(self._world, [each])
                if found := self._here(opened):
                    return found
        return None

    def _at_once(self, opened: _Open) -> ShadowComparison | None:
        """The answer that needs no later event; None if there is none."""
        found = self._here(opened)
        if found is None and opened.question.subject is ShadowSubject.NOMINATION:
            found = self._with_evictions(opened)
        return found or self._search(opened).behind(islice(self._journal.before(opened.position), NEAR))

    def _here(self, opened: _Open) -> ShadowComparison | None:
        """The answer in this state; None if Bayplan decides otherwise in both configurations."""
        ours = self._ours.judge(opened.question)
        if ours.equal:
            return _compared(opened, ours, _CAUSES[ours.standing])
        if self._theirs is not self._ours and self._theirs.judge(opened.question).equal:
            return self._different(opened, ShadowCause.CONFIGURATION)
        return None

    def _at_last(self, opened: _Open, later: Sequence[JournalEntry]) -> ShadowComparison:
        """The answer when all that may explain a difference is known."""
        question, search = opened.question, self._search(opened)
        earlier = list(islice(self._journal.before(opened.position), REACH))
        thorough = question.subject is not ShadowSubject.BINDING or not self._theirs.samples(question.pod)
        found = search.in_queue_order(earlier, later, thorough=thorough) or search.ahead(later)
        if found is None:
            theirs = self._theirs.judge(question)
            if self._theirs.sampling_explains(question, theirs):
                return self._different(opened, ShadowCause.SAMPLING)
            if thorough:
                found = search.singly(earlier, later, theirs, vanished_in(later, earlier))
        if found is not None:
            return found
        extender = self._theirs.has_extender_for(question.pod)
        return self._different(opened, ShadowCause.EXTENDER if extender else ShadowCause.UNKNOWN)

    def _search(self, opened: _Open) -> MomentSearch:
        def found(between: str) -> ShadowComparison:
            ours = self._ours.judge(opened.question)
            if ours.equal:
                return _compared(opened, ours, ShadowCause.RACE, between)
            return self._different(opened, ShadowCause.CONFIGURATION, between)

        question = opened.question
        judge = partial(self._theirs.judge, question, quick=True)
        return MomentSearch(self._world, judge, self._budget, question.pod.key, found)

    def _different(self, opened: _Open, cause: ShadowCause, between: str = "") -> ShadowComparison:
        """A comparison with reasons. They cost another decision."""
        question = opened.question
        ours = self._ours.judge(question, explain=True)
        found = _compared(opened, ours, cause, between)
        if ours.decision is None:
            return msgspec.structs.replace(found, reason=ours.message)
        if not ours.ours or found.difference is None:
            status = ours.decision.diagnosis.status_of(question.node) if question.node else None
            reason = status.message if status is not None and status.rejected else ours.message
            return msgspec.structs.replace(found, reason=reason)
        return msgspec.structs.replace(found, plugins=ours.plugins(self._world.state.table))


_CAUSES = {
    Standing.SAME: ShadowCause.NONE,
    Standing.TIE: ShadowCause.TIE,
    Standing.SAMPLED: ShadowCause.SAMPLING,
    Standing.OTHER_ORDER: ShadowCause.RACE,
}


def _compared(opened: _Open, ours: Judgement, cause: ShadowCause, between: str = "") -> ShadowComparison:
    question = opened.question
    if ours.equal:
        outcome = ShadowOutcome.SAME if ours.standing is Standing.SAME else ShadowOutcome.BEST
    else:
        outcome = ShadowOutcome.OTHER if ours.ours else ShadowOutcome.NOT_PLACED
    scored = question.subject is ShadowSubject.BINDING and bool(ours.ours) and ours.loss != float("inf")
    return ShadowComparison(
        time=opened.time,
        subject=question.subject,
        pod=question.pod.key,
        uid=question.pod.uid,
        theirs=question.node,
        ours=ours.ours,
        outcome=outcome,
        cause=cause,
        between=between,
        difference=int(ours.loss) if scored else None,
        margin=margin_of(ours.decision) if ours.decision is not None and ours.ours else None,
        their_victims=tuple(sorted(question.victims)),
        our_victims=tuple(sorted(ours.victims)),
    )


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None


class _Status(msgspec.Struct):
    conditions: list[_Condition] | None = None


class _PodStatus(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


_pod_status = msgspec.json.Decoder(_PodStatus)


def _expects(old: PodInfo | None, new: PodInfo) -> bool:
    """Whether the scheduler will bind a pod to its nominated node. After a preemption, it also writes a failure."""
    return _refusal(new) == ("" if old is None else _refusal(old))


def _refusal(pod: PodInfo) -> str:
    """The message of a scheduler that found no node for a pod; "" if it has not said so."""
    raw = pod.raw
    if b'"Unschedulable"' not in raw:
        return ""
    try:
        conditions = _pod_status.decode(raw).status.conditions or ()
    except msgspec.MsgspecError:  # the pod could be read, but a condition is odd
        return ""
    for each in conditions:
        if each.type == "PodScheduled" and each.status == "False" and each.reason == "Unschedulable":
            return each.message or "Unschedulable"
    return ""


def _claims_of(pod: PodInfo) -> frozenset[tuple[Kind, str]]:
    """The claims of a pod, by kind and key."""
    found = set[tuple[Kind, str]]()
    for volume in pod.volumes:
        if volume.persistentVolumeClaim is not None:
            found.add((PERSISTENT_VOLUME_CLAIM, f"{pod.namespace}/{volume.persistentVolumeClaim.claimName}"))
        if volume.ephemeral is not None:
            found.add((PERSISTENT_VOLUME_CLAIM, f"{pod.namespace}/{pod.name}-{volume.name}"))
    if b'"resourceClaims"' in pod.raw:
        names = [each.resourceClaimName for each in pod.spec.resourceClaims or ()]
        names += [each.resourceClaimName for each in pod.status.resourceClaimStatuses or ()]
        found.update((RESOURCE_CLAIM, f"{pod.namespace}/{name}") for name in names if name)
    return frozenset(found)


def _is_of(entry: JournalEntry, claims: Collection[tuple[Kind, str]]) -> bool:
    """Whether a change is one of these claims, or of a volume that is bound to one."""
    if entry.kind not in _CLAIMS or entry.old is None:
        return False
    if entry.kind is not PERSISTENT_VOLUME:
        return (entry.kind, entry.key) in claims
    claim = entry.new.spec.claimRef if entry.new is not None and entry.new.spec is not None else None
    return claim is not None and (PERSISTENT_VOLUME_CLAIM, f"{claim.namespace}/{claim.name}") in claims
