"""Ways to remove one blocker of a node for a pod. Whether they are enough is tried afterwards (see `changes`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from bayplan.api.tolerations import NO_SCHEDULE, UNSCHEDULABLE_TAINT
from bayplan.cluster.affinity_terms import bound_terms
from bayplan.cluster.nodes import NodeInfo
from bayplan.cluster.pod_info import PodInfo
from bayplan.insight.questions.blockers import (
    Blocker,
    port_conflicts,
    requirement_text,
    shortages,
    taint_text,
    unmet_labels,
    untolerated,
)
from bayplan.insight.questions.claim_fixes import claim_objects
from bayplan.insight.questions.documents import amount_text, is_daemon, pod_document, reduce_requests
from bayplan.simulation.world import World

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_MOST_DELETED = 20
"""Changes that delete more pods than that because of anti-affinity are not considered."""


@dataclass(frozen=True, slots=True)
class Fix:
    """Removes one blocker: `pod` changes the pod's spec, `node` the node's document. `create` are new objects, and
    `delete` the keys of pods, none of which has a higher priority than the pending pod.

    `text` describes all but the last. `detail`: how `node` makes a new node differ from one that it is like.
    """

    text: str = ""
    pod: Callable[[dict[str, Any]], object] | None = None
    node: Callable[[dict[str, Any]], object] | None = None
    create: tuple[Mapping[str, Any], ...] = ()
    delete: tuple[str, ...] = ()
    detail: str = ""


def fixes_of(world: World, pod: PodInfo, node: NodeInfo, blocker: Blocker) -> Iterator[Fix]:
    """Yield ways to remove one blocker of a node, the gentlest first."""
    match blocker.plugin:
        case "NodeUnschedulable":
            yield Fix(f"uncordon {node.name}", node=_uncordon)
        case "TaintToleration":
            taints = untolerated(pod, node)
            if any(key == UNSCHEDULABLE_TAINT for key, _, _ in taints):
                yield Fix(f"uncordon {node.name}", node=_uncordon)
                taints = [taint for taint in taints if taint[0] != UNSCHEDULABLE_TAINT]
            if taints:
                texts = ", ".join(map(taint_text, taints))
                yield Fix(f"add a toleration of {texts} to the pod", pod=lambda spec: _tolerate(spec, taints))
                yield Fix(f"remove the taint {texts} from {node.name}", node=lambda doc: _untaint(doc, taints))
        case "NodeAffinity":
            unmet = unmet_labels(pod, node)
            labels = {each.key: min(each.values) for each in unmet if each.operator in {"in", "=", "=="}}
            labels |= {each.key: "true" for each in unmet if each.operator == "exists"}
            texts = ", ".join(map(requirement_text, unmet))
            if unmet and len(labels) == len(unmet):
                pairs = ", ".join(f"{key}={value}" for key, value in labels.items())
                yield Fix(f"label {node.name} with {pairs}", node=lambda doc: _label(doc, labels), detail=pairs)
            selector = pod.spec.nodeSelector or {}
            if unmet and all(selector.get(each.key) in each.values for each in unmet):
                yield Fix(f"remove {texts} from the pod's nodeSelector", pod=lambda spec: _unselect(spec, list(labels)))
        case "NodeResourcesFit":
            yield from _room(pod, node)
        case "NodePorts":
            yield from _deletion(pod, (other for _, other in port_conflicts(pod, node)))
        case "InterPodAffinity":
            yield from _affinity(world, pod, node, blocker.reasons)
        case "PodTopologySpread":
            yield from _spreading(pod)
        case "VolumeBinding" | "VolumeZone" | "VolumeRestrictions" | "NodeVolumeLimits":
            text, created = claim_objects(world, pod)
            if created:
                yield Fix(text, create=created)
        case "DynamicResources":
            users = sorted((other for other in node.pods if other.spec.resourceClaims), key=_importance)
            for number in range(1, len(users) + 1):
                yield from _deletion(pod, users[:number])
        case _:
            return


def _room(pod: PodInfo, node: NodeInfo) -> Iterator[Fix]:
    """A smaller request, or fewer pods on the node."""
    lacking = shortages(pod, node)
    smaller = {name: pod.requested[name] - amount for name, amount in lacking.items()}
    possible = bool(smaller) and min(smaller.values()) > 0
    if possible and reduce_requests(pod_document(pod)["spec"], lacking):
        texts = " and ".join(f"{amount_text(name, amount)} {name}" for name, amount in smaller.items())
        yield Fix(f"let the pod request only {texts}", pod=lambda spec: reduce_requests(spec, lacking))
    yield from _deletion(pod, _victims(pod, node, lacking))


def _victims(pod: PodInfo, node: NodeInfo, lacking: Mapping[str, int]) -> list[PodInfo]:
    """The pods whose deletion frees what is lacking: those of the lowest priority, and few of them.

    Empty if none would do.
    """
    chosen: list[PodInfo] = []
    needed = dict(lacking) | {"pods": max(node.pod_count + 1 - node.allowed_pods, 0)}

    def left(gone: Iterable[PodInfo]) -> dict[str, int]:
        freed = [{"pods": 1, **other.requested} for other in gone]
        return {name: max(amount - sum(each.get(name, 0) for each in freed), 0) for name, amount in needed.items()}

    candidates = [other for other in node.pods if not other.terminating and _may_go(pod, other)]
    while any(left(chosen).values()):
        before = left(chosen)
        useful = [other for other in candidates if left([*chosen, other]) != before]
        if not useful:
            return []
        best = min(useful, key=lambda other: (other.priority, any(left([*chosen, other]).values()), _importance(other)))
        candidates.remove(best)
        chosen.append(best)
    for victim in sorted(chosen, key=_importance, reverse=True):
        others = [other for other in chosen if other is not victim]
        if not any(left(others).values()):
            chosen = others
    return chosen


def _may_go(pod: PodInfo, other: PodInfo) -> bool:
    return other.priority <= pod.priority and not is_daemon(other)


def _importance(pod: PodInfo) -> tuple[int, int, str]:
    return pod.priority, sum(pod.requested.values()), pod.key


def _deletion(pod: PodInfo, others: Iterable[PodInfo]) -> Iterator[Fix]:
    """The deletion of all of these pods, if there are any and none is more important than the pending one."""
    gone = {other.key: other for other in others}
    if gone and all(_may_go(pod, other) for other in gone.values()):
        yield Fix(delete=tuple(gone))


def _affinity(world: World, pod: PodInfo, node: NodeInfo, reasons: Collection[str]) -> Iterator[Fix]:
    """Make the pod's own terms preferences, or delete the pods that anti-affinity keeps it apart from."""
    own = {name for name in ("podAffinity", "podAntiAffinity") for reason in reasons if _RULES[name] in reason}
    if "podAffinity" not in own:
        enemies = list(_enemies(world, pod, node))
        if len(enemies) <= _MOST_DELETED:
            yield from _deletion(pod, enemies)
    if own:
        names = " and ".join(_RULES[name] for name in sorted(own))
        yield Fix(f"make the required {names} of the pod preferred", pod=lambda spec: _prefer(spec, own))


