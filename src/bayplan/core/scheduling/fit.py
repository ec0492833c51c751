"""Fit: how much of a gang fits on the nodes, and what to report where too little does.

`GangFit` grows while `bayplan.core.scheduling.gangs` tries the members of one placement. `Shortfall` is what is left of
it in the plan, as a value for messages and questions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, takewhile
from typing import TypeVar

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.gangs import Gang, GangVictims, Placement
from bayplan.core.framework.status import Status
from bayplan.core.scheduling.decision import Decision, Outcome

T = TypeVar("T")

_NAMED = 10
"""How many victims a message names."""


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Why a gang does not fit.

    `gang`: with its gated members. `fitting`, `needed`: how many members fit, and of how many, those on nodes included.
    If a gang of gangs doesn't fit, this is about the first of these that doesn't, and `within` has the shortfalls of
    the gangs above it, the outermost one first, whose `fitting` and `needed` count gangs.
    `next`: the decision about the first member that does not fit; None if no member was tried, because of the `refusal`
    of the gang, or because too few can be attempted now. `held_back`: the names of members that can't. `placement`: the
    node set in which most members fit, of `placements`; "" and 0 if all nodes are one. `elsewhere`: how many members
    fit in the others, and `label` the node label that the sets are made by, if there is one.
    """

    gang: Gang
    fitting: int
    needed: int
    next: Decision | None = None
    held_back: tuple[str, ...] = ()
    refusal: Status | None = None
    placement: str = ""
    placements: int = 0
    elsewhere: tuple[tuple[str, int], ...] = ()
    label: str = ""
    within: tuple[Shortfall, ...] = ()


