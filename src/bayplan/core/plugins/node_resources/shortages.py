"""What a node lacks for a pod, and what would make room: a smaller request, fewer pods, or a larger node.

It is told after a rejection, and affects no decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Any

import msgspec
import numpy as np

from bayplan.core.api import quantity
from bayplan.core.api.quantity import InvalidQuantity
from bayplan.core.api.requests import CPU, amount_text, is_written_in_binary
from bayplan.core.cluster.nodes import NodeInfo
from bayplan.core.cluster.nominations import Nominations
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.near_names import near_name
from bayplan.core.framework.remedies import Details, Remedy, delete_pods, may_make_room, request_resource
from bayplan.core.plugins.node_resources.held import held_text, nominated_to

TOO_MANY_PODS = "Too many pods"
_LEAST_OF_A_REQUEST = 2
"""A request is cut to no less than this part of it, a half: a pod that needs 6 cpu doesn't run with 350m."""


def details(pod: PodInfo, request: Mapping[str, int], node: NodeInfo, nominations: Nominations) -> Details:
    """Return what a node lacks. `request`: what the pod needs, in the units of `PodInfo.requested`."""
    nominated = nominated_to(node, pod, nominations)
    kept = {name: sum(each.requested.get(name, 0) for each in nominated) for name in request}
    free = {name: node.allocatable_of(name) - node.requested_of(name) - kept[name] for name in request}
    lacking = {name: amount - free[name] for name, amount in request.items() if amount > free[name]}
    parts, everywhere = list[str](), list[str]()
    pod_count = node.pod_count + len(nominated)
    if pod_count >= node.allowed_pods:
        few = ", ".join(each.key for each in nominated[:3])
        which = f", {len(nominated):,} of which {'is' if len(nominated) == 1 else 'are'} nominated ({few})"
        parts.append(f"{TOO_MANY_PODS}: {pod_count} of {node.allowed_pods}{which if nominated else ''}")
    misnamed: dict[str, str] = {}
    for resource, amount in lacking.items():
        allocatable = node.allocatable_of(resource)
        if request[resource] > allocatable:
            need, has = amount_text(resource, request[resource]), amount_text(resource, allocatable)
            near, count = (None, 0) if allocatable else _near_resource(resource, node)
            instead = ""
            if near is not None:
                misnamed[resource] = near
                instead = f" (did you mean {near}, which {count:,} {'node has' if count == 1 else 'nodes have'}?)"
            parts.append(f"Insufficient {resource}: the pod requests {need}, the whole node has {has}{instead}")
            everywhere += _too_large(resource, request[resource], node)
        else:
            held = held_text(resource, node, nominated, pod)
            parts.append(f"Insufficient {resource}: lacks {amount_text(resource, amount)}{held}")
    kind = tuple(lacking), pod_count >= node.allowed_pods
    remedies = _remedies(pod, request, node, lacking, pod_count)
    renamed = (request_resource(old, new) for old, new in misnamed.items() if len(lacking) == 1)
    return Details("; ".join(parts), chain(renamed, remedies), kind, everywhere="; ".join(everywhere))


def _too_large(resource: str, amount: int, node: NodeInfo) -> Iterator[str]:
    """Yield that no node is large enough, if that is so."""
    nodes = node.among
    most = int(nodes.allocatable(resource)[nodes.live].max(initial=0))
    if amount > most:
        need = amount_text(resource, amount)
        has = f"the largest has {amount_text(resource, most)}" if most else "no node has any"
        yield f"the pod requests {need} {resource}, which no node has: {has}"


def _near_resource(resource: str, node: NodeInfo) -> tuple[str | None, int]:
    """A resource with a similar name, and how many nodes have it, if no node has this one."""
    nodes = node.among

    def number(name: str) -> int:
        return int(np.count_nonzero((nodes.allocatable(name) > 0) & nodes.live))

    if number(resource):
        return None, 0
    near = near_name(resource, (name for name in nodes.table.resources if number(name)))
    return near, number(near) if near is not None else 0


