"""Pods that a plugin turned down are tried again when that may help: its events and hints miss nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from bayplan.api.kinds import NODE, POD, Kind
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework import changes as happenings
from bayplan.framework import interface
from bayplan.framework.events import Action, ClusterEvent, Hint
from bayplan.framework.profile import REJECTING
from bayplan.queue import QueuedPod, QueueProfile
from bayplan.queue.hints import Hints, Requeue
from bayplan.testing.contract.examples import Document, Example, pod_info, put, take_away, typed
from bayplan.testing.contract.faults import Finding
from bayplan.testing.contract.subject import SCHEDULER, Said, Subject, alone, ask
from bayplan.testing.contract.variations import cluster_changes, own_changes

Happening = tuple[ClusterEvent, Any, Any]
"""An event, with the object before and after."""


def check_hints(subject: Subject, example: Example) -> Finding | None:
    """Hints answer Hint.QUEUE or Hint.SKIP to every event that they are registered for, and raise nothing."""
    if not subject.has(interface.EnqueueExtensions):
        return None
    world = example.build()
    plugin = subject.build(world.handle)
    registered = list(plugin.events())
    for what, happened in _all_happenings(example, world.pod):
        for event, old, new in happened:
            for each in registered:
                if each.hint is None or not each.event.matches(event):
                    continue
                try:
                    answer = each.hint(world.pod, old, new)
                except Exception as error:  # noqa: BLE001 - whatever it raises is the finding
                    return Finding(
                        f"{what}: the hint of {_registered(each.event)} raised {type(error).__name__}: {error}",
                        "let the hint take an old or a new object that is None (added, deleted), and any that there is",
                    )
                if not isinstance(answer, Hint):
                    return Finding(
                        f"{what}: the hint of {_registered(each.event)} answered {answer!r}",
                        "return Hint.QUEUE or Hint.SKIP",
                    )
    return None


def check_events(subject: Subject, example: Example) -> Finding | None:
    """Where a change lets a node take a pod that none took before, the plugin's events and hints say QUEUE."""
    if not subject.takes_part(*REJECTING) or not (subject.decides or subject.has(interface.PreEnqueue)):
        return None
    found = _only_rejecting_nodes(subject, example)
    if found is None:
        return None
    example, refused_by = found
    for what, before, after, kind in _changes(example):
        world = example.build()
        plugin = subject.build(world.handle)
        said = ask(plugin, world)
        if said.takes:
            return None
        pod = world.pod
        if kind is None:
            assert after is not None
            pod = pod_info(after)
            happened: Iterable[Happening] = [
                (event, world.pod, pod) for event in happenings.pod_changes(world.pod, pod)
            ]
        else:
            happened = list(_happenings(kind, before, after))
            if after is not None:
                put(world.state, kind, after)
            elif before is not None:
                take_away(world.state, kind, before)
        if not ask(plugin, world, pod).takes:
            continue
        if not _queues(plugin, pod, happened):
            names = ", ".join(event.label for event, _, _ in happened) or "no event that scheduling knows"
            takes = ", ".join(ask(plugin, world, pod).takes)
            return Finding(
                f"no node takes the pod ({refused_by}); then {what} ({names}), now it would go to {takes}, but no hint "
                "of the plugin says QUEUE: the pod would wait on",
                "register the event in events(), with a hint that answers Hint.QUEUE for it; or leave events out, and "
                "be asked after every event",
            )
    return None


def _only_rejecting_nodes(subject: Subject, example: Example) -> tuple[Example, str] | None:
    """The example without the nodes that take the pod, and what the plugin says then; None where that leaves none."""
    for _ in range(5):
        world = example.build()
        said = ask(subject.build(world.handle), world)
        if said.enqueue is not None:
            return example, said.enqueue.message
        if not said.takes:
            return (example, _why(said)) if said.refusal is not None or said.verdicts else None
        kept = [
            (kind, document)
            for kind, document in example.objects
            if kind is not NODE or document["metadata"]["name"] not in said.takes
        ]
        example = replace(example, objects=tuple(kept))
    return None


def _why(said: Said) -> str:
    if said.refusal is not None:
        return said.refusal.message
    return "; ".join(dict.fromkeys(status.message for status in said.verdicts.values()))


def _changes(example: Example) -> Iterator[tuple[str, Document | None, Document | None, Kind | None]]:
    """In words, before, after, and the kind; None for the pod itself."""
    for what, kind, before, after in cluster_changes(example):
        yield what, before, after, kind
    for path, document in own_changes(example):
        yield f"{path} of the pod itself changes", example.pod, document, None


def _all_happenings(example: Example, pod: PodInfo) -> Iterator[tuple[str, Iterable[Happening]]]:
    for what, before, after, kind in _changes(example):
        if kind is None:
            assert after is not None
            new = pod_info(after)
            yield what, [(event, pod, new) for event in happenings.pod_changes(pod, new)]
        else:
            yield what, _happenings(kind, before, after)


def _happenings(kind: Kind, before: Document | None, after: Document | None) -> Iterator[Happening]:
    """The events that the scheduler makes of a change."""
    old = typed(kind, before) if before is not None else None
    new = typed(kind, after) if after is not None else None
    if old is not None and new is not None and kind in {NODE, POD}:
        changed = happenings.node_changes(old, new) if kind is NODE else happenings.pod_changes(old, new)
        yield from ((event, old, new) for event in changed)
        return
    action = Action.UPDATE if old is not None and new is not None else Action.ADD if old is None else Action.DELETE
    named = {
        (NODE, Action.ADD): happenings.NODE_ADD,
        (NODE, Action.DELETE): happenings.NODE_DELETE,
        (POD, Action.ADD): happenings.ASSIGNED_POD_ADD,
        (POD, Action.DELETE): happenings.ASSIGNED_POD_DELETE,
    }
    yield named.get((kind, action)) or happenings.object_event(kind.kind, action), old, new


def _queues(plugin: Any, pod: PodInfo, happened: Iterable[Happening]) -> bool:
    """Whether the queue would try a pod again that this plugin turned down."""
    hints = Hints({SCHEDULER: QueueProfile(sort_key=lambda _, queued_at: queued_at, hints=alone(plugin).events())})
    waiting = QueuedPod(pod, 0.0, unschedulable_plugins=frozenset({plugin.name}))
    return any(hints.ask(waiting, event, old, new) is not Requeue.SKIP for event, old, new in happened)


def _registered(event: ClusterEvent) -> str:
    return f"{event.resource} {event.action.name or event.action!r}"
