"""Which single change frees the most pending pods: each is made on all nodes of its kind, and all pods are placed.

Nothing is preempted. The candidates are the changes that would lift the only rejection of a pod on a node.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from bayplan.answers.insight.answers import Progress, Stopped, plural, silent
from bayplan.answers.insight.questions.blockers import LOOKED_AT, Blockers
from bayplan.answers.insight.questions.change import Change, make
from bayplan.answers.insight.questions.changes import FIXED_LABELS, changed_labels, combined, cost_of
from bayplan.answers.insight.questions.hanging import all_force_deleted
from bayplan.answers.insight.questions.node_groups import new_node_documents, node_groups
from bayplan.answers.insight.tables import grouped
from bayplan.answers.simulation.results import Fate
from bayplan.answers.simulation.simulation import Simulation
from bayplan.answers.simulation.world import World
from bayplan.core.cluster.nodes import NodeInfo
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.remedies import Remedy

KEPT = 5
"""The most changes of an answer."""
_SORTS = 8
"""The most sorts of equal pending pods to look for changes for, the largest first."""
_TRIED, _ATTEMPTS = 15, 6_000
"""The most changes to try, and about the most attempts of pods for these."""
_NEW_NODES = 3
"""The most types of new nodes to try."""


@dataclass(frozen=True, slots=True)
class Freed:
    """A single change, and the pending pods that are placed after it, without preemption, and aren't without it.

    `nodes`: the nodes that it changes. `kind`: what changes of one kind have in common, such as the plugin that they
    are for.
    """

    change: Change
    nodes: tuple[str, ...]
    pods: tuple[str, ...]
    kind: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the change as in docs/insight.md."""
        return {
            "change": self.change.text,
            "cost": self.change.cost,
            "nodes": list(self.nodes),
            "delete": list(self.change.delete),
            "pods": list(self.pods),
        }


