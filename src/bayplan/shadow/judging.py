"""Asks Bayplan for a decision that another scheduler has made, on a world as it is at this moment."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from bayplan.cluster.columns import Rows
from bayplan.cluster.pod_info import PodInfo
from bayplan.config import ExtraPlugin, KubeSchedulerConfiguration, build_profiles
from bayplan.framework.capabilities import SampledPreemption
from bayplan.framework.profile import Point, Profile, implements
from bayplan.framework.status import Code, PluginError
from bayplan.scheduling import Decision, Outcome, Unit
from bayplan.scheduling.sampling import feasible_nodes_to_find
from bayplan.shadow.comparisons import ShadowSubject
from bayplan.sharing import Sharing
from bayplan.simulation.choices import better_than, is_best, loss_at
from bayplan.simulation.node_orders import NodeOrders
from bayplan.simulation.world import World

_KEYS = 256
"""For how many keys of pods results are kept per profile."""


@dataclass(frozen=True, slots=True)
class ShadowQuestion:
    """A decision of the scheduler: about `pod` as it was before, with the node that it chose; "" for a failure.

    `victims`: the keys of the pods that it evicts, as far as they are known; empty if none is.
    """

    subject: ShadowSubject
    pod: PodInfo
    node: str = ""
    victims: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Judgement:
    """What Bayplan decides. `ours`: its node; "" for none. `same`, `best`: whether theirs is that node, or as good.

    `loss`: how far the scheduler's decision is from being equal; infinity if that can't be said. `sampled`: theirs is
    the best one only of those that the scheduler may have looked at.
    """

    ours: str
    same: bool
    best: bool
    loss: float
    decision: Decision | None
    message: str = ""
    victims: frozenset[str] = frozenset()
    sampled: bool = False

    @property
    def equal(self) -> bool:
        """Whether the scheduler's decision is as good as any."""
        return self.same or self.best or self.sampled


