"""fit: whether the pods of manifests would all be placed now, where, and which pods they would preempt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from bayplan.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, STORAGE_CLASS
from bayplan.api.volumes import NO_PROVISIONER, WAIT_FOR_FIRST_CONSUMER, class_of_claim, full_name, volume_name
from bayplan.cluster.pod_info import PodInfo
from bayplan.insight.answers import (
    INTERRUPTED,
    Answer,
    Progress,
    QuestionError,
    Stopped,
    listed,
    plural,
    shortened,
    silent,
)
from bayplan.insight.manifests import Document, Expansion
from bayplan.insight.questions.documents import pending_copy
from bayplan.insight.questions.notes import message_of
from bayplan.insight.sources.documents import identify
from bayplan.scheduling import Preemption
from bayplan.simulation import volumes
from bayplan.simulation.carry_out import Fate, Result, Simulation
from bayplan.simulation.world import World


@dataclass(frozen=True, slots=True)
class PodFit:
    """The outcome for one pod: `placed`, `preempts` (placed after `victims` are evicted) or `pending`.

    `message`: the event's text; for a pod that preempts, that of its first attempt.
    """

    pod: str
    outcome: str
    node: str | None
    victims: tuple[str, ...]
    message: str


@dataclass(frozen=True, slots=True)
class Fit(Answer):
    """Whether all pods are placed, and the outcome for each, in the order in which they were decided.

    `shown`: the most rows of a table; 0 for all. `interrupted`: whether other pods were not decided.
    """

    pods: tuple[PodFit, ...]
    shown: int = 20
    interrupted: bool = False

    @property
    def fits(self) -> bool:
        """Whether all pods are known to be placed."""
        return not self.interrupted and all(each.outcome != Fate.PENDING.value for each in self.pods)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as in docs/insight.md."""
        return {"fits": self.fits, "pods": self.rows(), "interrupted": self.interrupted}

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per pod."""
        return [
            {
                "pod": each.pod,
                "outcome": each.outcome,
                "node": each.node,
                "victims": list(each.victims),
                "message": each.message,
            }
            for each in self.pods
        ]

    def render(self, *, wide: bool = False) -> RenderableType:
        """Return a sentence, the table of pods, and why pods stay pending."""
        if not self.pods and not self.interrupted:
            return Text("the manifests have no pods", style="bold")
        pending = [each for each in self.pods if each.outcome == Fate.PENDING.value]
        placed = len(self.pods) - len(pending)
        headline = f"{placed:,} of {plural(len(self.pods), 'pod')} would be placed"
        table = Table("POD", "OUTCOME", "NODE", "PREEMPTS", box=None, pad_edge=False, header_style="bold")
        pods, more = shortened(self.pods, self.shown)
        for each in pods:
            victims = listed(list(each.victims), len(each.victims) if wide else 3)
            table.add_row(each.pod, each.outcome, each.node or "-", victims or "-")
        if more:
            table.add_row(more)
        causes: dict[str, list[str]] = {}
        for each in pending:
            causes.setdefault(each.message, []).append(each.pod)
        lines = [Text(f"{listed(keys)}: {message}") for message, keys in causes.items()]
        if self.interrupted:
            lines.append(Text(INTERRUPTED, style="bold"))
        return Lines(Text(headline, style="bold"), table, *([Text(), *lines] if lines else ()))


def fit(world: World, expansion: Expansion, *, shown: int = 20, progress: Progress = silent) -> Fit:
    """Schedule the pods of an expansion in their order, after the pending pods of the cluster.

    Those would have their turn before, or have had it. `progress` may raise Stopped; the answer then has the pods that
    were decided. Raises QuestionError for pods that exist already.
    """
    with world.what_if():
        waiting = world.in_queue_order(world.pending.values())
        try:
            Simulation(world, together=True).schedule(
                waiting, lambda done: progress(f"{done:,} of {len(waiting):,} pending pods")
            )
        except Stopped:
            return Fit((), shown, interrupted=True)
        pods = _add(world, expansion)
        interrupted = False
        lost: dict[str, Preemption] = {}

        def evicted(victim: PodInfo, preemption: Preemption) -> None:
            if victim.key in keys:
                if any(owner.controller for owner in victim.metadata.ownerReferences or ()):
                    world.change(POD, victim.key, pending_copy(victim))  # its controller makes another one
                else:
                    lost[victim.key] = preemption

        keys = {pod.key for pod in pods}
        results = {pod.key: given(pod) for pod in pods if pod.key not in world.pending}
        new = [pod for pod in pods if pod.key in world.pending]
        try:
            Simulation(world, evicted).schedule(new, lambda done: progress(f"{done:,} of {len(new):,} pods"), results)
        except Stopped:
            interrupted = True
        for key, preemption in lost.items():
            message = f"Preempted by pod {preemption.pod.uid} on node {preemption.node}"
            results[key] = replace(results[key], fate=Fate.PENDING, node=None, message=message)
        found = tuple(_pod_fit(key, result) for key, result in results.items() if key in keys)
        return Fit(found, shown, interrupted)


def _add(world: World, expansion: Expansion) -> Sequence[PodInfo]:
    """Add the objects and the pods to the world."""
    add_objects(world, expansion.objects)
    pods: list[PodInfo] = []
    for document in expansion.pods:
        _, key, raw = identify(document)
        if world.pod(key) is not None:
            raise QuestionError(f"pod {key} exists already")
        world.add(POD, key, raw)
        pod = world.pod(key)
        if pod is not None:
            pods.append(pod)
    return pods


def add_objects(world: World, documents: Iterable[Document]) -> None:
    """Add objects to the world, storage classes before claims, and bind claims that don't wait for a pod."""
    for document in documents:
        kind, key, raw = identify(document)
        world.add(kind, key, raw)
        if kind is PERSISTENT_VOLUME_CLAIM:
            bind_immediately(world, key)


def bind_immediately(world: World, key: str) -> None:
    """Provision the volume of a new claim whose storage class does not wait for a pod."""
    objects = world.state.objects
    claim = objects[PERSISTENT_VOLUME_CLAIM][key]
    storage_class = objects[STORAGE_CLASS].get(class_of_claim(claim))
    if volume_name(claim) or storage_class is None or storage_class.provisioner == NO_PROVISIONER:
        return
    if storage_class.volumeBindingMode != WAIT_FOR_FIRST_CONSUMER:
        volume, bound = volumes.provisioned(claim, objects)
        world.change(PERSISTENT_VOLUME, full_name(volume), volume)
        world.change(PERSISTENT_VOLUME_CLAIM, key, bound)


def given(pod: PodInfo) -> Result:
    """The result of a pod that no profile of the world schedules."""
    if pod.node_name:
        return Result(pod, Fate.PLACED, pod.node_name, message=f"spec.nodeName is {pod.node_name}")
    message = f"no scheduler here has the pod's schedulerName {pod.scheduler_name!r}"
    return Result(pod, Fate.PENDING, message=message)


def _pod_fit(key: str, result: Result) -> PodFit:
    victims = tuple(victim.key for victim in result.victims)
    return PodFit(key, result.fate.value, result.node, victims, message_of(result))