@dataclass(frozen=True, slots=True)
class Freeing:
    """The single changes that free the most of `pending` pods, the best first.

    `pending`: how many pods stay pending without a change, unless they preempt others. `tried`: the number of changes
    that were tried.
    """

    pending: int = 0
    best: tuple[Freed, ...] = ()
    tried: int = 0
    interrupted: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as in docs/insight.md."""
        return {"pending": self.pending, "tried": self.tried, "changes": [each.to_dict() for each in self.best]}

    def lines(self) -> Iterator[str]:
        """Yield a line for each change."""
        for each in self.best:
            cost = f" ({each.change.cost})" if each.change.cost else ""
            yield f"{len(each.pods):,} of {plural(self.pending, 'pod')}: {each.change.text}{cost}"


def freeing(world: World, pods: Iterable[PodInfo], progress: Progress = silent) -> Freeing:
    """Find the single changes that free the most of these pods. Other pending pods compete with them for the nodes.

    A change that evicts pods must free more than these. `progress` may raise Stopped.
    """
    asked = {pod.key for pod in pods} & world.pending.keys()
    if not asked:
        return Freeing()
    ordered = world.in_queue_order(world.pending.values())
    found: list[Freed] = []
    left: AbstractSet[str] = set()
    tried = 0
    try:
        with world.trial():
            left = asked - _placed(world, ordered, progress)
        for kind, change, nodes in _promising(world, [pod for pod in ordered if pod.key in left], progress):
            if tried >= max(min(_TRIED, _ATTEMPTS // len(ordered)), KEPT):
                break
            tried += 1
            progress(f"{plural(tried, 'change')} tried that may free many pods")
            try:
                with world.trial():
                    make(world, change)
                    freed = left & _placed(world, ordered, progress)
            except ValueError:  # a plugin made a manifest that can't be read
                continue
            if len(freed) > (0 if change.forced else len(change.delete)):
                found.append(Freed(change, nodes, tuple(sorted(freed)), kind))
    except Stopped:
        return Freeing(len(left), _best(found), tried, interrupted=True)
    return Freeing(len(left), _best(found), tried)


def _best(found: Iterable[Freed]) -> tuple[Freed, ...]:
    """Most pods first, then the fewest evictions, no new node, and the fewest nodes that are changed.

    The best one of each kind is kept, and then what else frees most.
    """
    ranked = sorted(found, key=_rank)
    kinds = {each.kind: each for each in reversed(ranked)}
    best = sorted(kinds.values(), key=_rank)[:KEPT]
    best += [each for each in ranked if each not in best][: KEPT - len(best)]
    return tuple(sorted(best, key=_rank))


def _rank(freed: Freed) -> tuple[int, int, bool, int]:
    evictions = 0 if freed.change.forced else len(freed.change.delete)
    return -len(freed.pods), evictions, bool(freed.change.like), len(freed.nodes)


def _placed(world: World, ordered: Sequence[PodInfo], progress: Progress) -> frozenset[str]:
    """The pods that are placed without preemption."""
    results = Simulation(world, preempt=False).schedule(ordered, lambda done: progress(f"{plural(done, 'pod')}"))
    return frozenset(key for key, result in results.items() if result.fate is Fate.PLACED)


@dataclass(slots=True)
class _Edit:
    """One change of many nodes: `remedies` by the name of the node, and how many pods are rejected only for it."""

    pod: PodInfo
    kind: str
    remedies: dict[str, tuple[NodeInfo, Remedy]] = field(default_factory=dict)
    promise: int = 0


_Candidate = tuple[str, Change, tuple[str, ...]]
"""A kind of changes, a change, and the nodes that it changes."""


def _promising(world: World, pods: Sequence[PodInfo], progress: Progress) -> Iterator[_Candidate]:
    """The changes that may free pods: the best of each kind, those that may free most first; then all others.

    A change of nodes is made on all nodes where it is the only obstacle of a sort of pods; pods are deleted on one,
    unless they hang anyway.
    """
    sorts = grouped((world.sharing_key(pod) or pod.key, pod) for pod in pods if world.gate_of(pod) is None)
    edits: dict[str, _Edit] = {}
    deletions: dict[tuple[str, ...], tuple[int, Change]] = {}
    for members in sorted(sorts.values(), key=len, reverse=True)[:_SORTS]:
        progress(f"{plural(len(edits) + len(deletions), 'change')} found that may free many pods")
        seen = set()
        for node, plugin, remedy in _alone(world, members[0]):
            if remedy.delete:
                change = combined(members[0], node, [remedy])
                known = deletions.get(change.delete, (0, change))[0]
                cost = cost_of(change, node, ())
                deletions[change.delete] = known + len(members), Change(change.text, (), change.delete, cost=cost)
                continue
            text = _on(node.name, remedy.text, "{}")
            edit = edits.setdefault(text, _Edit(members[0], plugin))
            edit.remedies[node.name] = node, remedy
            if text not in seen:
                seen.add(text)
                edit.promise += len(members)
    ranked: list[tuple[int, int, _Candidate]] = []
    for text, edit in edits.items():
        change, names = _of_all(text, edit)
        if change.apply:
            ranked.append((edit.promise, 0, (edit.kind, change, names)))
    best_deletions = sorted(deletions.values(), key=lambda each: (-each[0], len(each[1].delete)))[:_NEW_NODES]
    ranked += [(promise, len(change.delete), ("delete", change, ())) for promise, change in best_deletions]
    ranked += [(len(pods), 0, ("add", change, ())) for change in _new_nodes(world)]
    forced = all_force_deleted(world)
    ranked += [(len(pods), 0, ("force", forced, ()))] if forced is not None else []
    ordered = [candidate for _, _, candidate in sorted(ranked, key=lambda each: (-each[0], each[1]))]
    first = {candidate[0]: number for number, candidate in reversed(list(enumerate(ordered)))}
    order = sorted(range(len(ordered)), key=lambda number: (first[ordered[number][0]] != number, number))
    yield from (ordered[number] for number in order)


def _alone(world: World, pod: PodInfo) -> Iterator[tuple[NodeInfo, str, Remedy]]:
    """The changes of nodes that would each lift the only rejection of a pod there, with the plugin that rejects it.

    Of deletions, there is one for each kind.
    """
    blockers = Blockers(world, pod)
    for group in blockers.alike(blockers.nearest(LOOKED_AT, most=1)):
        for position in group.positions:
            node = blockers.nodes.info(position)
            first = position == group.positions[0]
            for blocker in group.blockers if first else blockers.of(position):
                for remedy in blocker.remedies():
                    if remedy.pod is None and ((remedy.node and not remedy.delete) or (remedy.delete and first)):
                        yield node, blocker.plugin, remedy


def _of_all(text: str, edit: _Edit) -> tuple[Change, tuple[str, ...]]:
    """One change of all nodes of an edit; nothing where it would change what a node is, or other values of labels."""
    documents: list[Mapping[str, Any]] = []
    names = []
    for name, (node, remedy) in edit.remedies.items():
        change = combined(edit.pod, node, [remedy])
        labels = changed_labels(node, change)
        if labels.isdisjoint(FIXED_LABELS) and labels.isdisjoint(node.labels):
            documents += change.apply
            names.append(name)
    where = names[0] if len(names) == 1 else plural(len(names), "node")
    return Change(text.replace("{}", where), tuple(documents), nodes=len(names)), tuple(names)


def _on(name: str, text: str, other: str) -> str:
    """A text with another name in place of a node's."""
    return re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)", other, text)


def _new_nodes(world: World) -> Iterator[Change]:
    """One new node of each of the largest node groups."""
    for group in node_groups(world)[:_NEW_NODES]:
        like = world.state.nodes.info(next(iter(group.like.values())))
        documents = new_node_documents(world, like)
        if world.state.nodes.position(documents[0]["metadata"]["name"]) is None:
            yield Change(f"add a node like {like.name}", tuple(documents), like=like.name)