_RULES = {"podAffinity": "pod affinity", "podAntiAffinity": "pod anti-affinity"}


def _enemies(world: World, pod: PodInfo, node: NodeInfo) -> Iterator[PodInfo]:
    """The pods in the node's domains that anti-affinity keeps apart from the pod. Namespaces are known by name only."""
    ours = bound_terms(pod).required_anti
    nodes = world.state.nodes
    for position in np.flatnonzero(nodes.live).tolist():
        labels = nodes.info(position).labels
        shared = {key for key, value in node.labels.items() if labels.get(key) == value}
        for other in nodes.pods(position):
            terms = [(term, other) for term in ours] + [(term, pod) for term in bound_terms(other).required_anti]
            if any(term.topology_key in shared and term.matches(matched, {}) for term, matched in terms):
                yield other


def _prefer(spec: dict[str, Any], names: Collection[str]) -> None:
    affinity = spec["affinity"] = dict(spec["affinity"])
    for name in names:
        rules = dict(affinity[name])
        terms = [{"weight": 100, "podAffinityTerm": term} for term in rules.pop(_REQUIRED, None) or ()]
        affinity[name] = {**rules, _PREFERRED: [*(rules.get(_PREFERRED) or ()), *terms]}


def _spreading(pod: PodInfo) -> Iterator[Fix]:
    """Relax one of the pod's constraints, or all of them."""
    hard = [
        number
        for number, each in enumerate(pod.spec.topologySpreadConstraints or ())
        if each.whenUnsatisfiable == "DoNotSchedule"
    ]
    for numbers in dict.fromkeys([*((number,) for number in hard), tuple(hard)]):
        constraints = [(pod.spec.topologySpreadConstraints or ())[number] for number in numbers]
        keys = " and ".join(each.topologyKey for each in constraints)
        if constraints:
            yield Fix(
                f"set whenUnsatisfiable to ScheduleAnyway in the pod's spread over {keys}",
                pod=partial(_relax, numbers),
            )


def _relax(numbers: Sequence[int], spec: dict[str, Any]) -> None:
    spec["topologySpreadConstraints"] = [
        {**each, "whenUnsatisfiable": "ScheduleAnyway"} if number in numbers else each
        for number, each in enumerate(spec["topologySpreadConstraints"])
    ]


def remove_gates(pod: PodInfo) -> Iterator[Fix]:
    """Yield the removal of the pod's scheduling gates, if it has any."""
    if pod.scheduling_gates:
        names = ", ".join(pod.scheduling_gates)
        yield Fix(f"remove the scheduling gate {names}", pod=lambda spec: spec.pop("schedulingGates"))


def _uncordon(node: dict[str, Any]) -> None:
    node["spec"].pop("unschedulable", None)
    _untaint(node, [(UNSCHEDULABLE_TAINT, "", NO_SCHEDULE)])


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
