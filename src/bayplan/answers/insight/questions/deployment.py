"""Deployment: how the pods of manifests come, and replace those of workloads that exist, as the controllers do it.

Surge, unavailability, ordinals and partitions count: an old pod goes when its rollout lets it go. `redeployment.py`
says which pods are replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from bayplan.answers.insight.answers import Progress, Stopped, listed
from bayplan.answers.insight.questions.documents import pending_copy
from bayplan.answers.insight.questions.new_objects import given
from bayplan.answers.simulation.evictions import remove
from bayplan.answers.simulation.owners import is_replaced
from bayplan.answers.simulation.results import Fate, Result
from bayplan.answers.simulation.simulation import Simulation
from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots.documents import identify
from bayplan.core.api.kinds import POD
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.expansion.expansion import Expansion, Rollout
from bayplan.core.scheduling import Preemption


@dataclass(slots=True)
class _Progress:
    """How far a rollout is: which old pods are still there, which new ones are to come, and which have come."""

    plan: Rollout
    leaving: list[str]
    coming: list[str]
    created: list[str] = field(default_factory=list)


class Deployment:
    """The pods of an expansion as they come, while those that they replace go.

    `interrupted`: whether the deployment was stopped. `evicted`: is told of the pods of others that new ones preempt.
    `beside`: whether the pending pods of others have their turn when an old pod goes, before the new one comes.
    """

    def __init__(
        self,
        world: World,
        expansion: Expansion,
        progress: Progress,
        evicted: Callable[[PodInfo], object] = lambda _: None,
        *,
        beside: bool = False,
    ) -> None:
        self._beside, self._made_room = beside, False
        self.interrupted = False
        self._evicts = evicted
        self._world = world
        self._progress = progress
        self._documents = {key: (key, raw) for _, key, raw in map(identify, expansion.pods)}
        self._come: set[str] = set()
        self._lost: dict[str, Preemption] = {}
        self._results: dict[str, Result] = {}
        self._rollouts = [_Progress(rollout, list(rollout.old), list(rollout.new)) for rollout in expansion.rollouts]

    def run(self) -> dict[str, Result]:
        """Return the results of the pods by `namespace/name`, in their order."""
        later = {key for rollout in self._rollouts for key in rollout.coming}
        try:
            self._schedule([key for key in self._documents if key not in later] + self._next())
            while (more := self._next()) or self._made_room:
                self._schedule(more)
        except Stopped:
            self.interrupted = True
        for rollout in self._rollouts:
            self._wait(rollout)
        for key, preemption in self._lost.items():
            message = f"Preempted by pod {preemption.pod.uid} on node {preemption.node}"
            self._results[key] = replace(self._results[key], fate=Fate.PENDING, node=None, message=message)
        return {key: self._results[key] for key in self._documents if key in self._results}

    def _schedule(self, keys: Sequence[str]) -> None:
        """Create pods, and schedule them."""
        world, new = self._world, list[PodInfo]()
        if self._beside and self._made_room:
            others = (pod for key, pod in world.pending.items() if key not in self._documents)
            Simulation(world, self._evicted, together=True).schedule(world.in_queue_order(others))
        self._made_room = False
        for key in keys:
            if key not in self._come:  # the others came before, and wait for room
                self._come.add(key)
                world.add(POD, *self._documents[key])
            pod = world.pod(key)
            if pod is None:
                continue
            if key in world.pending:
                new.append(pod)
            else:
                self._results[key] = given(world, pod)
        total = len(self._documents)
        Simulation(world, self._evicted).schedule(
            new, lambda done: self._progress(f"{done:,} of {total:,} pods"), self._results
        )

    def _next(self) -> list[str]:
        """Remove the pods that rollouts let go now, and return those that come now, after those that may have room."""
        coming = [key for rollout in self._rollouts for key in self._step(rollout)]
        created = [key for rollout in self._rollouts for key in rollout.created] if self._made_room else []
        return [key for key in created if key in self._come and key in self._world.pending] + coming

    def _step(self, rollout: _Progress) -> list[str]:
        if self._waits_for(rollout):
            return []
        if rollout.plan.one_by_one:
            return self._next_one(rollout)
        placed = sum(self._is_placed(key) for key in rollout.created)
        available = placed + sum(self._runs(key) for key in rollout.leaving)
        spare = len(rollout.leaving) + placed - rollout.plan.least
        for key in list(rollout.leaving):
            runs = self._runs(key)
            if (runs and available <= rollout.plan.least) or (rollout.plan.spares and spare <= 0):
                break
            available -= runs
            spare -= 1
            self._let_go(rollout, key)
        room = max(rollout.plan.most - len(rollout.leaving) - len(rollout.created), 0)
        now, rollout.coming = rollout.coming[:room], rollout.coming[room:]
        rollout.created += now
        return now

    def _waits_for(self, rollout: _Progress) -> list[str]:
        """The pods that an ordered StatefulSet waits for now."""
        left = set(rollout.leaving).union(rollout.plan.must_run).difference(rollout.created)
        return [key for key in rollout.plan.must_run if key in left and not self._runs(key)]

    def _next_one(self, rollout: _Progress) -> list[str]:
        """The pod that comes once all others have come, in place of the one that has its name."""
        if not rollout.coming or not all(map(self._is_placed, rollout.created)):
            return []
        key = rollout.coming.pop(0)
        if key in rollout.leaving:
            self._let_go(rollout, key)
        rollout.created.append(key)
        return [key]

    def _let_go(self, rollout: _Progress, key: str) -> None:
        rollout.leaving.remove(key)
        remove_pod(self._world, key)
        self._made_room = True

    def _runs(self, key: str) -> bool:
        pod = self._world.pod(key)
        return pod is not None and bool(pod.node_name)

    def _is_placed(self, key: str) -> bool:
        result = self._results.get(key)
        return result is not None and result.placed and key not in self._lost

    def _wait(self, rollout: _Progress) -> None:
        """Note the pods that were not created, because the rollout is stuck."""
        stuck = [key for key in rollout.created if key in self._results and not self._is_placed(key)]
        stuck = stuck or self._waits_for(rollout) or [key for key in rollout.leaving if not self._runs(key)]
        for key in rollout.coming if not self.interrupted else ():
            pod = PodInfo.from_raw(self._documents[key][1])
            message = f"not created: the rollout of {rollout.plan.workload} waits for {listed(stuck, 1)}"
            self._results[key] = Result(pod, Fate.PENDING, message=message)

    def _evicted(self, victim: PodInfo, preemption: Preemption) -> None:
        if victim.key not in self._documents:
            self._evicts(victim)
            return
        if is_replaced(victim):
            self._world.change(POD, victim.key, pending_copy(victim))  # its controller makes another one
        else:
            self._lost[victim.key] = preemption


def remove_pod(world: World, key: str) -> None:
    """Remove a pod, given as `namespace/name`, if it exists."""
    pod = world.pod(key)
    if pod is not None:
        remove(world, pod)
