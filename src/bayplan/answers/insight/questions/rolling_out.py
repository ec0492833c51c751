"""The rollouts of a what-if: the pods of changed workloads come while those that they replace go.

A draft holds what is to come (`Draft.roll_out`), because where a new pod goes, and so whether the next old one may go,
only a scheduler decides: that of the world in which the rollouts happen. `deployment.py` takes their steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bayplan.answers.insight.answers import Progress, Stopped, plural, silent
from bayplan.answers.insight.questions.deployment import Deployment, remove_pod
from bayplan.answers.insight.questions.documents import pending_copy
from bayplan.answers.insight.questions.outcomes import schedule_pending
from bayplan.answers.simulation.owners import is_replaced
from bayplan.answers.simulation.results import Result
from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots import Snapshot
from bayplan.answers.snapshots.documents import identify
from bayplan.core.api.kinds import POD
from bayplan.core.api.objects import Document
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.expansion.expansion import Expansion, Rollout


@dataclass(frozen=True, slots=True)
class RolledOut:
    """How far a rollout comes: `placed` of the `new` pods get a node in place of the `old` ones.

    `message`: why the first pod that gets none is pending.
    """

    workload: str
    old: int
    new: int
    placed: int
    message: str = ""

    def __str__(self) -> str:
        return (
            f"the rollout of {self.workload} gets stuck: {self.placed:,} of {plural(self.new, 'new pod')} would be "
            f"placed; {self.message}"
        )

    @property
    def stuck(self) -> bool:
        """Whether it doesn't end."""
        return self.placed < self.new


@dataclass(slots=True)
class ComingPods:
    """The pods of workloads that have changed, which exist only once their rollouts have begun.

    `rollouts`: by workload. `documents`: the new pods, by `namespace/name`. `refused`: whether a quota refuses some,
    so that not all rollouts end. `later`: pods that a quota allows once the rollouts have ended.
    """

    rollouts: dict[str, Rollout] = field(default_factory=dict)
    documents: dict[str, Document] = field(default_factory=dict)
    refused: bool = False
    later: Sequence[Document] = ()

    def __bool__(self) -> bool:
        return bool(self.rollouts)

    def add(self, rollouts: Iterable[Rollout], pods: Iterable[Document]) -> None:
        """Add rollouts with their new pods. A workload that changes again has only the last one."""
        new = {identify(pod)[1]: pod for pod in pods}
        for rollout in rollouts:
            before = self.rollouts.get(rollout.workload)
            for key in before.new if before is not None else ():
                self.documents.pop(key, None)
            self.rollouts[rollout.workload] = rollout
            self.documents |= {key: new[key] for key in rollout.new}

    def ended(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot as if the rollouts had ended in it, with the new pods pending."""
        old = {key for rollout in self.rollouts.values() for key in rollout.old}
        known = snapshot.of_kind(POD)
        return snapshot.but(
            remove=[(POD, key) for key in old if key in known and key not in self.documents],
            add=[pod for key, pod in self.documents.items() if key not in known],
            change=[pod for key, pod in self.documents.items() if key in known],
        )


def roll_out(world: World, coming: ComingPods, progress: Progress = silent, *, pending: bool = True) -> list[RolledOut]:
    """Carry out rollouts in a world. The changes stay there: call this in a `what_if`.

    `pending`: whether the pending pods of the world have their turn before, as they had in a cluster. Raises Stopped.
    """
    if not coming:
        return []
    if pending:
        schedule_pending(world, world.in_queue_order, progress)
    rollouts = list(coming.rollouts.values())
    expansion = Expansion(pods=list(coming.documents.values()), rollouts=rollouts)
    deployment = Deployment(world, expansion, progress, lambda victim: _make_again(world, victim), beside=pending)
    results = deployment.run()
    if deployment.interrupted:
        raise Stopped
    found = [_rolled_out(rollout, results) for rollout in rollouts]
    if not any(each.stuck for each in found):
        for document in coming.later:
            world.add(*identify(document))
    return found


def replace_at_once(world: World, coming: ComingPods) -> None:
    """Put the new pods in the place of the old ones at once, all pending: for a world that is placed anew."""
    for rollout in coming.rollouts.values():
        for key in rollout.old:
            remove_pod(world, key)
    for document in (*coming.documents.values(), *coming.later):
        world.add(*identify(document))


def _rolled_out(rollout: Rollout, results: dict[str, Result]) -> RolledOut:
    pending = [results[key] for key in rollout.new if key in results and not results[key].placed]
    created = [each for each in pending if not each.message.startswith("not created: ")]
    first = next(iter((*created, *pending)), None)
    placed = sum(key in results and results[key].placed for key in rollout.new)
    message = "" if first is None else f"{first.pod.key}: {first.message}"
    return RolledOut(rollout.workload, len(rollout.old), len(rollout.new), placed, message)


def _make_again(world: World, victim: PodInfo) -> None:
    """Let the controller of a preempted pod make another one, as for all victims of a what-if."""
    if is_replaced(victim):
        world.change(POD, victim.key, pending_copy(victim))
