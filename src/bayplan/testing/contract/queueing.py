"""Promises about the queue: events and hints requeue a rejected pod whenever a change may help it.

A hint that misses a change leaves a pod pending for minutes, so each change of each example is tried.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import product
from typing import Any

from bayplan.core.api.kinds import NODE, POD
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework import changes, interface
from bayplan.core.framework.events import Action, ClusterEvent, EventHint, Hint
from bayplan.core.framework.profile import REJECTING
from bayplan.core.queue import QueuedPod, QueueProfile
from bayplan.core.queue.hints import Hints, Requeue
from bayplan.testing.contract.examples import BuiltExample, Example, ExampleChange, pod_info
from bayplan.testing.contract.promise import Breach, promise
from bayplan.testing.contract.subject import SCHEDULER, Answers, Subject, alone, ask, ask_pre_enqueue, difference
from bayplan.testing.documents import typed

Event = tuple[ClusterEvent, Any, Any]
"""An event, with the object before and after."""


@promise(
    "hints",
    "hints return Hint.QUEUE or Hint.SKIP for every event",
    lambda subject: subject.has(interface.EnqueueExtensions),
)
def hints(subject: Subject, example: Example) -> None:
    """Hints return Hint.QUEUE or Hint.SKIP for every event that they are registered for, and raise nothing."""
    plugin, world = subject.start(example)
    registered = list(plugin.events())
    for change in (*example.changes, *example.updates):
        for event, old, new in events_of(change):
            for each in registered:
                if each.hint is None or not each.event.matches(event):
                    continue
                who = (
                    f"{change.text}: the hint for {each.event.resource} {each.event.action.name or each.event.action!r}"
                )
                try:
                    answer = each.hint(world.pod, old, new)
                except Exception as error:
                    raise Breach(
                        f"{who} raised {type(error).__name__}: {error}",
                        "let the hint accept any object, and None for the old or the new one (added, deleted)",
                    ) from error
                if not isinstance(answer, Hint):
                    raise Breach(f"{who} returned {answer!r}", "return Hint.QUEUE or Hint.SKIP")


@promise(
    "pure-hints",
    "hints and their topics answer the same when asked twice, and change nothing",
    lambda subject: subject.has(interface.EnqueueExtensions),
)
def pure_hints(subject: Subject, example: Example) -> None:
    """Whether an event requeues a pod depends on the pod and the cluster, not on what was asked before.

    The queue asks as often as it likes, also about pods that an event may not requeue.
    """
    pods = pod_info(example.pod), pod_info(example.other)
    (asked, world), (other, same_world) = (_after_preemptions(subject, example, pods) for _ in range(2))
    registered = list(asked.events())
    first, second = (dict(_said(registered, pods, example)) for _ in range(2))
    change = "compute the answer from the pod, the objects of the event and the handle, and store nothing while asked"
    for about, answer in first.items():
        if second[about] != answer:
            raise Breach(f"{about} says {answer}, and {second[about]} when it is asked again", change)
    for pod in pods:
        before, after = ask(other, same_world, pod).texts(), ask(asked, world, pod).texts()
        if found := difference(before, after, "if hints weren't asked", "if they were"):
            raise Breach(f"for pod {pod.name}, {found}", change)


def _after_preemptions(subject: Subject, example: Example, pods: Iterable[PodInfo]) -> tuple[Any, BuiltExample]:
    """Start the plugin, and ask it about the pods while they preempt others. Nothing is being preempted afterwards."""
    plugin, world = subject.start(example)
    for pod in pods:
        world.state.preemptions.begin(pod.uid)
        ask_pre_enqueue(plugin, pod)
        world.state.preemptions.end(pod.uid)
    return plugin, world


def _said(registered: Iterable[EventHint], pods: Iterable[PodInfo], example: Example) -> Iterator[tuple[str, str]]:
    """Yield what hints and topics say about all changes of an example, as text, by who says it."""
    for change in (*example.changes, *example.updates):
        for (event, old, new), (number, each) in product(events_of(change), enumerate(registered)):
            if not each.event.matches(event):
                continue
            who = f"{change.text} ({event.label}): {{}} of event {number}, {each.event.resource}, {{}}"
            if each.topics is not None:
                topics = each.topics.of_event(old, new)
                yield who.format("the topics", ""), "all" if topics is None else _listed(topics)
            if each.still_gated is not None:
                yield who.format("the pods that are still gated", ""), _listed(each.still_gated())
            for pod in pods:
                if each.topics is not None:
                    yield who.format("the topics", f"of pod {pod.name}"), _listed(each.topics.of_pod(pod))
                if each.hint is not None:
                    yield who.format("the hint", f"for pod {pod.name}"), str(each.hint(pod, old, new))


def _listed(topics: Collection[Any]) -> str:
    return f"[{', '.join(sorted(map(repr, topics)))}]"


@promise(
    "events",
    "after a change that may help a rejected pod, events and hints say QUEUE",
    lambda subject: subject.answers and subject.takes_part(*REJECTING),
)
def events(subject: Subject, example: Example) -> None:
    """If a change makes a node feasible for a pod that had none, one of the plugin's hints returns Hint.QUEUE."""
    found = _without_feasible_nodes(subject, example)
    if found is None:
        return
    example, rejected_by = found
    plugin, world = subject.start(example)
    asked = Hints({SCHEDULER: QueueProfile(sort_key=lambda _, queued_at: queued_at, hints=alone(plugin).events())})

    def check(change: ExampleChange, pod: PodInfo, feasible: list[str]) -> None:
        waiting = QueuedPod(pod, 0.0, unschedulable_plugins=frozenset({subject.name}))
        happened = list(events_of(change))
        if feasible and all(asked.ask(waiting, *event) is Requeue.SKIP for event in happened):
            names = ", ".join(event.label for event, _, _ in happened) or "no event of the scheduler's"
            raise Breach(
                f"no node is feasible ({rejected_by}), then {change.text} ({names}) and {', '.join(feasible)} is "
                "feasible, but no hint of the plugin returns Hint.QUEUE: the pod stays in the queue",
                "register the event in events(), with a hint that returns Hint.QUEUE; or remove events(), so that "
                "every event makes the queue try again",
            )

    for change in example.changes:
        if change.before is None or any(change.before is document for _, document in example.all):
            with change.made(world.state):
                feasible = ask(plugin, world).feasible
            check(change, world.pod, feasible)
    for change in example.updates:
        check(change, change.pod, ask(plugin, world, change.pod).feasible)


