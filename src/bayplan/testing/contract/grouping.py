"""The promise behind `queue.rejection_groups`: of pods that are rejected alike, one can be attempted for all."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework import interface
from bayplan.core.framework.events import Topics
from bayplan.core.framework.own_volumes import own_volumes
from bayplan.testing.contract.examples import BuiltExample, Example
from bayplan.testing.contract.promise import Breach, promise
from bayplan.testing.contract.queueing import events_of
from bayplan.testing.contract.subject import Subject, ask, difference, text_of
from bayplan.testing.strategies import at


@promise(
    "rejection",
    "pods with equal signatures that rest on the same are rejected alike and get equal hints",
    lambda subject: subject.has(interface.Sign),
)
def rejection(subject: Subject, example: Example) -> None:
    """Pods that differ in one field get different keys, or equal rejections, and equal hints for all events."""
    plugin, world = subject.start(example)
    key = _key(plugin, world.pod, world)
    if None in key:
        return
    own = own_volumes(world.state.objects)
    first = _rejections_and_hints(plugin, world.pod, subject, example, own)
    for variant in example.variants:
        if _key(plugin, variant.pod, world) != key:
            continue
        second = _rejections_and_hints(plugin, variant.pod, subject, example, own)
        one, other = ({about: texts[about] for about in first if about in second} for texts in (first, second))
        if found := difference(one, other, "for the first pod", "for the second"):
            raise Breach(
                f"two pods that differ only in {variant.path} ({at(variant.before, variant.path)} and "
                f"{at(variant.after, variant.path)}) have the same sign(), {key[0]!r}, but {found}",
                f"let sign() return also what the plugin and its hints read of {variant.path}",
            )


def _key(plugin: Any, pod: PodInfo, world: BuiltExample) -> tuple[Hashable, Hashable, Hashable]:
    """Return what pods have in common that are rejected alike; None for a part of it if the pod is alone."""
    has = isinstance(plugin, interface.RestsOn)
    return plugin.sign(pod), plugin.rests_on(pod, world.state.nodes) if has else (), pod.priority


def _rejections_and_hints(plugin: Any, pod: PodInfo, subject: Subject, example: Example, own: Topics) -> dict[str, str]:
    """Return as text, by what they are about: the rejections of a pod, and the hints about it for each change.

    Changes that concern the pod's own volumes are left out: they separate it from its group.
    """
    texts = {}
    if subject.decides:
        answers = ask(plugin, subject.start(example)[1], pod)
        texts["the answer of PreFilter"] = text_of(answers.refusal)
        texts |= {f"node {name}": text_of(status) for name, status in answers.verdicts.items()}
        if answers.refusal is None and len(answers.feasible) == len(answers.verdicts):
            return texts  # hints are asked only of plugins that reject the pod
    if subject.has(interface.EnqueueExtensions):
        registered = [each for each in plugin.events() if each.hint is not None]
        topics = frozenset(own.of_pod(pod))
        for change in example.changes:
            for event, old, new in events_of(change):
                if not topics.isdisjoint(own.of_event(old, new) or ()):
                    continue
                for each in registered:
                    if each.event.matches(event):
                        about = f"the hint for {each.event.resource} {each.event.action.name} ({change.text})"
                        texts[about] = each.hint(pod, old, new).name
    return texts
