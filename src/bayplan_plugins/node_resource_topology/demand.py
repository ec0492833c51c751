"""What a pod wants of the zones of a node: amounts of its containers, and of the pod as a whole.

Mirrors util.GetPodEffectiveRequest, numaresources.go and resourcerequests/exclusive.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec

from bayplan.plugin import PodInfo
from bayplan_plugins.node_resource_topology.topologies import Amount, Amounts, Topology, counted

GUARANTEED, BEST_EFFORT = "Guaranteed", "BestEffort"
_HOST_LEVEL = {"ephemeral-storage", "storage"}
_KEY = __name__
Listed = tuple[tuple[str, str], ...]
"""Resources and their amounts, as a spec has them."""


@dataclass(frozen=True, slots=True)
class ContainerDemand:
    """What one container requests. `kind`: "init", "sidecar" or "app"."""

    name: str
    kind: str
    amounts: Amounts


class HeldByContainer(msgspec.Struct, frozen=True):
    """What a container of a pod holds of a zone for itself. `kind`: as of ContainerDemand."""

    uid: str
    namespace: str
    pod: str
    container: str
    kind: str
    amounts: dict[str, Amount]


@dataclass(frozen=True, slots=True)
class ZoneDemand:
    """What a pod requests. `containers`: init containers and sidecars first, as the kubelet starts them.

    `whole`: the request of the pod, as upstream counts it: with sidecars like other init containers, and the overhead.
    """

    guaranteed: bool
    devices: bool
    """Whether a container requests resources that aren't Kubernetes' own."""
    checked: bool
    """Whether the kubelet aligns the pod at all."""
    containers: tuple[ContainerDemand, ...]
    whole: Amounts
    signature: Hashable
    """All of it as one value."""

    def takes(self, resource: str) -> bool:
        """Return whether a container takes what it requests of a resource from its zone, and doesn't share it."""
        return self.guaranteed or not is_affine(resource)

    def pinned(self, resources: Collection[str]) -> Iterable[tuple[ContainerDemand, dict[str, int]]]:
        """Yield the containers that hold resources of a zone for themselves while the pod runs, with these resources.

        `resources`: those that the zones list.
        """
        for wanted in self.containers:
            if wanted.kind != "init":
                amounts = {
                    name: amount
                    for name, amount in wanted.amounts.items()
                    if _exclusive(name, amount, resources, guaranteed=self.guaranteed)
                }
                if amounts:
                    yield wanted, amounts

    def exclusive(self, resources: Collection[str]) -> bool:
        """Return whether any container holds resources of a zone for itself."""
        return any(True for _ in self.pinned(resources))


def held_by(pods: Iterable[PodInfo], resources: Collection[str]) -> tuple[HeldByContainer, ...]:
    """Return what the containers of pods hold of zones that list these resources."""
    return tuple(
        HeldByContainer(pod.uid, pod.namespace, pod.name, wanted.name, wanted.kind, amounts)
        for pod in pods
        for wanted, amounts in demand_of(pod).pinned(resources)
    )


def demand_of(pod: PodInfo) -> ZoneDemand:
    """Return what a pod requests; computed once."""
    found: ZoneDemand | None = pod.cache.get(_KEY)
    if found is None:
        found = pod.cache[_KEY] = _read(pod)
    return found


def is_native(resource: str) -> bool:
    """Return whether a resource is one of Kubernetes' own."""
    return "/" not in resource or "kubernetes.io/" in resource


def is_affine(resource: str) -> bool:
    """Return whether a resource always belongs to a zone, and is shared there by pods that aren't guaranteed."""
    return resource in {"cpu", "memory"} or resource.startswith("hugepages-")


def is_host_level(resource: str) -> bool:
    """Return whether a resource may belong to no zone."""
    return resource in _HOST_LEVEL or not is_native(resource)


def lacking(
    topology: Topology, left: Callable[[str], int | None], request: Amounts, demand: ZoneDemand
) -> dict[str, int | None]:
    """Return the resources that a zone has too little of for a request, with what it has; None of what it doesn't list.

    `left`: what the zone has of a resource.
    """
    found: dict[str, int | None] = {}
    for resource, amount in request.items():
        has = left(resource)
        if amount <= 0 or (has is not None and (has >= amount or not demand.takes(resource))):
            continue
        if has is not None or not is_host_level(resource) or resource in topology.resources:
            found[resource] = has
    return found


def _read(pod: PodInfo) -> ZoneDemand:
    spec = pod.spec
    containers = [
        *[
            (each.name, "sidecar" if each.restartPolicy == "Always" else "init", _requests(each))
            for each in spec.initContainers or ()
        ],
        *[(each.name, "app", _requests(each)) for each in spec.containers or ()],
    ]
    return _demand(tuple(containers), tuple((spec.overhead or {}).items()), pod.qos_class)


@lru_cache(maxsize=4096)
def _demand(named: tuple[tuple[str, str, Listed], ...], overhead: Listed, quality: str) -> ZoneDemand:
    """What equal pods request: there are many of them."""
    containers = tuple(ContainerDemand(name, kind, counted(dict(requests))) for name, kind, requests in named)
    first: Counter[str] = Counter()
    for wanted in containers:
        if wanted.kind != "app":
            first |= Counter({**dict.fromkeys(wanted.amounts, 0), **wanted.amounts})
    whole: dict[str, int] = {}
    for wanted in containers:
        for name, amount in wanted.amounts.items():
            whole[name] = whole.get(name, 0) + (amount if wanted.kind == "app" else 0)
    whole = {name: max(amount, first[name]) for name, amount in whole.items()}
    for name, amount in counted(dict(overhead)).items():
        whole[name] = whole.get(name, 0) + amount
    devices = any(not is_native(name) for wanted in containers for name in wanted.amounts)
    guaranteed, checked = quality == GUARANTEED, quality != BEST_EFFORT or devices
    each = tuple((wanted.kind, tuple(sorted(wanted.amounts.items()))) for wanted in containers)
    signature = guaranteed, checked, each, tuple(sorted(whole.items()))
    return ZoneDemand(guaranteed, devices, checked, containers, whole, signature)


def _requests(container: Any) -> Listed:
    return tuple(((container.resources.requests if container.resources else None) or {}).items())


def _exclusive(name: str, amount: int, resources: Collection[str], *, guaranteed: bool) -> bool:
    if not is_native(name):
        return name in resources
    if not guaranteed or amount <= 0:
        return False
    return amount % 1000 == 0 if name == "cpu" else is_affine(name)
