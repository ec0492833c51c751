"""explain for many pods: the pending pods of a cluster or of an owner, summed up by cause.

Each pod is decided as if it were the next; equal pods are decided once. The first pod of the largest causes is
explained in full.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from bayplan.answers.insight.answers import INTERRUPTED, Answer, Progress, Stopped, listed, plural, silent
from bayplan.answers.insight.json_values import fields_of
from bayplan.answers.insight.limits import EXAMPLES
from bayplan.answers.insight.questions.explain import Explanation, explain
from bayplan.answers.insight.questions.freeing import Freeing
from bayplan.answers.insight.questions.progress import chosen_already, never_seen, not_tried
from bayplan.answers.insight.questions.workload import Missing
from bayplan.answers.insight.tables import shortened
from bayplan.answers.simulation.results import Fate, Result
from bayplan.answers.simulation.simulation import Simulation
from bayplan.answers.simulation.world import World
from bayplan.core.cluster.pod_info import PodInfo

PREEMPTING = "would preempt pods now"
_GATE = frozenset({"SchedulingGates"})

Told = Callable[[PodInfo], str | None]
"""Returns what other objects tell about why a pod is gated; None if they tell nothing."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Pods that are pending for the same reason.

    `message`: the event's text, the message of the plugin that gates the pods, or why they would be placed now.
    `example`: the explanation of the first pod, for the largest causes.
    """

    message: str
    pods: tuple[str, ...]
    plugins: tuple[str, ...] = ()
    example: Explanation | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the cause as in docs/insight.md."""
        return {"count": len(self.pods), **fields_of(self)}


@dataclass(frozen=True, slots=True)
class PendingPods(Answer):
    """The pending pods of `what`, by cause, the largest cause first. `placed`: how many of its pods have a node.

    `missing`: the pods of a workload that don't exist, and why; None if there are none. `shown`: the most causes of a
    table; 0 for all. `interrupted`: whether there may be more pods. `freeing`: the single changes that free the most of
    them; None if that wasn't asked.
    """

    what: str
    causes: tuple[Cause, ...]
    placed: int = 0
    shown: int = 20
    interrupted: bool = False
    missing: Missing | None = None
    freeing: Freeing | None = None

    @property
    def count(self) -> int:
        """The number of pending pods."""
        return sum(len(cause.pods) for cause in self.causes)

    @property
    def next_steps(self) -> Sequence[str]:
        """The changes that free the most pods, or the first pod of each cause."""
        freeing = [] if self.freeing is None else [*self.freeing.lines()]
        examples = [cause.example for cause in self.causes if cause.example is not None]
        return freeing or [f"{each.pod}: {each.help[0].text}" for each in examples if each.help]

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as in docs/insight.md."""
        return {"pending": self.count, **fields_of(self)}

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per cause."""
        return [
            {"count": len(cause.pods), "message": cause.message, "plugins": ", ".join(cause.plugins)}
            for cause in self.causes
        ]

    def render(self, *, wide: bool = False) -> RenderableType:
        """Return the causes with their pods, and what would help the first pod of each."""
        headline = f"{self.what}: {plural(self.count, 'pod')} pending"
        headline += f", {self.placed:,} placed" if self.placed else ""
        if self.missing is not None:
            headline += f", {self.missing.number:,} of {self.missing.wanted:,} not created"
        parts: list[RenderableType] = [Text(headline, style="bold")]
        if self.missing is not None:
            reasons = self.missing.reasons or ("nothing that was read says why: see the events of its controller",)
            parts += [Text(f"not created: {reason}") for reason in reasons]
        causes, more = shortened(self.causes, self.shown)
        for cause in causes:
            names = listed(list(cause.pods), len(cause.pods) if wide else 5)
            parts += [Text(), Text(f"{plural(len(cause.pods), 'pod')}: {cause.message}"), _indented(names)]
            example = cause.example
            if example is not None and example.cause:
                parts.append(_indented(f"on all nodes: {example.cause}"))
            elif example is not None and example.nearest:
                parts.append(_indented(f"nearest: {example.nearest[0].text}"))
            if example is not None and example.help:
                first = example.help[0]
                alone = f" ({example.alone})" if example.alone else ""
                parts.append(_indented(f"for {example.pod} would help: {first.text}{alone}"))
        if more:
            parts += [Text(), Text(more)]
        if self.freeing is not None and self.freeing.best:
            parts += [Text(), Text("what would place most, each tried on its own", style="bold")]
            parts += map(_indented, self.freeing.lines())
        if self.interrupted:
            parts += [Text(), Text(INTERRUPTED, style="bold")]
        return Lines(*parts)