@dataclass(slots=True)
class GangFit:
    """How much of a gang fits: the decisions about the members that were tried, in order.

    `preempt`: members that must preempt first count as placed; the gang waits then. `placement`: the candidate nodes;
    None for all. `placed`, `refused`: the decisions. `held_back`: names of members that cannot be attempted now.
    `refusal`: why no member was tried at all. `elsewhere`: how many members fit in each of the other placements,
    and `blamed_elsewhere` the plugins that rejected members there. `preemption`: the result of a preemption by
    the gang as a whole, as a clause of the message. `preempted_for`: uid of the PodGroup that room is made for.
    `before`: what the message is about instead, if room is made: how much fits now. `parts`: how much of each of its
    gangs fits, if it is a gang of gangs; `placed` has the decisions of those that fit, and `refused` those of all.
    """

    gang: Gang
    preempt: bool = False
    placement: Placement | None = None
    placed: list[Decision] = field(default_factory=list)
    refused: list[Decision] = field(default_factory=list)
    held_back: list[str] = field(default_factory=list)
    refusal: Status | None = None
    elsewhere: tuple[tuple[str, int], ...] = ()
    blamed_elsewhere: frozenset[str] = frozenset()
    preemption: str = ""
    preempted_for: str = ""
    before: GangFit | None = None
    parts: list[GangFit] = field(default_factory=list)

    def add(self, part: GangFit) -> None:
        """Count a gang of this gang of gangs."""
        self.parts.append(part)
        self.placed += part.placed if part.fits else ()
        self.refused += part.refused
        self.held_back += part.held_back

    def node_for(self, decision: Decision) -> str:
        """The node that a member gets, now or once its victims are gone; "" if it gets none."""
        if self.preempt and decision.outcome is Outcome.UNSCHEDULABLE:
            return decision.nominated_node or ""
        return decision.node or ""

    def worth_trying(self, parts: Sequence[T]) -> Iterator[T]:
        """Yield members, or gangs, as long as trying another one is of use.

        It isn't if too few can still be placed, or if enough are placed and a rejected member may be retried
        individually.
        """
        for done, part in enumerate(parts):
            if not self._worth_continuing(len(parts) - done):
                return
            yield part

    def _worth_continuing(self, left: int) -> bool:
        if self.failed:
            return False
        if self.gang.groups_needed:
            return self.gang.groups_needed - self.fitting <= left
        missing = self.gang.needed - len(self.placed)
        return missing <= left and (missing > 0 or not self.refused or self.gang.whole or bool(self.gang.no_preemption))

    def make_room(self, victims: GangVictims, plugin: str, blamed: frozenset[str]) -> None:
        """Make the gang wait until these victims are deleted; one member preempts for it.

        `plugin` chose the victims; `blamed` are the plugins that reject members before that.
        """
        self.preempt, self.preempted_for, self.blamed_elsewhere = True, victims.pod_group_uid, blamed
        preemptor = next((each for each in self.placed if each.pod.uid == victims.preemptor.uid), self.placed[0])
        preemptor.victims, preemptor.preempted_by = victims.victims, plugin
        preemptor.nominated_node = preemptor.node

    @property
    def failed(self) -> bool:
        """Whether the last attempt ended with an error."""
        return bool(self.refused) and self.refused[-1].outcome is Outcome.ERROR

    @property
    def fits(self) -> bool:
        """Whether enough members have a node, or would have one if their victims were gone; and enough gangs."""
        if self.refusal is not None or len(self.placed) < self.gang.needed:
            return False
        return not self.gang.groups_needed or self.fitting >= self.gang.groups_needed

    @property
    def holds_all(self) -> bool:
        """Whether all members have a node, also those that the gang doesn't need."""
        return self.fits and len(self.placed) == len(self.gang.members)

    @property
    def fitting(self) -> int:
        """How many members fit, those on nodes included; of a gang of gangs, how many of these fit."""
        if self.gang.groups_needed:
            return sum(part.fits for part in self.parts)
        return self.gang.placed + len(self.placed)

    @property
    def wanted(self) -> int:
        """How many of them have to fit."""
        return self.gang.groups_needed or self.gang.placed + self.gang.needed

    @property
    def missing(self) -> GangFit | None:
        """The first gang of a gang of gangs that does not fit; None if there is none."""
        return next((part for part in self.parts if not part.fits), None)

    @property
    def decisions(self) -> list[Decision]:
        """The decisions about all members that were tried.

        Those with which the first member that does not fit was tried, on their nodes, come before it.
        """
        missing = self.missing
        if missing is None:
            return [*self.placed, *self.refused]
        before = list(takewhile(lambda part: part is not missing, self.parts))
        after = self.parts[len(before) + 1 :]
        there = chain.from_iterable(part.placed for part in before)
        extra = chain.from_iterable(part.refused for part in before)
        return [*there, *missing.decisions, *extra, *chain.from_iterable(part.decisions for part in after)]

    @property
    def blamed(self) -> frozenset[str]:
        """The plugins that rejected members, or the gang."""
        plugins = (decision.diagnosis.unschedulable_plugins for decision in self.refused)
        whole = {self.refusal.plugin} if self.refusal is not None else ()
        return self.blamed_elsewhere.union(whole, *plugins, *(part.blamed for part in self.parts))

    @property
    def explained(self) -> bool:
        """Whether plugins rejected the members, so that the gang waits for their events.

        Without nodes no plugin runs, and the gang is retried after a backoff.
        """
        return all(
            decision.diagnosis.unschedulable_plugins or decision.outcome is Outcome.ERROR for decision in self.refused
        )

    def shortfall(self) -> Shortfall:
        """Why the gang does not fit."""
        own = Shortfall(
            self.gang,
            fitting=self.fitting,
            needed=self.wanted,
            next=self.refused[0] if self.refused else None,
            held_back=tuple(self.held_back),
            refusal=self.refusal,
            placement="" if self.placement is None else self.placement.name,
            placements=len(self.elsewhere) + (self.placement is not None),
            elsewhere=self.elsewhere,
            label="" if self.placement is None else self.placement.label,
        )
        if self.missing is None:
            return own
        short = self.missing.shortfall()
        return replace(short, within=(own, *short.within))

    def explain(self) -> str:
        """How many members fit, and why the next one does not."""
        if self.before is not None:
            return self.before.explain()
        name, size = f"gang {self.gang.name}", self.wanted
        what = "groups" if self.gang.groups_needed else "members"
        if self.refusal is not None:
            return f"{name}: {self.refusal.message}"
        if self.fits:
            victims = len({victim.uid for decision in self.placed for victim in decision.victims})
            return f"{name}: {size} of {size} {what} fit once {_pods(victims)} of lower priority are gone"
        if not self.refused and self.missing is None:
            return f"{name}: {self._too_few(size)}"
        where = ""
        if self.placement is not None:
            best = f", the best of {len(self.elsewhere) + 1} placements" if self.elsewhere else ""
            where = f" in {self.placement.name}{best}"
        text = f"{name}: {self.fitting} of {size} {what} fit{where}"
        if self.missing is not None:
            reason = f"{text}; the next one: {self.missing.explain()}"
        else:
            between = ", but none of their pending pods" if self.parts else "; the next one"
            reason = f"{text}{between}: {self.refused[0].reason}"
        return f"{reason} {self.preemption}" if self.preemption else reason

    def victims_named(self) -> str:
        """Whom a preemption would evict, as a sentence."""
        victims = sorted({victim.key for decision in self.placed for victim in decision.victims})
        more = f" and {len(victims) - _NAMED} more" if len(victims) > _NAMED else ""
        return f"Preemption would evict {_pods(len(victims))}: {', '.join(victims[:_NAMED])}{more}."

    def _too_few(self, size: int) -> str:
        """Why no member was tried."""
        if self.held_back:
            return f"{size} members are needed; held back: {', '.join(self.held_back)}"
        if self.gang.groups_needed:
            return f"{len(self.gang.groups)} of {size} groups exist"
        there = f"{self.gang.placed + len(self.gang.members)} of {size} members"
        gated = [f"{pod.name} waits for {_gates(pod)}" for pod in self.gang.gated]
        return f"{there}: {', '.join(gated)}" if gated else f"{there} exist"


def _gates(pod: PodInfo) -> str:
    names = ", ".join(pod.scheduling_gates)
    return f"the scheduling gate {names}" if len(pod.scheduling_gates) == 1 else f"the scheduling gates {names}"


def _pods(number: int) -> str:
    return "1 pod" if number == 1 else f"{number} pods"
