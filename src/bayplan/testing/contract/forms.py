"""A plugin's forms agree: per node and whole table, all nodes at once and some of them, and what-ifs with what is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from bayplan.api.kinds import NODE, POD
from bayplan.cluster.nodes import Nodes, PodChanges
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework import interface
from bayplan.framework.interface import CycleState
from bayplan.framework.profile import Point
from bayplan.framework.runner import raw_scores, run_filter, run_pre_filter, run_pre_score, status_of
from bayplan.framework.status import Code, Status
from bayplan.framework.what_if import filter_changed
from bayplan.testing.contract.examples import Example, World, pod_info
from bayplan.testing.contract.faults import Finding
from bayplan.testing.contract.random_examples import RandomExamples
from bayplan.testing.contract.subject import Subject, alone

PASSED = Status(Code.SUCCESS)


def check_forms(subject: Subject, example: Example) -> Finding | None:
    """`filter` and `filter_nodes` say the same of every node, `score` and `score_nodes` too, in any selection."""
    world = example.build()
    plugin = subject.build(world.handle)
    profile, cycle = alone(plugin), CycleState()
    if run_pre_filter(profile, cycle, world.pod, world.state.nodes).refusal is not None:
        return None
    nodes = _live(world)
    feasible = np.arange(len(nodes))
    if subject.takes_part(Point.FILTER) and plugin.name not in cycle.skip_filter:
        feasible = run_filter(profile, cycle, world.pod, nodes).feasible()
        if finding := _filters_agree(plugin, subject, cycle, world.pod, nodes):
            return finding
    if not len(feasible):
        return None
    chosen = nodes.at(feasible)
    run_pre_score(profile, cycle, world.pod, chosen)
    if subject.takes_part(Point.SCORE) and plugin.name not in cycle.skip_score:
        return _scores_agree(plugin, subject, cycle, world.pod, chosen)
    return None


def check_what_ifs(subject: Subject, example: Example) -> Finding | None:
    """A node with pods that come or go in thought gets the verdict that it gets when they have come or gone."""
    if not subject.takes_part(Point.FILTER):
        return None
    world = example.build()
    plugin = subject.build(world.handle)
    profile, cycle, nodes = alone(plugin), CycleState(), world.state.nodes
    if run_pre_filter(profile, cycle, world.pod, nodes).refusal or plugin.name in cycle.skip_filter:
        return None
    for name, changes, changed in _what_ifs(example):
        after = changed.build()
        after_cycle = CycleState()
        after_plugin = subject.build(after.handle)
        refusal = run_pre_filter(profile, after_cycle, after.pod, after.state.nodes).refusal
        if refusal is not None:
            continue
        if plugin.name in after_cycle.skip_filter:
            really = PASSED
        else:
            verdicts = run_filter(alone(after_plugin), after_cycle, after.pod, after.state.nodes)
            really = _of(verdicts.of(_position(after, name)))
        position = _position(world, name)
        in_thought = _of(filter_changed(profile, cycle, world.pod, nodes.changed({position: changes})).of(position))
        if (in_thought.rejected, in_thought.reasons) != (really.rejected, really.reasons):
            told = ", ".join(
                f"{pod.key} with labels {dict(pod.labels)} {'comes' if sign > 0 else 'goes'}"
                for pod, sign in changes.signed()
            )
            wanted = (
                "let add_pod and remove_pod bring all that pre_filter remembered up to date"
                if subject.has(interface.PreFilterExtensions)
                else "read the pods of a node through the `nodes` or `node` that filter is given, or, if pre_filter "
                "remembers something of pods, implement add_pod and remove_pod"
            )
            return Finding(
                f"of node {name}, in thought ({told}) it says {_text(in_thought)}, but where that has happened "
                f"{_text(really)}",
                wanted,
            )
    return None


def _filters_agree(plugin: Any, subject: Subject, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Finding | None:
    whole = [_of(status) for status in _filtered(plugin, cycle.clone(), pod, nodes)]
    if subject.has(interface.FilterNodes) and subject.has(interface.Filter):
        for position in range(len(nodes)):
            answer = plugin.filter(cycle.clone(), pod, nodes.info(position))
            status = _of(status_of(answer, plugin, "Filter"))
            if status != whole[position]:
                return Finding(
                    f"of node {nodes.name(position)}, filter says {_text(status)} and filter_nodes "
                    f"{_text(whole[position])}",
                    "make filter and filter_nodes agree, reasons included, or keep one of them only",
                )
    for positions in _parts(len(nodes)):
        for status, position in zip(_filtered(plugin, cycle.clone(), pod, nodes.at(positions)), positions, strict=True):
            if _of(status) != whole[position]:
                return Finding(
                    f"of node {nodes.name(int(position))}, filter_nodes says {_text(whole[position])} when it is asked "
                    f"about all nodes, and {_text(_of(status))} when it is asked about {len(positions)} of them",
                    "let a node's verdict rest on that node and on what pre_filter, which sees all nodes, remembered",
                )
    return None


def _scores_agree(plugin: Any, subject: Subject, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Finding | None:
    whole = raw_scores(plugin, cycle, pod, nodes).tolist()
    if subject.has(interface.ScoreNodes) and subject.has(interface.Score):
        whole = plugin.score_nodes(cycle, pod, nodes).tolist()
        for position in range(len(nodes)):
            score = plugin.score(cycle, pod, nodes.info(position))
            if score != whole[position]:
                return Finding(
                    f"node {nodes.name(position)} gets {score!r} of score and {whole[position]} of score_nodes",
                    "make score and score_nodes agree, or keep one of them only",
                )
    if subject.signs:  # scores of one that does not are never asked for in parts
        for positions in _parts(len(nodes)):
            part = raw_scores(plugin, cycle, pod, nodes.at(positions)).tolist()
            for score, position in zip(part, positions, strict=True):
                if score != whole[position]:
                    return Finding(
                        f"node {nodes.name(int(position))} gets {whole[position]} when all nodes are scored, and "
                        f"{score} when {len(positions)} of them are",
                        "let a raw score rest on its node and on what pre_score remembered of the pod; compare nodes "
                        "in normalize_scores",
                    )
    return None


def _what_ifs(example: Example) -> Iterator[tuple[str, PodChanges, Example]]:
    """A node, what comes and goes there in thought, and the example in which it has."""
    maker = RandomExamples.like(example)
    names = {document["metadata"]["name"] for document in example.of(NODE)}
    for index, (kind, document) in enumerate(example.objects):
        node = document.get("spec", {}).get("nodeName")
        if kind is POD and node in names and "deletionTimestamp" not in document["metadata"]:
            yield node, PodChanges(removed=(pod_info(document),)), example.without(index)
    for name in sorted(names):
        comes = maker.bound(f"comes-to-{name}", name)
        comes["metadata"].pop("deletionTimestamp", None)
        more = replace(example, objects=(*example.objects, (POD, comes)))
        yield name, PodChanges(added=(pod_info(comes),)), more


def _filtered(plugin: Any, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> list[Status]:
    """What the whole-table form says, where there is one, else the other."""
    if isinstance(plugin, interface.FilterNodes):
        rejections = plugin.filter_nodes(cycle, pod, nodes)
        if rejections is None:
            return [PASSED] * len(nodes)
        table = (PASSED, *rejections.statuses)
        return [table[index] for index in rejections.index.tolist()]
    return [
        status_of(plugin.filter(cycle, pod, nodes.info(position)), plugin, "Filter") for position in range(len(nodes))
    ]


def _parts(count: int) -> Iterator[Any]:
    """Some selections of so many nodes: each alone, and all of them the other way round."""
    for position in range(count if count > 1 else 0):
        yield np.array([position], dtype=np.intp)
    if count > 1:
        yield np.arange(count)[::-1]


def _live(world: World) -> Nodes:
    nodes = world.state.nodes
    return nodes.at(np.flatnonzero(nodes.live))


def _position(world: World, name: str) -> int:
    position = world.state.nodes.position(name)
    assert position is not None
    return position


def _of(status: Status) -> Status:
    return status.by("")


def _text(status: Status) -> str:
    return f"{status.code!s} ({status.message})" if status.rejected else "that it passes"
