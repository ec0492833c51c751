"""Recommendations, put into the spec of a pod: new requests, and what becomes of the limits.

A limit that would be less than its request is raised to it, because the API server would refuse the pod.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from bayplan.answers.insight.recommendations.recommendation import RESOURCES, Recommendation, text_of
from bayplan.core.api import quantity
from bayplan.core.api.objects import Document
from bayplan.core.api.requests import CPU

_MEBIBYTE = 2**20 * quantity.NANO
_CONTAINERS = ("initContainers", "containers")


@dataclass(frozen=True, slots=True)
class WorkloadRequests:
    """What the pods of a workload request instead: as recommended by container, then times `factor`."""

    recommendations: Mapping[str, Recommendation] = field(default_factory=dict)
    factor: float = 1.0

    def applied(self, spec: Document) -> Document:
        """Return the spec of a pod with these requests. Containers that it hasn't are passed over."""
        changed = copy.deepcopy(dict(spec))
        for container in containers_of(changed):
            recommendation = self.recommendations.get(container.get("name", ""))
            if recommendation is not None:
                container["resources"] = _recommended(container.get("resources") or {}, recommendation)
        if self.factor != 1:
            for holder in (*containers_of(changed), changed):
                if holder.get("resources"):
                    holder["resources"] = _scaled(holder["resources"], self.factor)
        return changed

    def unknown(self, spec: Document) -> Iterator[str]:
        """Yield why recommendations are for no container of a pod's spec."""
        known = [str(each.get("name")) for each in containers_of(spec)]
        for name, found in self.recommendations.items():
            if name not in known:
                yield f"{found.target.where}: there is no container {name}; there is {', '.join(known)}"


def containers_of(spec: Document) -> list[Document]:
    """Return the containers of a pod's spec, also those that run before others."""
    return [each for name in _CONTAINERS for each in spec.get(name) or ()]


def changes_text(before: Document, after: Document) -> str:
    """Return how the requests and limits of a pod's spec change, for people."""
    parts = []
    for old, new in zip(containers_of(before), containers_of(after), strict=True):
        for what in ("requests", "limits"):
            pair = [(each.get("resources") or {}).get(what) or {} for each in (old, new)]
            names = [name for name in RESOURCES if pair[0].get(name) != pair[1].get(name)]
            kind = "" if what == "requests" else " limit"
            parts += [
                f"{new['name']} {name}{kind} {pair[0].get(name, '-')} -> {pair[1].get(name, '-')}" for name in names
            ]
    return ", ".join(parts)


def by_workload(found: Iterable[Recommendation]) -> dict[tuple[str, str, str], dict[str, Recommendation]]:
    """Return recommendations by namespace, kind and name of their workload, and then by container."""
    groups: dict[tuple[str, str, str], dict[str, Recommendation]] = {}
    for each in found:
        target = each.target
        groups.setdefault((target.namespace, target.kind, target.name), {})[each.container] = each
    return groups


def _recommended(resources: Document, found: Recommendation) -> Document:
    old, limits = _amounts(resources), dict(resources.get("limits") or {})
    for resource, limit in found.limits.items():
        if limit is not None:
            limits[resource] = text_of(resource, limit)
        else:
            limits.pop(resource, None)
    for resource, amount in found.requests.items():
        kept = resource not in found.limits and resource in limits
        if kept and found.scales_limits and old.get(resource):
            limit = quantity.parse(limits[resource]) * amount // old[resource]
            limits[resource] = text_of(resource, limit)
    texts = {resource: text_of(resource, amount) for resource, amount in found.requests.items()}
    return _with(resources, texts, limits)


def _scaled(resources: Document, factor: float) -> Document:
    """Resources with requests times a factor: cpu in whole thousandths, memory in whole MiB, both rounded up."""
    share, texts = round(factor * 10**6), dict[str, str]()
    for name, amount in _amounts(resources).items():
        step = 10**6 if name == CPU else _MEBIBYTE if amount >= _MEBIBYTE else quantity.NANO
        texts[name] = text_of(name, -(-amount * share // (10**6 * step)) * step)
    return _with(resources, texts, dict(resources.get("limits") or {}))


def _with(resources: Document, requests: Mapping[str, str], limits: Document) -> Document:
    """Resources with other requests. Limits that are too small are raised."""
    for resource, amount in requests.items():
        if resource in limits and quantity.parse(limits[resource]) < quantity.parse(amount):
            limits[resource] = amount
    changed = {**resources, "requests": {**(resources.get("requests") or {}), **requests}}
    return {**changed, "limits": limits} if limits else {name: changed[name] for name in changed if name != "limits"}


def _amounts(resources: Document) -> dict[str, int]:
    """What a container requests; its limit, if it has no request."""
    requests, limits = (resources.get(name) or {} for name in ("requests", "limits"))
    found = {name: requests.get(name, limits.get(name)) for name in RESOURCES}
    return {name: quantity.parse(amount) for name, amount in found.items() if amount is not None}
