"""What would help a pending pod: concrete changes, each tried in the world and kept if the pod is then placed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bayplan.api.kinds import NODE, POD
from bayplan.api.objects import convert, encode
from bayplan.cluster.nodes import NodeInfo
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.remedies import Remedy
from bayplan.insight.answers import Progress, Stopped, listed, plural, silent
from bayplan.insight.questions.blockers import Blockers, gates_of
from bayplan.insight.questions.documents import copy_of_node, node_document, pod_document
from bayplan.insight.questions.new_claims import settle_claims
from bayplan.insight.sources.documents import identify
from bayplan.simulation.carry_out import Fate, Simulation
from bayplan.simulation.evictions import evict
from bayplan.simulation.world import World

_COMBINATIONS = (4, 25)
"""The most combinations of fixes to try for a node with several blockers: at first, and if none of these helps."""
_NODES_TRIED = 3
_MORE_NODES = 12
"""The most nodes to try if no change for the first ones helps; they may have the same blockers."""
_NEAREST = 200
"""The most nodes to look at for different blockers and shapes."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the cluster or the pod.

    `text`: for people. `apply`: the changed and new objects, as whole documents. `delete`: pods to delete, by
    `namespace/name`. `parts`: the single changes that it consists of.
    """

    text: str
    apply: tuple[Mapping[str, Any], ...] = ()
    delete: tuple[str, ...] = ()
    parts: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Help:
    """A change after which the pod is placed, on `node`."""

    change: Change
    node: str


@dataclass(frozen=True, slots=True)
class Helpful:
    """The changes that were found to help. `interrupted`: whether others were not tried."""

    found: tuple[Help, ...] = ()
    interrupted: bool = False


def what_would_help(
    world: World,
    pod: PodInfo,
    blockers: Blockers,
    limit: int,
    only: Sequence[int] | None = None,
    progress: Progress = silent,
) -> Helpful:
    """Try changes in the world, and return those that let the pod be placed without preemption, up to `limit`.

    A change that has more parts than one that helps is left out. `only`: the positions of the nodes to consider; by
    default, the nearest ones. `progress` may raise Stopped.
    """
    helps: list[Help] = []
    tried: set[str] = set()
    try:
        for combinations in _COMBINATIONS:
            for change in _candidates(world, pod, blockers, only, combinations):
                if len(helps) == limit:
                    break
                more_than_needed = any(each.change.parts <= change.parts for each in helps)
                if change.parts and change.text not in tried and not more_than_needed:
                    tried.add(change.text)
                    progress(f"{plural(len(tried), 'change')} tried, {len(helps)} of them would help")
                    try:
                        node = node_after(world, pod, change)
                    except ValueError:  # a plugin made a manifest that can't be read
                        continue
                    if node is not None:
                        helps.append(Help(change, node))
            if helps:
                break
    except Stopped:
        return Helpful(tuple(helps), interrupted=True)
    return Helpful(tuple(helps))


def node_after(world: World, pod: PodInfo, change: Change) -> str | None:
    """Return the node that a pod is placed on after a change; None if it stays pending or preempts."""
    with world.what_if():
        for key in change.delete:
            victim = world.pod(key)
            if victim is not None:
                evict(world, victim)
        for document in change.apply:
            if document["kind"] == "Pod":
                changed = PodInfo.from_raw(encode(document))
                world.change(POD, changed.key, changed)
            elif document["kind"] == "Node":
                world.change(NODE, document["metadata"]["name"], convert(NODE.type, document))
            else:
                world.add(*identify(document))
        settle_claims(world, pod)
        pending = world.pending.get(pod.key)
        result = None if pending is None else Simulation(world).decide(pending).get(pod.key)
        return result.node if result is not None and result.fate is Fate.PLACED else None


def _candidates(
    world: World, pod: PodInfo, blockers: Blockers, only: Sequence[int] | None, combinations: int
) -> Iterator[Change]:
    """Changes that may help: for the nearest nodes of each kind, what removes all of their blockers."""
    gates = [next(gate.remedies(), None) for gate in gates_of(world, pod)]
    ungate = tuple(remedy for remedy in gates if remedy is not None)
    yield _change(pod, None, ungate)
    by_kind: dict[object, int] = {}
    by_shape: dict[object, int] = {}
    nearest = blockers.nearest(_NEAREST) if only is None else list(only)
    for position in nearest:
        node = blockers.nodes.info(position)
        by_kind.setdefault(tuple((each.plugin, each.reasons) for each in blockers.of(position)), position)
        by_shape.setdefault(tuple(sorted(node.allocatable.items())), position)
    positions = list(by_kind.values())[:_NODES_TRIED]
    if combinations > _COMBINATIONS[0]:
        positions += nearest[:_MORE_NODES]
    for position in positions:
        node = blockers.nodes.info(position)
        options = [[each for each in blocker.remedies() if _for_node(each)] for blocker in blockers.of(position)]
        for chosen in sorted(itertools.product(*options), key=_size)[:combinations]:
            yield _change(pod, node, (*ungate, *chosen))
    for position in list(by_shape.values())[:_NODES_TRIED] if only is None else ():
        change = _new_node(world, pod, blockers.nodes.info(position), ungate)
        if change is not None:
            yield change


def _for_node(remedy: Remedy) -> bool:
    """Whether a remedy changes more than a new node."""
    return bool(remedy.pod or remedy.node or remedy.apply or remedy.delete)


def _size(remedies: Sequence[Remedy]) -> int:
    """How much remedies change: the smallest ones are tried first."""
    return len({each.text for each in remedies} - {""}) + len({key for each in remedies for key in each.delete})


def _change(pod: PodInfo, node: NodeInfo | None, remedies: Sequence[Remedy]) -> Change:
    """Combine remedies for a pod and a node; no change if a plugin's edit fails."""
    try:
        return _combined(pod, node, remedies)
    except Exception:  # noqa: BLE001 - an edit is a plugin's own code
        return Change("")


