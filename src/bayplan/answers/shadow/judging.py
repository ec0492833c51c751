"""Asks Bayplan for a decision that another scheduler has made, on a world as it is at this moment.

It makes the decision; whether it is another one is said by `bayplan.answers.judging`. Nothing changes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from bayplan.answers.judging.judge import Judge
from bayplan.answers.judging.judgement import Judgement, Standing
from bayplan.answers.shadow.comparisons import ShadowSubject
from bayplan.answers.simulation.world import World
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.config import ExtraPlugin, KubeSchedulerConfiguration, build_profiles
from bayplan.core.framework.profile import Profile
from bayplan.core.framework.status import PluginError
from bayplan.core.scheduling import Decision, Outcome, Unit
from bayplan.core.sharing import Sharing

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


class ComparedScheduler:
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
        self._judge = Judge(world.state, world.pod)
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
            return self._undecided(question, str(error))
        with world.what_if():  # a PostFilter plugin may free claims
            plan = world.attempt(unit, explain=explain, other=other)
        decision = next((each for each in plan.decisions if each.pod.uid == pod.uid), None)
        placed = next((each.node for each in plan.placed if each.pod.uid == pod.uid), None) or ""
        if question.subject is ShadowSubject.FAILURE:
            return self._judge.failure(decision, placed, plan.message)
        if decision is None or decision.outcome is Outcome.ERROR:
            return self._undecided(question, plan.message if decision is None else decision.message, decision)
        if placed:
            if question.victims:  # none has to go
                return Judgement(standing=Standing.BETTER, ours=placed, theirs=question.node, decision=decision)
            return self._judge.placement(decision, question.node, self._profiles[name])
        if question.subject is ShadowSubject.BINDING:
            return self._undecided(question, decision.message, decision)
        found = self._judge.nomination(decision, question.node, question.victims)
        return found if found.equal else self._of_some_candidates(question, decision, unit, other, quick=quick) or found

    def _undecided(self, question: ShadowQuestion, message: str, decision: Decision | None = None) -> Judgement:
        """No node is found here."""
        return Judgement(standing=Standing.BETTER, ours="", theirs=question.node, decision=decision, message=message)

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
        world, table = self._world, self._world.state.table
        rows = self._judge.preemption_rows(decision, other[0])
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
            found = self._judge.nomination(plan.decisions[0], question.node, question.victims)
            if found.equal:
                return replace(found, standing=Standing.TIE)
            ours = table.row_of.get(found.ours)
            if ours is None or ours == theirs or quick:
                return None
            if (int(np.searchsorted(rows, ours)) - place + ahead) % count > ahead:
                least = ahead + 1  # the better node follows theirs
            else:
                most = ahead - 1
            ahead = (least + most) // 2
        return None

    @contextmanager
    def _beginning(self, place: int) -> Iterator[None]:
        """Let a preemption begin at a place among the nodes that it may try."""
        rng = self._world.rng
        self._world.rng = _Begin(place)
        try:
            yield
        finally:
            self._world.rng = rng

    def sampling_explains(self, question: ShadowQuestion, judgement: Judgement) -> bool:
        """Return whether all that is better can be among what the scheduler doesn't look at, in whatever order."""
        decision, profile = judgement.decision, self._profiles[question.pod.scheduler_name]
        if decision is None or math.isinf(judgement.loss):
            return False
        if question.subject is ShadowSubject.NOMINATION:
            return self._judge.samples_preemption(decision, profile)
        return self._judge.may_miss_all_better(decision, question.node, profile)

    def samples(self, pod: PodInfo) -> bool:
        """Return whether a scheduler with this configuration looks at only some nodes of this cluster."""
        return self._judge.samples(self._profiles[pod.scheduler_name])

    def has_extender_for(self, pod: PodInfo) -> bool:
        """Return whether the configuration has an extender that is asked about a pod."""
        return any(
            not each.managedResources or any(resource.name in pod.requested for resource in each.managedResources)
            for each in self._extenders
        )


class _Begin(random.Random):
    """The random generator of a preemption that begins at a place."""

    def __init__(self, first: int) -> None:
        super().__init__(0)
        self._first = first

    def randrange(self, *arguments: int) -> int:  # type: ignore[override]
        return min(self._first, arguments[0] - 1)