class Contender:
    """A scheduler whose decisions are asked for: that of the world, or one with another configuration on that world.

    Raises ConfigurationError or PluginLoadError.
    """

    def __init__(
        self,
        world: World,
        configuration: KubeSchedulerConfiguration | None = None,
        plugins: Sequence[ExtraPlugin] = (),
        *,
        other: bool = False,
    ) -> None:
        self._world = world
        self._profiles = dict(world.profiles)
        self._sharing = dict(world.sharing)
        self._orders = NodeOrders(world)
        self._extenders = configuration.extenders if configuration is not None else []
        if other:
            assert configuration is not None
            self._profiles = dict(build_profiles(configuration, world.handle, plugins, world.gates))
            self._sharing = {name: Sharing(profile, _KEYS) for name, profile in self._profiles.items()}

    def judge(self, question: ShadowQuestion, *, explain: bool = False, quick: bool = False) -> Judgement:
        """Decide what the scheduler has decided. Nothing changes.

        `explain`: keep the scores by plugin. `quick`: let a preemption begin at the scheduler's node only.
        """
        world, pod = self._world, question.pod
        name = pod.scheduler_name
        other = self._profiles[name], self._sharing[name]
        try:
            unit = world.unit_of(pod) if question.subject is ShadowSubject.FAILURE else Unit(pod)
        except PluginError as error:
            return Judgement("", same=False, best=False, loss=math.inf, decision=None, message=str(error))
        with world.what_if():  # a PostFilter plugin may free claims
            plan = world.attempt(unit, explain=explain, other=other)
        decision = next((each for each in plan.decisions if each.pod.uid == pod.uid), None)
        placed = next((each.node for each in plan.placed if each.pod.uid == pod.uid), None) or ""
        if question.subject is ShadowSubject.FAILURE:
            return _of_failure(decision, placed, plan.message)
        if decision is None or decision.outcome is Outcome.ERROR:
            message = plan.message if decision is None else decision.message
            return Judgement("", same=False, best=False, loss=math.inf, decision=decision, message=message)
        if placed:
            return self._of_node(question, decision, placed)
        found = self._of_nomination(question, decision)
        if found.equal or question.subject is ShadowSubject.BINDING:
            return found
        return self._of_some_candidates(question, decision, unit, other, quick=quick) or found

    def _of_some_candidates(
        self,
        question: ShadowQuestion,
        decision: Decision,
        unit: Unit,
        other: tuple[Profile, Sharing],
        *,
        quick: bool,
    ) -> Judgement | None:
        """The judgement where a preemption looks at nodes among which theirs is the best; None if it never is.

        A preemption tries only some of the nodes, and begins anywhere. It is tried from theirs on, and from nodes
        further ahead of it where a better one follows.
        """
        world, rows, table = self._world, self._rows_to_try(decision), self._world.state.table
        theirs = table.row_of.get(question.node)
        if not len(rows) or theirs is None:
            return None
        place, count = int(np.searchsorted(rows, theirs)), len(rows)
        least, most = 0, count - 1
        ahead = 0
        while least <= most:
            with world.what_if(), self._beginning((place - ahead) % count):
                plan = world.attempt(unit, other=other)
            if not plan.decisions:
                return None
            found = self._of_nomination(question, plan.decisions[0])
            if found.equal:
                return replace(found, same=False)
            ours = table.row_of.get(found.ours)
            if ours is None or ours == theirs or quick:
                return None
            if (int(np.searchsorted(rows, ours)) - place + ahead) % count > ahead:
                least = ahead + 1  # the better node follows theirs
            else:
                most = ahead - 1
            ahead = (least + most) // 2
        return None

    def _rows_to_try(self, decision: Decision) -> Rows:
        """The rows of the nodes where a preemption may help."""
        verdicts = decision.diagnosis.verdicts
        if verdicts is None:
            return np.zeros(0, dtype=np.int64)
        resolvable = np.array([status.code is Code.UNSCHEDULABLE for status in verdicts.table])
        rows: Rows = np.arange(self._world.state.table.size)[verdicts.nodes.rows][resolvable[verdicts.codes]]
        return rows

    @contextmanager
    def _beginning(self, place: int) -> Iterator[None]:
        """Let a preemption begin at a place among the nodes that it may try."""
        rng = self._world.rng
        self._world.rng = _Begin(place)
        try:
            yield
        finally:
            self._world.rng = rng

    def _of_node(self, question: ShadowQuestion, decision: Decision, ours: str) -> Judgement:
        table, theirs = self._world.state.table, question.node
        if question.victims:
            return Judgement(ours, same=False, best=False, loss=math.inf, decision=decision)
        loss = loss_at(table, decision, theirs)
        best = is_best(table, decision, theirs)
        sampled = not best and self._orders.may_leave_out(decision, theirs, self._needed(question.pod))
        return Judgement(
            ours, ours == theirs, best, math.inf if loss is None else float(loss), decision, sampled=sampled
        )

    def _of_nomination(self, question: ShadowQuestion, decision: Decision) -> Judgement:
        if question.subject is ShadowSubject.BINDING or not decision.nominated_node:
            return Judgement("", same=False, best=False, loss=math.inf, decision=decision, message=decision.message)
        ours, theirs = frozenset(each.key for each in decision.victims), question.victims
        there = decision.nominated_node == question.node
        same = there and (theirs <= ours or ours <= theirs)  # some may not be seen, or be another preemption's
        best = same or (there and self._ranks(theirs) == self._ranks(ours))
        loss = 0.0 if best else float(len(ours ^ theirs))
        return Judgement(decision.nominated_node, same, best, loss, decision, decision.message, ours)

    def _ranks(self, keys: Iterable[str]) -> list[tuple[int, float]]:
        """What a preemption prefers victims by; among equal ones, it takes any."""
        pods = (self._world.pod(key) for key in keys)
        return sorted((pod.priority, pod.started) for pod in pods if pod is not None)

    def sampling_explains(self, question: ShadowQuestion, judgement: Judgement) -> bool:
        """Return whether all better nodes can be among those that the scheduler doesn't look at, in whatever order."""
        decision, profile = judgement.decision, self._profiles[question.pod.scheduler_name]
        if decision is None or math.isinf(judgement.loss):
            return False
        if question.subject is ShadowSubject.NOMINATION:
            rows = len(self._rows_to_try(decision))
            plugins = [each for each in profile.at(Point.POST_FILTER) if implements(each, SampledPreemption)]
            return any(each.candidates_to_find(rows) < rows for each in plugins)
        better = better_than(self._world.state.table, decision, question.node)
        return 0 < better <= len(decision.feasible) - self._needed(question.pod)

    def samples(self, pod: PodInfo) -> bool:
        """Return whether a scheduler with this configuration looks at only some nodes of this cluster."""
        return self._needed(pod) < self._world.state.table.live_count

    def _needed(self, pod: PodInfo) -> int:
        """How many feasible nodes are enough for the scheduler."""
        return feasible_nodes_to_find(self._profiles[pod.scheduler_name], self._world.state.table.live_count)

    def has_extender_for(self, pod: PodInfo) -> bool:
        """Return whether the configuration has an extender that is asked about a pod."""
        return any(
            not each.managedResources or any(resource.name in pod.requested for resource in each.managedResources)
            for each in self._extenders
        )


class _Begin(random.Random):
    """Begins where it is told."""

    def __init__(self, first: int) -> None:
        super().__init__(0)
        self._first = first

    def randrange(self, *arguments: int) -> int:  # type: ignore[override]
        return min(self._first, arguments[0] - 1)


def _of_failure(decision: Decision | None, placed: str, message: str) -> Judgement:
    nominated = decision.nominated_node or "" if decision is not None and decision.victims else ""
    failed = not placed and not nominated
    victims = frozenset(each.key for each in decision.victims) if decision is not None else frozenset[str]()
    why = decision.message if decision is not None and not placed else message
    return Judgement(placed or nominated, failed, failed, 0.0 if failed else math.inf, decision, why, victims)
