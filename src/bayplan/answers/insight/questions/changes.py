"""What may help a pending pod: concrete changes, made of the remedies of the plugins that reject nodes.

A node's blockers each offer remedies; one remedy of each makes a change. Groups of nodes that need few changes come
first. Whether a change helps is found out in `trying.py`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bayplan.answers.insight.answers import listed, plural
from bayplan.answers.insight.pools import pool_of
from bayplan.answers.insight.questions.blockers import LOOKED_AT, Blockers, gates_of
from bayplan.answers.insight.questions.change import Change
from bayplan.answers.insight.questions.claim_templates import template_remedies
from bayplan.answers.insight.questions.documents import node_document, pod_document
from bayplan.answers.insight.questions.hanging import force_deletions
from bayplan.answers.insight.questions.node_groups import devices_by_node, new_node_documents
from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots.documents import identify
from bayplan.core.cluster.nodes import NodeInfo
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.remedies import Remedy, is_daemon

_GROUPS_LOOKED_AT, _GROUPS = 200, 30
"""The most groups of such nodes to look at, and to try."""
_SHAPES = (12, 3)
"""The most types of new nodes to look at, and to try."""
FIXED_LABELS = (
    "kubernetes.io/hostname",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
)
"""Labels that say what a node is. Another label doesn't change that."""


def candidates(
    world: World, pod: PodInfo, blockers: Blockers, only: Sequence[int] | None, combinations: int
) -> Iterator[Change]:
    """Changes that may help: for nodes that are blocked alike, what removes all blockers of one; and new nodes.

    Groups that need few changes come first, then those with many nodes: the best change of every group, then the second
    best ones, and so on. Changes that overwrite labels come last.
    """
    gates = [next(gate.remedies(), None) for gate in gates_of(world, pod)]
    ungate = tuple(remedy for remedy in gates if remedy is not None)
    yield combined(pod, None, ungate)
    yield from (combined(pod, None, (*ungate, remedy)) for remedy in template_remedies(world, pod))
    positions = blockers.nearest(LOOKED_AT) if only is None else list(only)
    if not ungate:
        yield from force_deletions(world, {blockers.nodes.name(position) for position in positions})
    options = [
        (group, sorted(itertools.product(*remedies), key=_size)[:combinations])
        for group in blockers.alike(positions)[:_GROUPS_LOOKED_AT]
        if all(remedies := [[each for each in blocker.remedies() if _for_node(each)] for blocker in group.blockers])
    ]
    options.sort(key=lambda option: (_size(option[1][0]), -len(option[0].positions)))
    found: list[tuple[bool, int, Change]] = []
    for group, chosen_remedies in options[:_GROUPS]:
        node = blockers.nodes.info(group.positions[0])
        for rank, chosen in enumerate(_also_preempting(chosen_remedies)):
            change = combined(pod, node, (*ungate, *chosen))
            labels = changed_labels(node, change)
            if labels.isdisjoint(FIXED_LABELS):
                overwritten = sorted(labels & node.labels.keys())
                nodes = len(group.positions) if any(each.node for each in chosen) else 1
                among = frozenset(map(blockers.nodes.name, group.positions))
                change = replace(change, nodes=nodes, cost=cost_of(change, node, overwritten), among=among)
                found.append((bool(overwritten), rank, change))
    yield from (change for _, _, change in sorted(found, key=lambda each: each[:2]))
    if only is None and not is_daemon(pod):
        yield from _new_nodes(world, pod, blockers, positions, ungate)


def _also_preempting(chosen_remedies: Iterable[Sequence[Remedy]]) -> Iterator[Sequence[Remedy]]:
    """The combinations, and before each that deletes pods the same without that: the pod may preempt them itself."""
    for chosen in chosen_remedies:
        others = [each for each in chosen if not each.delete]
        if others and len(others) < len(chosen):
            yield others
        yield chosen


def changed_labels(node: NodeInfo, change: Change) -> set[str]:
    """The labels of a node that a change adds, sets to another value, or removes."""
    document = next((each for each in change.apply if each["kind"] == "Node"), None)
    if document is None:
        return set()
    return {key for key, _ in (document["metadata"].get("labels") or {}).items() ^ node.labels.items()}


def cost_of(change: Change, node: NodeInfo, overwritten: Sequence[str]) -> str:
    """What a change does to other pods."""
    parts = [evicted(change.delete)] if change.delete else []
    for key in overwritten:
        selecting = [other.key for other in node.pods if key in (other.spec.nodeSelector or {})]
        also = f", which {listed(selecting, 3)} selected" if selecting else ""
        parts.append(f"{key} was {node.labels[key]}{also}")
    return ", ".join(parts)


def evicted(keys: Iterable[str]) -> str:
    """Whose pods are evicted, such as "evicts 2 pods of team-b"."""
    by_namespace = Counter(key.partition("/")[0] for key in keys)
    texts = [f"{plural(number, 'pod')} of {namespace}" for namespace, number in sorted(by_namespace.items())]
    return f"evicts {listed(texts)}"