def _remedies(
    pod: PodInfo, request: Mapping[str, int], node: NodeInfo, lacking: Mapping[str, int], pod_count: int
) -> Iterator[Remedy]:
    larger = {name: f"{amount_text(name, node.requested_of(name) + request[name])}" for name in lacking}
    smaller = {name: request[name] - amount for name, amount in lacking.items()}
    useful = all(amount * _LEAST_OF_A_REQUEST >= request[name] for name, amount in smaller.items())
    if larger:
        yield Remedy(
            new_node=partial(_enlarge, larger), detail=" and ".join(f"{text} {name}" for name, text in larger.items())
        )
    if smaller and useful and reduce_requests(msgspec.json.decode(pod.raw), lacking):
        texts = " and ".join(f"{amount_text(name, amount)} {name}" for name, amount in smaller.items())
        yield Remedy(f"let the pod request only {texts}", pod=lambda document: reduce_requests(document, lacking))
    yield from delete_pods(pod, _victims(pod, node, lacking, pod_count))


def _victims(pod: PodInfo, node: NodeInfo, lacking: Mapping[str, int], pod_count: int) -> list[PodInfo]:
    """The pods whose deletion frees what is lacking: those of the lowest priority, and few of them.

    Empty if none would do.
    """
    needed = dict(lacking) | {"pods": max(pod_count + 1 - node.allowed_pods, 0)}
    candidates = [other for other in node.pods if not other.terminating]
    if any(_left(needed, candidates).values()):
        return []  # before the pods' owners are read, which takes longest
    candidates = [other for other in candidates if may_make_room(pod, other)]
    if any(_left(needed, candidates).values()):
        return []
    chosen: list[PodInfo] = []
    left = dict(needed)
    while any(left.values()):
        useful = [each for each in candidates if any(amount and _frees(each, name) for name, amount in left.items())]
        best = min(useful, key=lambda other: (other.priority, any(_left(left, [other]).values()), _importance(other)))
        candidates.remove(best)
        chosen.append(best)
        left = _left(left, [best])
    for victim in sorted(chosen, key=_importance, reverse=True):
        others = [other for other in chosen if other is not victim]
        if not any(_left(needed, others).values()):
            chosen = others
    return chosen


def _left(needed: Mapping[str, int], gone: Iterable[PodInfo]) -> dict[str, int]:
    """What is still needed without some pods."""
    left = dict(needed)
    for other in gone:
        for name, amount in left.items():
            if amount:
                left[name] = max(amount - _frees(other, name), 0)
    return left


def _frees(pod: PodInfo, resource: str) -> int:
    return pod.requested.get(resource, 1 if resource == "pods" else 0)


def _importance(pod: PodInfo) -> tuple[int, int, str]:
    return pod.priority, sum(pod.requested.values()), pod.key


def _enlarge(amounts: Mapping[str, str], node: dict[str, Any]) -> None:
    status = node["status"]
    node["status"] = {
        **status,
        **{each: {**(status.get(each) or {}), **amounts} for each in ("allocatable", "capacity")},
    }


def reduce_requests(pod: dict[str, Any], lacking: Mapping[str, int]) -> bool:
    """Lower a pod's requests by these amounts, in the units of `PodInfo.requested`.

    Each amount is taken from the container that requests most of the resource, with its limit where both must be equal.
    Returns whether every request stays above zero; if not, the manifest is of no use.
    """
    spec = pod["spec"]
    containers = [spec] if (spec.get("resources") or {}).get("requests") else spec.get("containers") or []
    for resource, amount in lacking.items():
        nanos = amount * (10**6 if resource == CPU else quantity.NANO)
        largest = max(containers, key=lambda each: _request(each, resource), default=None)
        left = -1 if largest is None else _request(largest, resource) - nanos
        if largest is None or left <= 0:
            return False
        text = quantity.format_quantity(left, binary=is_written_in_binary(resource))
        resources = largest["resources"]
        resources["requests"] = {**resources["requests"], resource: text}
        if ("/" in resource or resource.startswith("hugepages-")) and resource in (resources.get("limits") or {}):
            resources["limits"] = {**resources["limits"], resource: text}
    return True


def _request(container: Mapping[str, Any], resource: str) -> int:
    text = ((container.get("resources") or {}).get("requests") or {}).get(resource)
    try:
        return quantity.parse(text) if text is not None else 0
    except InvalidQuantity:
        return 0