def _without_feasible_nodes(subject: Subject, example: Example) -> tuple[Example, str] | None:
    """Return the example without its feasible nodes, and the rejections of the others; None if there is none."""
    while True:
        found = ask(*subject.start(example))
        if not found.feasible:
            reasons = _reasons(found)
            return (example, reasons) if reasons else None
        example = example.without(
            *(each for kind, each in example.all if kind is NODE and each["metadata"]["name"] in found.feasible)
        )


def _reasons(found: Answers) -> str:
    rejections = [status for status in (found.enqueue, found.refusal) if status is not None]
    return "; ".join(dict.fromkeys(status.message for status in rejections or found.verdicts.values()))


def events_of(change: ExampleChange) -> Iterator[Event]:
    """Return the events of a change."""
    kind = change.kind
    old, new = (typed(kind, each) if each is not None else None for each in (change.before, change.after))
    if old is not None and new is not None:
        found = changes.node_changes(old, new) if kind is NODE else changes.pod_changes(old, new)
        yield from ((event, old, new) for event in found)
        return
    action = Action.ADD if old is None else Action.DELETE
    named = {
        (NODE, Action.ADD): changes.NODE_ADD,
        (NODE, Action.DELETE): changes.NODE_DELETE,
        (POD, Action.ADD): changes.ASSIGNED_POD_ADD,
        (POD, Action.DELETE): changes.ASSIGNED_POD_DELETE,
    }
    yield named.get((kind, action)) or changes.object_event(kind.kind, action), old, new
