"""doctor: what is wrong now, on one screen: schedulers, why pods wait, what holds the room, and what would help.

It sums up answers of other questions, and decides nothing of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from bayplan.answers.insight.answers import INTERRUPTED, Answer, listed, plural
from bayplan.answers.insight.json_values import fields_of
from bayplan.answers.insight.questions.explain import Explanation
from bayplan.answers.insight.questions.liveness import Liveness, liveness
from bayplan.answers.insight.questions.pending import Cause, PendingPods
from bayplan.answers.insight.questions.usage import WORKLOAD, GroupOfPods, Requests
from bayplan.answers.insight.questions.utilization import Usage, quantity_text
from bayplan.answers.simulation.owners import workload_of
from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots.reading import Gap
from bayplan.core.api.kinds import LEASE, NODE
from bayplan.core.api.requests import PODS
from bayplan.core.cluster.pod_info import PodInfo

_CHANGES, _HOLDERS, _REASONS = 3, 3, 3
_FULL = 0.7
"""From which share on a resource is named as one that is held."""
_WORDS = {
    "NodeResourcesFit": "not enough room",
    "NodeAffinity": "other labels than the pod wants",
    "TaintToleration": "taints that the pod doesn't tolerate",
    "NodeUnschedulable": "cordoned",
    "NodeName": "not the node that the pod names",
    "NodePorts": "a port of the pod is taken",
    "PodTopologySpread": "too many of these pods there already",
    "InterPodAffinity": "the pod's or other pods' affinity rules that out",
    "VolumeBinding": "a volume can't be used there",
    "VolumeZone": "a volume is in another zone",
    "VolumeRestrictions": "a volume is in use",
    "NodeVolumeLimits": "no more volumes can be attached",
    "DynamicResources": "no device that the pod may have",
}
"""What a plugin's rejection of a node means, in plain words."""


@dataclass(frozen=True, slots=True)
class WaitingWorkload:
    """Pods of a workload that wait for the same reason.

    `why`: in plain words. `help`: a change that was tried; "" if none helps.
    """

    workload: str
    pods: tuple[str, ...]
    why: str
    help: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return it as in docs/insight.md."""
        return {"count": len(self.pods), **fields_of(self)}


@dataclass(frozen=True, slots=True)
class HeldResource:
    """A resource that is nearly used up, and the workloads that request the most of it."""

    resource: str
    usage: Usage
    workloads: tuple[tuple[str, int], ...]

    @property
    def text(self) -> str:
        """What is held, and by which workloads."""
        names = ", ".join(f"{name} {quantity_text(self.resource, amount)}" for name, amount in self.workloads)
        return f"{self.resource}: {self.usage.text} is requested{f', most by {names}' if names else ''}"

    def to_dict(self) -> dict[str, Any]:
        """Return it as in docs/insight.md."""
        return {
            "resource": self.resource,
            "requested": self.usage.requested,
            "allocatable": self.usage.allocatable,
            "workloads": [{"name": name, "requested": amount} for name, amount in self.workloads],
        }


@dataclass(frozen=True, slots=True)
class Doctor(Answer):
    """What is wrong with a cluster now.

    `summary`: one sentence. `schedulers`: those that pods name. `nodes`: what keeps nodes from being used. `changes`:
    the single changes that place the most pods, of the largest to the smallest. `shown`: the most rows of a list; 0 for
    all. `interrupted`: whether there may be more.
    """

    summary: str
    schedulers: tuple[Liveness, ...]
    waiting: tuple[WaitingWorkload, ...]
    held: tuple[HeldResource, ...]
    nodes: tuple[str, ...]
    changes: tuple[str, ...]
    shown: int = 20
    interrupted: bool = False

    @property
    def next_steps(self) -> Sequence[str]:
        """The changes that place the most pods, or those of each workload."""
        return self.changes or [f"{each.workload}: {each.help}" for each in self.waiting if each.help]

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per workload and reason."""
        return [
            {"workload": each.workload, "count": len(each.pods), "why": each.why, "help": each.help}
            for each in self.waiting
        ]

    def render(self, *, wide: bool = False) -> RenderableType:
        """Return a screen: the sentence, and a part for each thing that is wrong."""
        most = len(self.waiting) if wide or not self.shown else min(self.shown, _SCREEN)
        waiting = [line for each in self.waiting[:most] for line in _lines(each)]
        if len(self.waiting) > most:
            waiting.append(f"and {len(self.waiting) - most:,} more: bayplan explain --all-pending shows them")
        parts = [
            *_part("schedulers", [f"{each.scheduler}: {each.text}" for each in self.schedulers]),
            *_part("who waits, and why", waiting),
            *_part("what holds the room", [*(each.text for each in self.held), *self.nodes]),
            *_part("what would place most, each tried on its own", self.changes),
            *([Text(), Text(INTERRUPTED, style="bold")] if self.interrupted else []),
        ]
        return Lines(Text(self.summary, style="bold"), *parts)


_SCREEN = 6
"""The most workloads on a screen."""


