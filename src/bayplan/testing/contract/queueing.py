"""Promises about the queue: events and hints requeue a rejected pod whenever a change may help it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bayplan.api.kinds import NODE, POD
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework import changes, interface
from bayplan.framework.events import Action, ClusterEvent, Hint
from bayplan.framework.profile import REJECTING
from bayplan.queue import QueuedPod, QueueProfile
from bayplan.queue.hints import Hints, Requeue
from bayplan.testing.contract.examples import Example, ExampleChange
from bayplan.testing.contract.promise import Breach, promise
from bayplan.testing.contract.subject import SCHEDULER, Answers, Subject, alone, ask
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
