"""Promises about verdicts and scores: their types, and that they depend only on a plugin's inputs.

Also, that both forms (per node, and for all nodes) say the same, and that a what-if counts as the real change.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from bayplan.core.api.kinds import Kind
from bayplan.core.api.objects import encode
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.pod_changes import PodChanges
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework import interface
from bayplan.core.framework.interface import CycleState
from bayplan.core.framework.profile import Point
from bayplan.core.framework.runner import raw_scores, run_filter, run_pre_filter, run_pre_score, status_of
from bayplan.core.framework.what_if import filter_changed
from bayplan.testing.contract.examples import BuiltExample, Example, pod_info
from bayplan.testing.contract.promise import Breach, promise
from bayplan.testing.contract.sharing import check_declarations
from bayplan.testing.contract.subject import Subject, alone, ask, difference, text_of
from bayplan.testing.strategies import bound_to

_OTHERS = "another plugin"
_POD_FIELDS = [
    slot for slot in PodInfo.__slots__ if slot not in {"_object", "_raw", "_tolerations", "cache", "spec_cache"}
]


@promise("answers", "every method returns what its extension point expects, and scores are 0 to 100", lambda _: True)
def answers(subject: Subject, example: Example) -> None:
    """PreEnqueue, PreFilter, Filter, Score and their extensions return valid results."""
    plugin, world = subject.start(example)
    names = ask(plugin, world).names
    if names is not None and not (isinstance(names, frozenset) and all(isinstance(name, str) for name in names)):
        raise Breach(f"pre_filter returned NodeNames({names!r})", "give NodeNames a frozenset of node names")
    check_declarations(subject, plugin, world)
    if subject.has(interface.QueueSort):
        _check_sort_keys(plugin, [pod_info(document) for document in (*example.bound, example.pod)])


@promise("inputs", "the plugin changes nothing that it is given", lambda subject: subject.answers)
def inputs(subject: Subject, example: Example) -> None:
    """No extension point modifies its inputs."""
    plugin, world = subject.start(example)
    kinds = {kind for kind, _ in example.all}
    before = _snapshot(world, kinds)

    def check(point: str, cycle: CycleState, raw: Any = None, given: Any = None) -> None:
        if point == "PreEnqueue":
            cycle.data[_OTHERS] = ["a note"]
        elif cycle.data.get(_OTHERS) != ["a note"]:
            raise Breach(f"{point} changed what other plugins remember in cycle.data", "change only what is your own")
        for what, value in _snapshot(world, kinds).items():
            if value != before[what]:
                raise Breach(f"{point} changed {what}", f"let {point} work on a copy, and keep notes in cycle.data")
        if not np.array_equal(raw, given):
            raise Breach(
                f"normalize_scores changed its array from {raw.tolist()} to {given.tolist()}",
                "return a new array: the raw scores are used again for other pods",
            )

    ask(plugin, world, asked=check)


@promise("repeatable", "the same question gets the same answer", lambda subject: subject.answers)
def repeatable(subject: Subject, example: Example) -> None:
    """The answers stay the same when repeated, after calls of another instance, and from that instance."""
    (plugin, world), (other, other_world) = subject.start(example), subject.start(example)
    first = ask(plugin, world).texts()

    def check(asked: Any, world: BuiltExample, when: str) -> None:
        if found := difference(first, ask(asked, world, pod_info(example.pod)).texts(), "the first time", when):
            raise Breach(
                found,
                "decide by the pod, the nodes and CycleState alone: draw no random numbers, read no clock, and keep "
                "nothing of earlier questions in the class or the module",
            )

    check(plugin, world, "the second time")
    ask(other, other_world, pod_info(example.other))
    check(plugin, world, "after another instance was asked")
    check(other, other_world, "from another instance")


@promise("forms", "per-node and whole-table forms agree, for all nodes and for some", lambda subject: subject.decides)
def forms(subject: Subject, example: Example) -> None:
    """`filter` and `filter_nodes` give the same verdicts, `score` and `score_nodes` the same scores."""
    plugin, world = subject.start(example)
    profile, cycle = alone(plugin), CycleState()
    if run_pre_filter(profile, cycle, world.pod, world.state.nodes).refusal is not None:
        return
    nodes = world.state.nodes.at(np.flatnonzero(world.state.nodes.live))
    feasible = np.arange(len(nodes))
    if subject.takes_part(Point.FILTER) and plugin.name not in cycle.skip_filter:
        feasible = run_filter(profile, cycle, world.pod, nodes).feasible()
        _check_filters(subject, plugin, cycle, world.pod, nodes)
    if len(feasible):
        chosen = nodes.at(feasible)
        run_pre_score(profile, cycle, world.pod, chosen)
        if subject.takes_part(Point.SCORE) and plugin.name not in cycle.skip_score:
            _check_scores(subject, plugin, cycle, world.pod, chosen)


@promise("what-ifs", "what-if pods count like real ones", lambda subject: subject.takes_part(Point.FILTER))
def what_ifs(subject: Subject, example: Example) -> None:
    """A node gets the same verdict for a pod that is added or removed hypothetically as for one that really is."""
    plugin, world = subject.start(example)
    profile, cycle, nodes = alone(plugin), CycleState(), world.state.nodes
    if run_pre_filter(profile, cycle, world.pod, nodes).refusal or plugin.name in cycle.skip_filter:
        return
    for what, name, changes, changed in _what_ifs(example):
        after_plugin, after = subject.start(changed)
        real = ask(after_plugin, after)
        position = nodes.position(name)
        if real.refusal is not None or name not in real.verdicts or position is None:
            continue
        guess = text_of(filter_changed(profile, cycle, world.pod, nodes.changed({position: changes})).of(position))
        if guess != (verdict := text_of(real.verdicts[name])):
            raise Breach(
                f"node {name} is {guess} in a what-if that {what}, and {verdict} when that has happened",
                "let add_pod and remove_pod update everything that pre_filter remembered"
                if subject.has(interface.PreFilterExtensions)
                else "read the pods of a node from the `nodes` or `node` that filter is given; if pre_filter remembers "
                "something about pods, implement add_pod and remove_pod",
            )


def _check_sort_keys(plugin: Any, pods: list[PodInfo]) -> None:
    keys = [(pod, queued_at, plugin.sort_key(pod, queued_at)) for pod in pods for queued_at in (0.0, 1.5)]
    for (pod, queued_at, key), (_, _, next_key) in pairwise(keys):
        try:
            key < next_key  # noqa: B015 - checks that they can be compared
        except TypeError as error:
            raise Breach(
                f"sort_key returned {key!r} and {next_key!r}, which cannot be compared: {error}",
                "let sort_key return values of one type, such as tuples of numbers",
            ) from None
        if plugin.sort_key(pod, queued_at) != key:
            raise Breach(f"sort_key returned {key!r} and then another key", "sort by the pod and queued_at")


def _snapshot(world: BuiltExample, kinds: set[Kind]) -> dict[str, Any]:
    """Return the values that a plugin must not modify, by their description."""
    state, table = world.state, world.state.table
    columns = {name: value for name, value in vars(table).items() if isinstance(value, np.ndarray)}
    objects = {f"{kind.kind} {key}": obj for kind in kinds for key, obj in state.objects[kind].items()}
    return {
        f"the pod ({world.pod.key})": _pod(world.pod),
        **{what: _pod(obj) if isinstance(obj, PodInfo) else encode(obj) for what, obj in objects.items()},
        **{f"the column of nodes {name}": column.tobytes() for name, column in columns.items()},
        "the column of nodes taints": table.taints.codes.tobytes(),
    }


def _pod(pod: PodInfo) -> tuple[bytes, str]:
    return encode(pod.object), repr([getattr(pod, field) for field in _POD_FIELDS])


def _check_filters(subject: Subject, plugin: Any, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> None:
    if subject.has(interface.FilterNodes):
        whole = _filter_nodes(plugin, cycle, pod, nodes)
        for positions in _selections(len(nodes)):
            part = _filter_nodes(plugin, cycle, pod, nodes.at(positions))
            _compare(
                nodes.at(positions),
                ("when filter_nodes is asked about all nodes", [whole[position] for position in positions]),
                (f"when it is asked about {len(positions)} of them", part),
                "let a verdict depend on the node and on what pre_filter, which sees all nodes, remembered",
            )
        if subject.has(interface.Filter):
            single = [
                text_of(status_of(plugin.filter(cycle.clone(), pod, nodes.info(position)), plugin, "Filter"))
                for position in range(len(nodes))
            ]
            change = "make filter and filter_nodes agree, reasons included, or keep only one of them"
            _compare(nodes, ("for filter", single), ("for filter_nodes", whole), change)


def _check_scores(subject: Subject, plugin: Any, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> None:
    whole = raw_scores(plugin, cycle, pod, nodes).tolist()
    if subject.has(interface.ScoreNodes) and subject.has(interface.Score):
        whole = plugin.score_nodes(cycle, pod, nodes).tolist()
        single = [plugin.score(cycle, pod, nodes.info(position)) for position in range(len(nodes))]
        change = "make score and score_nodes agree, or keep only one of them"
        _compare(nodes, ("for score", single), ("for score_nodes", whole), change)
    # the scheduler requests only shared scores for some of the nodes
    for positions in _selections(len(nodes)) if subject.shares else ():
        _compare(
            nodes.at(positions),
            ("when all nodes are scored", [whole[position] for position in positions]),
            (f"when {len(positions)} of them are", raw_scores(plugin, cycle, pod, nodes.at(positions)).tolist()),
            "let a raw score depend on the node and on what pre_score remembered about the pod; compare nodes in "
            "normalize_scores",
        )


def _compare(nodes: Nodes, one: tuple[str, list[Any]], other: tuple[str, list[Any]], change: str) -> None:
    """Raise Breach at the first difference. `one`, `other`: when the answers were given, and the answer by node."""
    for position, (before, after) in enumerate(zip(one[1], other[1], strict=True)):
        if before != after:
            raise Breach(f"node {nodes.name(position)} is {before} {one[0]} and {after} {other[0]}", change)


def _filter_nodes(plugin: Any, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> list[str]:
    rejections = plugin.filter_nodes(cycle.clone(), pod, nodes)
    if rejections is None:
        return [text_of(None)] * len(nodes)
    return [text_of((None, *rejections.statuses)[index]) for index in rejections.index.tolist()]


def _selections(count: int) -> Iterator[Any]:
    """Selections from a number of nodes: each alone, and all in reverse."""
    yield from (np.array([position], dtype=np.intp) for position in range(count))
    yield np.arange(count)[::-1]


def _what_ifs(example: Example) -> Iterator[tuple[str, str, PodChanges, Example]]:
    """Yield what-ifs: description, node, change, and the example in which the change has been made."""
    for pod in example.bound:
        name, labels = pod["spec"]["nodeName"], pod["metadata"].get("labels") or {}
        if name in example.nodes and "deletionTimestamp" not in pod["metadata"]:
            what = f"removes pod {pod['metadata']['name']} with labels {labels}"
            yield what, name, PodChanges(removed=(pod_info(pod),)), example.without(pod)
    for name in example.nodes:
        pod = bound_to(example.arrival, "arrival", name)
        pod["metadata"].pop("deletionTimestamp", None)
        what = f"adds a pod with labels {pod['metadata'].get('labels') or {}}"
        yield what, name, PodChanges(added=(pod_info(pod),)), example.with_pod(pod)
