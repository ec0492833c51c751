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
from bayplan.testing.contract.examples import Example, changed, pod_info
from bayplan.testing.contract.faults import Finding
from bayplan.testing.contract.subject import SCHEDULER, Said, Subject, alone, ask
from bayplan.testing.contract.variations import cluster_changes, own_changes
from bayplan.testing.documents import Document, typed

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
    world = example.build()
    plugin = subject.build(world.handle)
    hints = Hints({SCHEDULER: QueueProfile(sort_key=lambda _, queued_at: queued_at, hints=alone(plugin).events())})
    for what, kind, before, after in cluster_changes(example):
        if ask(plugin, world).takes:
            return None
        with changed(world.state, kind, before, after):
            takes = ask(plugin, world).takes
        happened = list(_happenings(kind, before, after))
        if takes and not _queues(hints, subject.name, world.pod, happened):
            return _unheard(refused_by, what, happened, takes)
    for path, document in own_changes(example):
        pod = pod_info(document)
        takes = ask(plugin, world, pod).takes
        happened = _own_happenings(world.pod, pod)
        if takes and not _queues(hints, subject.name, pod, happened):
            return _unheard(refused_by, f"{path} of the pod itself changes", happened, takes)
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


def _all_happenings(example: Example, pod: PodInfo) -> Iterator[tuple[str, Iterable[Happening]]]:
    for what, kind, before, after in cluster_changes(example):
        yield what, _happenings(kind, before, after)
    for path, document in own_changes(example):
        yield f"{path} of the pod itself changes", _own_happenings(pod, pod_info(document))


def _own_happenings(pod: PodInfo, new: PodInfo) -> list[Happening]:
    return [(event, pod, new) for event in happenings.pod_changes(pod, new)]


def _happenings(kind: Kind, before: Document | None, after: Document | None) -> Iterator[Happening]:
    """The events that the scheduler makes of a change."""
    old = typed(kind, before) if before is not None else None
    new = typed(kind, after) if after is not None else None
    if old is not None and new is not None and kind in {NODE, POD}:
        found = happenings.node_changes(old, new) if kind is NODE else happenings.pod_changes(old, new)
        yield from ((event, old, new) for event in found)
        return
    action = Action.UPDATE if old is not None and new is not None else Action.ADD if old is None else Action.DELETE
    named = {
        (NODE, Action.ADD): happenings.NODE_ADD,
        (NODE, Action.DELETE): happenings.NODE_DELETE,
        (POD, Action.ADD): happenings.ASSIGNED_POD_ADD,
        (POD, Action.DELETE): happenings.ASSIGNED_POD_DELETE,
    }
    yield named.get((kind, action)) or happenings.object_event(kind.kind, action), old, new


def _queues(hints: Hints, plugin: str, pod: PodInfo, happened: Iterable[Happening]) -> bool:
    """Whether the queue would try a pod again that this plugin turned down."""
    waiting = QueuedPod(pod, 0.0, unschedulable_plugins=frozenset({plugin}))
    return any(hints.ask(waiting, event, old, new) is not Requeue.SKIP for event, old, new in happened)


def _unheard(refused_by: str, what: str, happened: Iterable[Happening], takes: Iterable[str]) -> Finding:
    events = ", ".join(event.label for event, _, _ in happened) or "no event that scheduling knows"
    return Finding(
        f"no node takes the pod ({refused_by}); then {what} ({events}), now it would go to {', '.join(takes)}, but no "
        "hint of the plugin says QUEUE: the pod would wait on",
        "register the event in events(), with a hint that answers Hint.QUEUE for it; or leave events out, and be asked "
        "after every event",
    )


def _registered(event: ClusterEvent) -> str:
    return f"{event.resource} {event.action.name or event.action!r}"