def doctor(
    world: World, pods: Sequence[PodInfo], pending: PendingPods, usage: Requests, gaps: Iterable[Gap], shown: int
) -> Doctor:
    """Sum up what is wrong. `pods`: all that are asked about. `pending`, `usage`: the answers about them.

    `gaps`: the kinds that could not be read.
    """
    no_leases = next((gap.reason for gap in gaps if gap.kind is LEASE), "")
    by_scheduler: dict[str, list[PodInfo]] = {}
    for pod in pods:
        by_scheduler.setdefault(pod.scheduler_name, []).append(pod)
    schedulers = tuple(liveness(world, name, found, no_leases) for name, found in sorted(by_scheduler.items()))
    waiting = tuple(_waiting(pending.causes, {pod.key: workload_of(pod) or f"pod {pod.key}" for pod in pods}))
    freeing = pending.freeing
    changes = tuple(freeing.lines())[:_CHANGES] if freeing is not None else ()
    return Doctor(
        _summary(pending.count, len({each.workload for each in waiting}), schedulers),
        schedulers,
        waiting,
        tuple(_held(usage)) if pending.count else (),
        tuple(_unused(world, pods)),
        changes,
        shown,
        pending.interrupted,
    )


def _summary(pending: int, workloads: int, schedulers: Iterable[Liveness]) -> str:
    dead = [each.scheduler for each in schedulers if each.alive is False]
    found = [f"{plural(pending, 'pod')} of {plural(workloads, 'workload')} {'waits' if pending == 1 else 'wait'}"]
    found = found if pending else ["every pod has a node"]
    return "; ".join([*(f"scheduler {name} seems not to run" for name in dead), *found])


def _waiting(causes: Iterable[Cause], workloads: dict[str, str]) -> Iterator[WaitingWorkload]:
    """The pods of each cause by workload, the largest cause first."""
    for cause in causes:
        grouped: dict[str, list[str]] = {}
        for key in cause.pods:
            grouped.setdefault(workloads.get(key, f"pod {key}"), []).append(key)
        example = cause.example
        for workload, keys in sorted(grouped.items(), key=lambda each: -len(each[1])):
            about = example is not None and example.pod in keys
            helps = example.help if example is not None and about else ()
            yield WaitingWorkload(workload, tuple(keys), _why(cause, example), helps[0].text if helps else "")


def _why(cause: Cause, example: Explanation | None) -> str:
    """Why the pods of a cause wait, in plain words."""
    if example is None or not (example.cause or example.groups):
        return cause.message
    if example.cause:
        blamed = [each for each in example.groups if any(reason in example.cause for reason in each.reasons)]
        words = _WORDS.get(blamed[0].plugin, "") if blamed else ""
        return f"on all nodes: {words} ({example.cause})" if words else example.cause
    reasons = [
        f"{plural(len(group.nodes), 'node')}: {_WORDS.get(group.plugin, group.plugin)} ({group.text})"
        for group in example.groups[:_REASONS]
    ]
    more = len(example.groups) - _REASONS
    return "; ".join([*reasons, *([f"{more} other reasons"] if more > 0 else [])])


def _held(usage: Requests) -> Iterator[HeldResource]:
    """The resources that are nearly used up, the fullest first."""
    groups: Sequence[GroupOfPods] = usage.groups[WORKLOAD]
    for each in sorted(usage.cluster, key=lambda each: -each.share):
        if each.resource != PODS and each.share >= _FULL:
            amounts = [(group.name, group.requests.get(each.resource, 0)) for group in groups]
            largest = sorted((pair for pair in amounts if pair[1]), key=lambda pair: -pair[1])[:_HOLDERS]
            yield HeldResource(each.resource, each, tuple(largest))


def _unused(world: World, pods: Iterable[PodInfo]) -> Iterator[str]:
    """What keeps room of nodes from being used."""
    states: dict[str, list[str]] = {"cordoned": [], "not ready": []}
    for name, node in world.state.objects[NODE].items():
        conditions = node.status.conditions or () if node.status is not None else ()
        if any(each.type == "Ready" and each.status != "True" for each in conditions):
            states["not ready"].append(name)
        elif node.spec is not None and node.spec.unschedulable:
            states["cordoned"].append(name)
    for state, names in states.items():
        if names:
            yield f"{plural(len(names), 'node')} {'is' if len(names) == 1 else 'are'} {state}: {listed(sorted(names))}"
    ending = sum(bool(pod.terminating and pod.node_name) for pod in pods)
    kept = Counter(pod.nominated_node_name for pod in pods if not (pod.terminating or pod.node_name))
    if ending == 1:
        yield "1 pod is terminating, and keeps its room until it has ended"
    elif ending:
        yield f"{ending:,} pods are terminating, and keep their room until they have ended"
    for node, number in kept.items():
        if node:
            yield f"node {node} has room kept for {plural(number, 'pod')}"


def _lines(each: WaitingWorkload) -> list[str]:
    count = f" ({plural(len(each.pods), 'pod')})" if len(each.pods) > 1 else ""
    found = [f"{each.workload}{count}: {each.why}"]
    return [*found, *([f"  would help: {each.help}"] if each.help else [])]


def _part(title: str, lines: Sequence[str]) -> list[RenderableType]:
    if not lines:
        return []
    return [Text(), Text(title, style="bold"), *(Padding(Text(line), (0, 0, 0, 2)) for line in lines)]