def _combined(pod: PodInfo, node: NodeInfo | None, remedies: Sequence[Remedy]) -> Change:
    changed: list[Mapping[str, Any]] = []
    if any(each.pod for each in remedies):
        document = pod_document(pod)
        for each in remedies:
            if each.pod is not None:
                each.pod(document)
        changed.append(document)
    if node is not None and any(each.node for each in remedies):
        document = node_document(node)
        for each in remedies:
            if each.node is not None:
                each.node(document)
        changed.append(document)
    created = {(each["kind"], each["metadata"]["name"]): each for remedy in remedies for each in remedy.apply}
    texts = list(dict.fromkeys(each.text for each in remedies if each.text))
    parts = frozenset(texts)
    gone = tuple(dict.fromkeys(key for each in remedies for key in each.delete))
    if gone and node is not None:
        there = all(any(other.key == key for other in node.pods) for key in gone)
        texts.append(f"delete {_pods(gone)}{f' on {node.name}' if there else ''}")
    return Change(" and ".join(texts), (*created.values(), *changed), gone, parts.union(gone))


def _new_node(world: World, pod: PodInfo, like: NodeInfo, ungate: Sequence[Remedy]) -> Change | None:
    """A new node like another one, different in what blocks the pod there; None if a blocker has no such remedy."""
    node, *daemons = copy_of_node(like)
    name = node["metadata"]["name"]
    with world.what_if():
        for document in (node, *daemons):
            world.add(*identify(document))
        blockers = Blockers(world, pod)
        position = blockers.nodes.position(name)
        options = [] if position is None else [list(blocker.remedies()) for blocker in blockers.of(position)]
    chosen = []
    for option in options:
        remedy = next((each for each in option if each.new_node), None) or next((e for e in option if e.pod), None)
        if remedy is None:
            return None
        chosen.append(remedy)
    extra = _change(pod, None, [*ungate, *(each for each in chosen if not each.new_node)])
    details = []
    for each in chosen:
        if each.new_node is not None:
            each.new_node(node)
            details.append(each.detail)
    with_details = f" with {' and '.join(details)}" if details else ""
    texts = [f"add a node like {like.name}{with_details}", *([extra.text] if extra.text else [])]
    return Change(" and ".join(texts), (*extra.apply, node, *daemons), parts=extra.parts.union({texts[0]}))


def _pods(keys: Sequence[str]) -> str:
    return f"pod {keys[0]}" if len(keys) == 1 else f"the pods {listed(list(keys))}"