def explain_all(
    world: World,
    what: str,
    pods: Iterable[PodInfo],
    *,
    examples: int = EXAMPLES,
    shown: int = 20,
    progress: Progress = silent,
    told: Told = lambda _pod: None,
    **trials: Any,
) -> PendingPods:
    """Explain the pending ones among pods. Each is decided as if it were the next; equal pods are decided once.

    `examples`: how many of the largest causes are explained by an example, with the `trials` that `explain` takes.
    `told`: says what other objects tell about why a pod is gated.
    `progress` may raise Stopped; the answer then has what is known so far.
    """
    causes: dict[_Key, list[PodInfo]] = {}
    done, interrupted = _Done(), False
    try:
        for _ in _sort_out(world, pods, causes, done, told):
            progress(f"{plural(done.pending, 'pending pod')}, {plural(len(causes), 'cause')}")
    except Stopped:
        interrupted = True
    found: list[Cause] = []
    for (message, plugins), members in sorted(causes.items(), key=lambda item: (-len(item[1]), item[0][0])):
        example = None
        if len(found) < examples and not interrupted:
            world.reset()  # the example is what `explain` says of the pod alone, whatever was decided before
            example = explain(world, members[0], helps=1, nearest=1, progress=progress, **trials)
            interrupted = example.interrupted
        found.append(Cause(message, tuple(pod.key for pod in members), tuple(sorted(plugins)), example))
    return PendingPods(what, tuple(found), done.placed, shown, interrupted)


_Key = tuple[str, frozenset[str]]
"""A cause: its message and plugins."""


@dataclass(slots=True)
class _Done:
    """How many pods have a node, and how many have been decided."""

    placed: int = 0
    pending: int = 0


def _sort_out(
    world: World, pods: Iterable[PodInfo], causes: dict[_Key, list[PodInfo]], done: _Done, told: Told
) -> Iterator[PodInfo]:
    """Add the pending pods to their causes; yield each pod after that."""
    known: dict[Hashable, _Key] = {}
    results: dict[str, Result] = {}
    for pod in pods:
        if pod.node_name:
            done.placed += 1
        elif (gated := told(pod)) is not None:
            causes.setdefault((gated, _GATE), []).append(pod)
            done.pending += 1
        else:
            alike = world.sharing_key(pod) if pod.scheduler_name in world.profiles else None
            key = alike, never_seen(pod)
            cause = known.get(key) if alike is not None else None
            if cause is None:
                cause = _cause(world, pod, results)
                if alike is not None:
                    known[key] = cause
            causes.setdefault(cause, []).append(pod)
            done.pending += 1
        yield pod


def _cause(world: World, pod: PodInfo, results: dict[str, Result]) -> _Key:
    """The message and the plugins that keep a pod pending. `results`: those of gangs, by the uids of their members."""
    if pod.scheduler_name not in world.profiles:
        return f"no scheduler here has the name {pod.scheduler_name!r}", frozenset()
    result = results.get(pod.uid)
    if result is None:
        world.reset()
        with world.what_if():
            found = Simulation(world).outcome(pod)
        result = found[pod.key]
        if len(found) > 1:
            results |= {each.pod.uid: each for each in found.values()}
    chosen = chosen_already(world, pod, result)
    if chosen:
        return chosen, result.plugins
    match result.fate:
        case Fate.PLACED:
            return not_tried(pod), frozenset()
        case Fate.PREEMPTS:
            return PREEMPTING, frozenset()
        case Fate.PENDING:
            return result.message, result.plugins


def _indented(text: str) -> Padding:
    return Padding(Text(text), (0, 0, 0, 2))
