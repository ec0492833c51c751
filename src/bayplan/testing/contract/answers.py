"""What a plugin answers at each point: of the right type, in range, and the same when it is asked again."""

from __future__ import annotations

import random
from collections.abc import Generator
from itertools import pairwise
from typing import Any

from bayplan.api.kinds import POD
from bayplan.framework import interface
from bayplan.framework.interface import CycleState, PostFilterResult
from bayplan.framework.profile import Point
from bayplan.framework.runner import (
    run_filter,
    run_post_filter,
    run_pre_filter,
)
from bayplan.framework.status import PluginError
from bayplan.framework.verdicts import Diagnosis
from bayplan.framework.what_if import ProfileWhatIf
from bayplan.plugins.node_resources.fit import NodeResourcesFit
from bayplan.testing.contract.examples import Example, World, pod_info
from bayplan.testing.contract.faults import Finding
from bayplan.testing.contract.random_examples import RandomExamples
from bayplan.testing.contract.subject import Said, Subject, alone, ask


def check_answers(subject: Subject, example: Example) -> Finding | None:
    """PreEnqueue, PreFilter, Filter, Score and what goes with them answer what the scheduler can take."""
    world = example.build()
    plugin = subject.build(world.handle)
    try:
        said = ask(plugin, world)
    except PluginError as error:
        return Finding(
            str(error), f"let {error.point} answer what its point in bayplan.framework.interface says", error
        )
    if said.names is not None and not (
        isinstance(said.names, frozenset) and all(isinstance(name, str) for name in said.names)
    ):
        return Finding(f"pre_filter answered NodeNames({said.names!r})", "give NodeNames a frozenset of node names")
    return _check_values(plugin, subject, world) or _check_sort_keys(plugin, subject, example)


def check_post_filter(subject: Subject, example: Example) -> Finding | None:
    """PostFilter answers a PostFilterResult, with victims that are on the node that it nominates."""
    if not subject.has(interface.PostFilter):
        return None
    world = example.build()
    plugin = subject.build(world.handle)
    profile = alone(plugin)
    fit = NodeResourcesFit()
    for point in (Point.PRE_FILTER, Point.FILTER):
        profile.plugins = {**profile.plugins, point: [*profile.at(point), fit]}
    cycle, nodes = CycleState(), world.state.nodes
    if run_pre_filter(profile, cycle, world.pod, nodes).refusal is not None:
        return None
    verdicts = run_filter(profile, cycle, world.pod, nodes)
    if verdicts.standing.any():
        return None
    diagnosis = Diagnosis(world.state.table.live_count, verdicts)
    try:
        what_if = ProfileWhatIf(profile, world.state.nominations, random.Random(example.number))
        result = _unasked(run_post_filter(profile, cycle, world.pod, diagnosis, what_if))
    except PluginError as error:
        return Finding(str(error), "let post_filter return a PostFilterResult", error)
    assert result is not None
    elsewhere = [pod.key for pod in result.victims if pod.node_name != result.nominated_node]
    if elsewhere:
        return Finding(
            f"it nominated node {result.nominated_node!r} with victims elsewhere: {', '.join(elsewhere)}",
            "name only victims that are on the nominated node",
        )
    return None


def _unasked(choosing: Generator[Any, Any, PostFilterResult | None]) -> PostFilterResult | None:
    """What PostFilter comes to where nobody outside is asked."""
    try:
        question = next(choosing)
    except StopIteration as end:
        result: PostFilterResult | None = end.value
        return result
    raise AssertionError(f"without extenders it asked {question}")


def check_repeatable(subject: Subject, example: Example) -> Finding | None:
    """The same question gets the same answer, from this plugin and from another one of its kind."""
    world, other_world = example.build(), example.build()
    plugin, other = subject.build(world.handle), subject.build(other_world.handle)
    first = ask(plugin, world)
    change = (
        "decide by the pod, the nodes and what was remembered of them in CycleState alone: draw nothing at random, "
        "read no clock, and keep nothing of earlier questions in the class or the module"
    )
    if difference := differs(first, ask(plugin, world)):
        return Finding(f"asked twice about the same pod, {difference}", change)
    ask(other, other_world, pod_info(RandomExamples.like(example).pod("other")))
    if difference := differs(first, ask(plugin, world, pod_info(example.pod))):
        return Finding(f"asked again after another instance was, {difference}", change)
    if difference := differs(first, ask(other, other_world)):
        return Finding(f"of two instances that were asked about the same pod, {difference}", change)
    return None


def differs(one: Said, other: Said) -> str:
    """Where two answers differ, in words; "" where they do not. Normalised scores count too."""
    if one == other:
        return ""
    if one.enqueue != other.enqueue:
        return f"pre_enqueue said {one.enqueue} and then {other.enqueue}"
    for name in {**one.verdicts, **other.verdicts}:
        before, after = one.of_node(name), other.of_node(name)
        if before != after:
            return f"it said of node {name}: {before}, and then: {after}"
        if one.scores != other.scores and name in (one.scores or {}) and name in (other.scores or {}):
            assert one.scores is not None
            assert other.scores is not None
            if one.scores[name] != other.scores[name]:
                return f"the score of node {name} was {one.scores[name]} and then {other.scores[name]}"
    return f"it said {one} and then {other}"


def _check_values(plugin: Any, subject: Subject, world: World) -> Finding | None:
    for form, name, arguments in (
        (interface.Sign, "sign", (world.pod,)),
        (interface.RestsOn, "rests_on", (world.pod, world.state.nodes)),
    ):
        if not subject.has(form):
            continue
        try:
            value = getattr(plugin, name)(*arguments)
        except Exception as error:  # noqa: BLE001 - whatever it raises is the finding
            return Finding(f"{name} raised {type(error).__name__}: {error}", f"let {name} answer for every pod", error)
        try:
            hash(value)
        except TypeError:
            return Finding(f"{name} answered {value!r}, which cannot be hashed", "answer tuples, not lists or dicts")
    return None


def _check_sort_keys(plugin: Any, subject: Subject, example: Example) -> Finding | None:
    if not subject.has(interface.QueueSort):
        return None
    pods = [pod_info(document) for document in (*example.of(POD), example.pod)]
    keys = [(pod, at, plugin.sort_key(pod, at)) for pod in pods for at in (0.0, 1.5)]
    for (one, at, key), (other, _, next_key) in pairwise(keys):
        try:
            key < next_key  # noqa: B015 - whether it can be asked is the question
        except TypeError as error:
            return Finding(
                f"the keys of pods {one.key} and {other.key}, {key!r} and {next_key!r}, cannot be compared: {error}",
                "let sort_key return values of one type, such as tuples of numbers",
            )
        if plugin.sort_key(one, at) != key:
            return Finding(f"the key of pod {one.key} was {key!r} and then another", "sort by the pod and queued_at")
    return None
