"""What would help a pending pod: concrete changes, each tried in the world and kept if the pod is then placed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bayplan.api.kinds import NODE, POD
from bayplan.api.objects import convert, encode
from bayplan.cluster.affinity_terms import bound_terms
from bayplan.cluster.nodes import NodeInfo
from bayplan.cluster.pod_info import PodInfo
from bayplan.insight.answers import listed
from bayplan.insight.questions.blockers import (
    Blocker,
    Blockers,
    port_conflicts,
    requirement_text,
    shortages,
    taint_text,
    unmet_labels,
    untolerated,
)
from bayplan.insight.questions.documents import (
    amount_text,
    copy_of_node,
    is_daemon,
    node_document,
    pod_document,
    reduce_requests,
)
from bayplan.simulation.carry_out import Fate, Simulation
from bayplan.simulation.evictions import evict
from bayplan.simulation.world import World

UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"
_NODES_TRIED = 3
_COMBINATIONS = 2
"""So many combinations of fixes are tried for a node with several blockers."""
_NEAREST = 200
"""Among so many nodes, those with different blockers and shapes are tried."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the cluster or the pod.

    `text`: for people. `apply`: the changed and new objects, as whole documents. `delete`: pods to delete, by
    `namespace/name`.
    """

    text: str
    apply: tuple[Mapping[str, Any], ...] = ()
    delete: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Help:
    """A change after which the pod is placed, on `node`."""

    change: Change
    node: str


def what_would_help(
    world: World, pod: PodInfo, blockers: Blockers, limit: int, only: Sequence[int] | None = None
) -> list[Help]:
    """Try changes in the world, and return those that let the pod be placed without preemption, up to `limit`.

    `only`: the positions of the nodes to consider; by default, the nearest ones.
    """
    helps: list[Help] = []
    tried: set[str] = set()
    for change in _candidates(pod, blockers, only):
        if len(helps) == limit:
            break
        if change.text not in tried:
            tried.add(change.text)
            node = node_after(world, pod, change)
            if node is not None:
                helps.append(Help(change, node))
    return helps


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
            else:
                world.change(NODE, document["metadata"]["name"], convert(NODE.type, document))
        pending = world.pending.get(pod.key)
        result = None if pending is None else Simulation(world).decide(pending).get(pod.key)
        return result.node if result is not None and result.fate is Fate.PLACED else None


def _candidates(pod: PodInfo, blockers: Blockers, only: Sequence[int] | None) -> Iterator[Change]:
    """Changes that may help: for the nearest nodes of each kind, what removes all of their blockers."""
    ungate: tuple[_Fix, ...] = ()
    if pod.scheduling_gates:
        names = ", ".join(pod.scheduling_gates)
        ungate = (_Fix(f"remove the scheduling gate {names}", pod=lambda spec: spec.pop("schedulingGates")),)
        yield _change(pod, None, ungate)
    by_kind: dict[tuple[str, ...], int] = {}
    by_shape: dict[object, int] = {}
    for position in blockers.nearest(_NEAREST) if only is None else only:
        node = blockers.nodes.info(position)
        by_kind.setdefault(tuple(each.plugin for each in blockers.of(position)), position)
        by_shape.setdefault(tuple(sorted(node.allocatable.items())), position)
    for position in list(by_kind.values())[:_NODES_TRIED]:
        node = blockers.nodes.info(position)
        options = [list(_fixes(pod, node, each)) for each in blockers.of(position)]
        for fixes in sorted(itertools.product(*options), key=_size)[:_COMBINATIONS]:
            yield _change(pod, node, (*ungate, *fixes))
    for position in list(by_shape.values())[:_NODES_TRIED] if only is None else ():
        yield _new_node(pod, blockers.nodes.info(position), blockers.of(position), ungate)


@dataclass(frozen=True, slots=True)
class _Fix:
    """Removes one blocker: `pod` changes the pod's spec, `node` the node's document, `delete` are keys of its pods.

    `text` describes the first two. `detail`: how `node` makes a new node differ from one that it is like.
    """

    text: str = ""
    pod: Callable[[dict[str, Any]], object] | None = None
    node: Callable[[dict[str, Any]], object] | None = None
    delete: tuple[str, ...] = ()
    detail: str = ""


def _size(fixes: Sequence[_Fix]) -> int:
    """How much fixes change: the smallest ones are tried first."""
    return len({fix.text for fix in fixes} - {""}) + len({key for fix in fixes for key in fix.delete})


def _change(pod: PodInfo, node: NodeInfo | None, fixes: Sequence[_Fix]) -> Change:
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
    texts = list(dict.fromkeys(fix.text for fix in fixes if fix.text))
    gone = tuple(dict.fromkeys(key for fix in fixes for key in fix.delete))
    if gone and node is not None:
        texts.append(f"delete {_pods(gone)} on {node.name}")
    return Change(" and ".join(texts), tuple(changed), gone)


def _new_node(pod: PodInfo, like: NodeInfo, found: Sequence[Blocker], ungate: Sequence[_Fix]) -> Change:
    """A new node like another one: with the labels that the pod wants, and large enough for it."""
    by_label = [each for each in found if each.plugin in {"TaintToleration", "NodeAffinity"}]
    firsts = [next(_fixes(pod, like, each), None) for each in by_label]
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
    return Change(" and ".join(texts), (*extra.apply, node, *daemons))


def _with_allocatable(status: Mapping[str, Any], resource: str, text: str) -> dict[str, Any]:
    amounts = {name: {**(status.get(name) or {}), resource: text} for name in ("allocatable", "capacity")}
    return {**status, **amounts}


def _fixes(pod: PodInfo, node: NodeInfo, blocker: Blocker) -> Iterator[_Fix]:
    """Ways to remove one blocker of a node, the gentlest first."""
    match blocker.plugin:
        case "NodeUnschedulable":
            yield _Fix(f"uncordon {node.name}", node=_uncordon)
        case "TaintToleration":
            taints = untolerated(pod, node)
            if any(key == UNSCHEDULABLE_TAINT for key, _, _ in taints):
                yield _Fix(f"uncordon {node.name}", node=_uncordon)
                taints = [taint for taint in taints if taint[0] != UNSCHEDULABLE_TAINT]
            if taints:
                texts = ", ".join(map(taint_text, taints))
                yield _Fix(f"add a toleration of {texts} to the pod", pod=lambda spec: _tolerate(spec, taints))
                yield _Fix(f"remove the taint {texts} from {node.name}", node=lambda doc: _untaint(doc, taints))
        case "NodeAffinity":
            unmet = unmet_labels(pod, node)
            labels = {each.key: min(each.values) for each in unmet if each.operator in {"in", "=", "=="}}
            labels |= {each.key: "true" for each in unmet if each.operator == "exists"}
            texts = ", ".join(map(requirement_text, unmet))
            if unmet and len(labels) == len(unmet):
                pairs = ", ".join(f"{key}={value}" for key, value in labels.items())
                yield _Fix(f"label {node.name} with {pairs}", node=lambda doc: _label(doc, labels), detail=pairs)
            selector = pod.spec.nodeSelector or {}
            if unmet and all(selector.get(each.key) in each.values for each in unmet):
                yield _Fix(
                    f"remove {texts} from the pod's nodeSelector", pod=lambda spec: _unselect(spec, list(labels))
                )
        case "NodeResourcesFit":
            yield from _room(pod, node)
        case "NodePorts":
            users = tuple({other.key: None for _, other in port_conflicts(pod, node)})
            yield _Fix(delete=users)
        case "InterPodAffinity":
            enemies = _enemies(pod, node)
            if enemies:
                yield _Fix(delete=enemies)
        case _:
            return


def _room(pod: PodInfo, node: NodeInfo) -> Iterator[_Fix]:
    """A smaller request, or fewer pods on the node."""
    lacking = shortages(pod, node)
    smaller = {name: pod.requested[name] - amount for name, amount in lacking.items()}
    possible = bool(smaller) and min(smaller.values()) > 0
    if possible and reduce_requests(pod_document(pod)["spec"], lacking):
        texts = " and ".join(f"{amount_text(name, amount)} {name}" for name, amount in smaller.items())
        yield _Fix(f"let the pod request only {texts}", pod=lambda spec: reduce_requests(spec, lacking))
    victims = _victims(node, lacking)
    if victims:
        yield _Fix(delete=tuple(victims))


def _victims(node: NodeInfo, lacking: Mapping[str, int]) -> list[str]:
    """The keys of pods whose deletion frees what is lacking: of low priority first, and few. Empty if none would do."""
    chosen: list[str] = []
    left = dict(lacking) | {"pods": max(node.pod_count + 1 - node.allowed_pods, 0)}

    def frees(other: PodInfo) -> dict[str, int]:
        return {name: min(left[name], {"pods": 1, **other.requested}.get(name, 0)) for name in left}

    candidates = [other for other in node.pods if not other.terminating and not is_daemon(other)]
    while any(left.values()):
        useful = [other for other in candidates if any(frees(other).values())]
        if not useful:
            return []
        best = min(useful, key=lambda other: (other.priority, frees(other) != left, sum(other.requested.values())))
        candidates.remove(best)
        left = {name: amount - frees(best)[name] for name, amount in left.items()}
        chosen.append(best.key)
    return chosen


def _enemies(pod: PodInfo, node: NodeInfo) -> tuple[str, ...]:
    """The pods on the node that anti-affinity keeps apart from the pod, on either side. Namespaces by name only."""
    ours = bound_terms(pod).required_anti
    return tuple(
        other.key
        for other in node.pods
        if any(term.matches(other, {}) for term in ours)
        or any(term.matches(pod, {}) for term in bound_terms(other).required_anti)
    )


def _pods(keys: Sequence[str]) -> str:
    return f"pod {keys[0]}" if len(keys) == 1 else f"the pods {listed(list(keys))}"


def _uncordon(node: dict[str, Any]) -> None:
    node["spec"].pop("unschedulable", None)
    _untaint(node, [(UNSCHEDULABLE_TAINT, "", "NoSchedule")])


def _untaint(node: dict[str, Any], taints: Sequence[tuple[str, str, str]]) -> None:
    gone = {(key, effect) for key, _, effect in taints}
    taints = node["spec"].get("taints") or ()
    node["spec"]["taints"] = [each for each in taints if (each["key"], each["effect"]) not in gone]


def _label(node: dict[str, Any], labels: Mapping[str, str]) -> None:
    node["metadata"]["labels"] = {**(node["metadata"].get("labels") or {}), **labels}


def _tolerate(spec: dict[str, Any], taints: Sequence[tuple[str, str, str]]) -> None:
    added = [
        {"key": key, "effect": effect, **({"operator": "Equal", "value": value} if value else {"operator": "Exists"})}
        for key, value, effect in taints
    ]
    spec["tolerations"] = [*(spec.get("tolerations") or ()), *added]


def _unselect(spec: dict[str, Any], keys: Collection[str]) -> None:
    spec["nodeSelector"] = {key: value for key, value in spec["nodeSelector"].items() if key not in keys}