def _for_node(remedy: Remedy) -> bool:
    """Whether a remedy changes more than a new node."""
    return bool(remedy.pod or remedy.node or remedy.apply or remedy.delete)


def _size(remedies: Sequence[Remedy]) -> int:
    """How much remedies change: the smallest ones are tried first."""
    return len({remedy.text for remedy in remedies} - {""}) + len({key for remedy in remedies for key in remedy.delete})


def combined(pod: PodInfo, node: NodeInfo | None, remedies: Sequence[Remedy]) -> Change:
    """Combine remedies for a pod and a node; no change if a plugin's edit fails."""
    try:
        return _made(pod, node, remedies)
    except Exception:  # noqa: BLE001 - an edit is a plugin's own code
        return Change("")


def _made(pod: PodInfo, node: NodeInfo | None, remedies: Sequence[Remedy]) -> Change:
    changed: list[Mapping[str, Any]] = []
    edits = tuple(each.pod for each in remedies if each.pod is not None)
    if edits:
        document = pod_document(pod)
        for edit in edits:
            edit(document)
        changed.append(document)
    if node is not None and any(each.node for each in remedies):
        document = node_document(node)
        for each in remedies:
            if each.node is not None:
                each.node(document)
        changed.append(document)
    created = {(each["kind"], each["metadata"]["name"]): each for remedy in remedies for each in remedy.apply}
    if edits and _is_created_anew(pod, changed[0]) and any(_is_made_for(pod, each) for each in created.values()):
        return Change("")  # what was made for the pod goes with it
    texts = list(dict.fromkeys(each.text for each in remedies if each.text))
    parts = frozenset(texts)
    gone = tuple(dict.fromkeys(key for each in remedies for key in each.delete))
    if gone and node is not None:
        there = all(any(other.key == key for other in node.pods) for key in gone)
        texts.append(f"delete {_pods(gone)}{f' on {node.name}' if there else ''}")
    return Change(" and ".join(texts), (*created.values(), *changed), gone, parts.union(gone), edits=edits)


_IN_PLACE = {"schedulingGates", "tolerations"}
"""The fields of a pending pod's spec that can be changed as the remedies change them: less of them, or more."""


def _is_created_anew(pod: PodInfo, changed: Mapping[str, Any]) -> bool:
    """Whether the API server refuses a changed spec of a pod, so that the pod is deleted and created."""
    before, after = pod_document(pod)["spec"], changed["spec"]
    return any(before.get(name) != after.get(name) for name in {*before, *after} - _IN_PLACE)


def _is_made_for(pod: PodInfo, document: Mapping[str, Any]) -> bool:
    """Whether an object belongs to a pod, such as a claim that was made from a template."""
    return any(each.get("uid") == pod.uid for each in document["metadata"].get("ownerReferences") or ())


def _new_nodes(
    world: World, pod: PodInfo, blockers: Blockers, positions: Sequence[int], ungate: Sequence[Remedy]
) -> Iterator[Change]:
    """New nodes like others, of the types that need the fewest differences."""
    by_type: dict[object, int] = {}
    devices = devices_by_node(world)
    for position in positions:
        node = blockers.nodes.info(position)
        amounts = tuple(sorted(node.allocatable.items())), devices.get(node.name)
        by_type.setdefault((amounts, node.taints, pool_of(node.labels)), position)
    changes = [
        _new_node(world, pod, blockers.nodes.info(position), ungate)
        for position in list(by_type.values())[: _SHAPES[0]]
    ]
    possible = [change for change in changes if change is not None]
    yield from sorted(possible, key=lambda change: len(change.parts))[: _SHAPES[1]]


def _new_node(world: World, pod: PodInfo, like: NodeInfo, ungate: Sequence[Remedy]) -> Change | None:
    """A new node like another one, different in what blocks the pod there; None if a blocker has no such remedy."""
    node, *others = new_node_documents(world, like)
    name = node["metadata"]["name"]
    with world.what_if():
        for document in (node, *others):
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
    extra = combined(pod, None, [*ungate, *(each for each in chosen if not each.new_node)])
    details = []
    for each in chosen:
        if each.new_node is not None:
            each.new_node(node)
            details.append(each.detail)
    if node["metadata"]["labels"].get(FIXED_LABELS[0]) != name:  # every node has a host name of its own
        return None
    with_details = f" with {' and '.join(details)}" if details else ""
    texts = [f"add a node like {like.name}{with_details}", *([extra.text] if extra.text else [])]
    parts = extra.parts.union({texts[0]}, details)
    return Change(" and ".join(texts), (*extra.apply, node, *others), parts=parts, edits=extra.edits, like=like.name)


def _pods(keys: Sequence[str]) -> str:
    return f"pod {keys[0]}" if len(keys) == 1 else f"the pods {listed(list(keys))}"
