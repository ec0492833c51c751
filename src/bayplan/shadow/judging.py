"""Asks Bayplan for a decision that another scheduler has made, on a world as it is at this moment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bayplan.cluster.pod_info import PodInfo
from bayplan.config import ExtraPlugin, KubeSchedulerConfiguration, build_profiles
from bayplan.framework.status import PluginError
from bayplan.scheduling import Decision, Outcome, Unit
from bayplan.scheduling.sampling import feasible_nodes_to_find
from bayplan.shadow.comparisons import ShadowSubject
from bayplan.sharing import Sharing
from bayplan.simulation.choices import better_than, is_best, loss_at
from bayplan.simulation.world import World

_KEYS = 256
"""For how many keys of pods results are kept per profile."""
_TRIES = 8
"""How often a preemption is tried, to see whether chance decides between two nodes."""


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

    `loss`: how far the scheduler's decision is from being equal; infinity if that can't be said.
    """

    ours: str
    same: bool
    best: bool
    loss: float
    decision: Decision | None
    message: str = ""
    victims: frozenset[str] = frozenset()

    @property
    def equal(self) -> bool:
        """Whether the scheduler's decision is as good as any."""
        return self.same or self.best


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
        self._extenders = configuration.extenders if configuration is not None else []
        if other:
            assert configuration is not None
            self._profiles = dict(build_profiles(configuration, world.handle, plugins, world.gates))
            self._sharing = {name: Sharing(profile, _KEYS) for name, profile in self._profiles.items()}

    def judge(self, question: ShadowQuestion, *, explain: bool = False) -> Judgement:
        """Decide what the scheduler has decided. Nothing changes. `explain`: keep the scores by plugin."""
        world, pod = self._world, question.pod
        name = pod.scheduler_name
        other = self._profiles[name], self._sharing[name]
        with world.what_if():  # a PostFilter plugin may free claims
            try:
                unit = world.unit_of(pod) if question.subject is ShadowSubject.FAILURE else Unit(pod)
            except PluginError as error:
                return Judgement("", same=False, best=False, loss=math.inf, decision=None, message=str(error))
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
        return self._of_nomination(question, decision)

    def _of_node(self, question: ShadowQuestion, decision: Decision, ours: str) -> Judgement:
        table, theirs = self._world.state.table, question.node
        if question.victims:
            return Judgement(ours, same=False, best=False, loss=math.inf, decision=decision)
        loss = loss_at(table, decision, theirs)
        best = is_best(table, decision, theirs)
        return Judgement(ours, ours == theirs, best, math.inf if loss is None else float(loss), decision)

    def _of_nomination(self, question: ShadowQuestion, decision: Decision) -> Judgement:
        if question.subject is ShadowSubject.BINDING or not decision.nominated_node:
            ours = decision.nominated_node or "" if question.subject is ShadowSubject.NOMINATION else ""
            return Judgement(ours, same=False, best=False, loss=math.inf, decision=decision, message=decision.message)
        victims = frozenset(each.key for each in decision.victims)
        same = decision.nominated_node == question.node and question.victims <= victims
        loss = 0.0 if same else float(len(victims ^ question.victims))
        return Judgement(decision.nominated_node, same, same, loss, decision, decision.message, victims)

    def may_preempt_on(self, question: ShadowQuestion) -> bool:
        """Return whether chance may lead a preemption to the scheduler's node and victims."""
        return any(self.judge(question).same for _ in range(_TRIES))

    def sampling_explains(self, question: ShadowQuestion, judgement: Judgement) -> bool:
        """Return whether a scheduler that looks at only some of the feasible nodes may have chosen as it did.

        That is so if all better nodes can be among those that it doesn't look at.
        """
        decision, table = judgement.decision, self._world.state.table
        if decision is None or math.isinf(judgement.loss) or question.subject is not ShadowSubject.BINDING:
            return False
        needed = feasible_nodes_to_find(self._profiles[question.pod.scheduler_name], table.live_count)
        return 0 < better_than(table, decision, question.node) <= len(decision.feasible) - needed

    def samples(self, pod: PodInfo) -> bool:
        """Return whether a scheduler with this configuration looks at only some nodes of this cluster."""
        live = self._world.state.table.live_count
        return feasible_nodes_to_find(self._profiles[pod.scheduler_name], live) < live

    def has_extender_for(self, pod: PodInfo) -> bool:
        """Return whether the configuration has an extender that is asked about a pod."""
        return any(
            not each.managedResources or any(resource.name in pod.requested for resource in each.managedResources)
            for each in self._extenders
        )


def _of_failure(decision: Decision | None, placed: str, message: str) -> Judgement:
    nominated = decision.nominated_node or "" if decision is not None and decision.victims else ""
    failed = not placed and not nominated
    victims = frozenset(each.key for each in decision.victims) if decision is not None else frozenset[str]()
    why = decision.message if decision is not None and not placed else message
    return Judgement(placed or nominated, failed, failed, 0.0 if failed else math.inf, decision, why, victims)
