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
from bayplan.insight.answers import Progress, Stopped, listed, plural, silent
from bayplan.insight.questions.blockers import Blocker, Blockers
from bayplan.insight.questions.claim_fixes import settle_claims
from bayplan.insight.questions.documents import amount_text, copy_of_node, is_daemon, node_document, pod_document
from bayplan.insight.questions.fixes import Fix, fixes_of, remove_gates
from bayplan.insight.sources.documents import identify
from bayplan.simulation.carry_out import Fate, Simulation
from bayplan.simulation.evictions import evict
from bayplan.simulation.world import World

_NODES_TRIED = 3
_COMBINATIONS = 4
"""The most combinations of fixes to try for a node with several blockers."""
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
        for change in _candidates(world, pod, blockers, only):
            if len(helps) == limit:
                break
            more_than_needed = any(each.change.parts <= change.parts for each in helps)
            if change.parts and change.text not in tried and not more_than_needed:
                tried.add(change.text)
                progress(f"{plural(len(tried), 'change')} tried, {len(helps)} of them would help")
                node = node_after(world, pod, change)
                if node is not None:
                    helps.append(Help(change, node))
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


def _candidates(world: World, pod: PodInfo, blockers: Blockers, only: Sequence[int] | None) -> Iterator[Change]:
    """Changes that may help: for the nearest nodes of each kind, what removes all of their blockers."""
    ungate = tuple(remove_gates(pod))
    yield _change(pod, None, ungate)
    by_kind: dict[tuple[str, ...], int] = {}
    by_shape: dict[object, int] = {}
    for position in blockers.nearest(_NEAREST) if only is None else only:
        node = blockers.nodes.info(position)
        by_kind.setdefault(tuple(each.plugin for each in blockers.of(position)), position)
        by_shape.setdefault(tuple(sorted(node.allocatable.items())), position)
    for position in list(by_kind.values())[:_NODES_TRIED]:
        node = blockers.nodes.info(position)
        options = [list(fixes_of(world, pod, node, each)) for each in blockers.of(position)]
        for fixes in sorted(itertools.product(*options), key=_size)[:_COMBINATIONS]:
            yield _change(pod, node, (*ungate, *fixes))
    for position in list(by_shape.values())[:_NODES_TRIED] if only is None else ():
        yield _new_node(world, pod, blockers.nodes.info(position), blockers.of(position), ungate)


def _size(fixes: Sequence[Fix]) -> int:
    """How much fixes change: the smallest ones are tried first."""
    return len({fix.text for fix in fixes} - {""}) + len({key for fix in fixes for key in fix.delete})


def _change(pod: PodInfo, node: NodeInfo | None, fixes: Sequence[Fix]) -> Change:
    """Combine fixes for a pod and a node."""
    changed: list[Mapping[str, Any]] = []
    if any(fix.pod for fix in fixes):
        document = pod_document(pod)
        for fix in fixes:
            if fix.pod is not None:
                fix.pod(document["spec"])
        changed.append(document)
    if node is not None and any(fix.node for fix in fixes):
        document = node_document(node)
        for fix in fixes:
            if fix.node is not None:
                fix.node(document)
        changed.append(document)
    created = {(each["kind"], each["metadata"]["name"]): each for fix in fixes for each in fix.create}
    texts = list(dict.fromkeys(fix.text for fix in fixes if fix.text))
    parts = frozenset(texts)
    gone = tuple(dict.fromkeys(key for fix in fixes for key in fix.delete))
    if gone and node is not None:
        there = all(any(other.key == key for other in node.pods) for key in gone)
        texts.append(f"delete {_pods(gone)}{f' on {node.name}' if there else ''}")
    return Change(" and ".join(texts), (*created.values(), *changed), gone, parts.union(gone))


def _new_node(world: World, pod: PodInfo, like: NodeInfo, found: Sequence[Blocker], ungate: Sequence[Fix]) -> Change:
    """A new node like another one: with the labels that the pod wants, and large enough for it."""
    by_label = [each for each in found if each.plugin in {"TaintToleration", "NodeAffinity"}]
    firsts = [next(fixes_of(world, pod, like, each), None) for each in by_label]
    fixes = [fix for fix in firsts if fix is not None and "uncordon" not in fix.text]
    extra = _change(pod, None, [*ungate, *(fix for fix in fixes if fix.pod is not None)])
    node, *daemons = copy_of_node(like)
    details = [fix.detail for fix in fixes if fix.node is not None]
    for fix in fixes:
        if fix.node is not None:
            fix.node(node)
    used = {name: sum(each.requested.get(name, 0) for each in like.pods if is_daemon(each)) for name in pod.requested}
    for name, amount in pod.requested.items():
        if amount + used[name] > like.allocatable_of(name):
            text = amount_text(name, amount + used[name])
            node["status"] = _with_allocatable(node["status"], name, text)
            details.append(f"{text} {name}")
    with_details = f" with {' and '.join(details)}" if details else ""
    texts = [f"add a node like {like.name}{with_details}", *([extra.text] if extra.text else [])]
    return Change(" and ".join(texts), (*extra.apply, node, *daemons), parts=extra.parts.union({texts[0]}))


def _with_allocatable(status: Mapping[str, Any], resource: str, text: str) -> dict[str, Any]:
    amounts = {name: {**(status.get(name) or {}), resource: text} for name in ("allocatable", "capacity")}
    return {**status, **amounts}


def _pods(keys: Sequence[str]) -> str:
    return f"pod {keys[0]}" if len(keys) == 1 else f"the pods {listed(list(keys))}"
