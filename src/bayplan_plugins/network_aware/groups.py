"""AppGroups and NetworkTopologies, as far as decisions depend on them. Mirrors pkg/networkaware/util/util.go.

Fields of a wrong type are left out: they cost themselves only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from bayplan.plugin import Handle, ObjectStore, PluginArgs, PodInfo

APP_GROUPS = "appgroups.v1alpha1.appgroup.diktyo.x-k8s.io"
NETWORK_TOPOLOGIES = "networktopologies.v1alpha1.networktopology.diktyo.x-k8s.io"
GROUP_LABEL = "appgroup.diktyo.x-k8s.io"
WORKLOAD_LABEL = "appgroup.diktyo.x-k8s.io.workload"
REGION, ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
PERMISSIONS = (
    {"apiGroups": ["appgroup.diktyo.x-k8s.io"], "resources": ["appgroups"], "verbs": ["list", "watch"]},
    {"apiGroups": ["networktopology.diktyo.x-k8s.io"], "resources": ["networktopologies"], "verbs": ["list", "watch"]},
)


_MOST_KEPT = 10_000


class NamespacesArgs(PluginArgs, kw_only=True):
    """Arguments that say in which namespaces the custom resources are, by default `default`."""

    namespaces: list[str] = msgspec.field(default_factory=list)

    def __post_init__(self) -> None:
        self.namespaces = self.namespaces or ["default"]


class Dependency(NamedTuple):
    """A workload that another one depends on. `selector`: the value of `WORKLOAD_LABEL` of its pods."""

    selector: str
    most_cost: int


class Costs(NamedTuple):
    """The costs between regions, and between zones: by origin and destination."""

    regions: Mapping[str, Mapping[str, int]]
    zones: Mapping[str, Mapping[str, int]]

    def of(self, region: str, zone: str) -> Mapping[tuple[str, str], int]:
        """Return the costs from a region and from a zone, by origin and destination. Those of zones take precedence."""
        costs: dict[tuple[str, str], int] = {}
        for origin, table in ((region, self.regions), (zone, self.zones)):
            if origin:
                costs |= {(origin, destination): cost for destination, cost in table.get(origin, {}).items()}
        return costs


class AppGroups:
    """The AppGroups of some namespaces; the first namespace with one of a name has it."""

    def __init__(self, handle: Handle, namespaces: Iterable[str]) -> None:
        self._objects = handle.objects(APP_GROUPS)
        self._namespaces = tuple(namespaces)
        self._read = -1
        self._dependencies: dict[tuple[str, str], list[Dependency]] = {}
        """By the names of an AppGroup and a workload, as they were read last."""

    @property
    def version(self) -> int:
        """Increases with every change."""
        return self._objects.version

    def find(self, name: str) -> Mapping[str, Any] | None:
        """Return an AppGroup; None if there is none."""
        return found(self._objects, self._namespaces, name)

    def dependencies(self, pod: PodInfo) -> list[Dependency]:
        """Return what the workload of a pod depends on."""
        names = pod.labels.get(GROUP_LABEL, ""), pod.labels.get(WORKLOAD_LABEL, "")
        if self._read != self.version or len(self._dependencies) > _MOST_KEPT:
            self._read = self.version
            self._dependencies.clear()
        if names not in self._dependencies:
            self._dependencies[names] = self._of(*names)
        return self._dependencies[names]

    def _of(self, name: str, selector: str) -> list[Dependency]:
        group, dependencies = self.find(name), []
        for workload in items(group, "spec", "workloads"):
            if _selector(workload) == selector:
                for dependency in items(workload, "dependencies"):
                    cost = dependency.get("maxNetworkCost", 0)
                    dependencies.append(Dependency(_selector(dependency), cost if isinstance(cost, int) else 0))
        return dependencies

    def order(self, pod: PodInfo) -> int:
        """Return the place of a pod's workload in the order of its AppGroup; -1 if it has none."""
        group = self.find(pod.labels.get(GROUP_LABEL, ""))
        selector = pod.labels.get(WORKLOAD_LABEL, "")
        for place in items(group, "status", "topologyOrder"):
            if _selector(place) == selector:
                index = place.get("index", 0)
                return index if isinstance(index, int) else -1
        return -1


def costs_of(topology: Mapping[str, Any] | None, weights: str) -> Costs:
    """Return the costs that a NetworkTopology has under a name of weights."""
    tables: dict[str, dict[str, dict[str, int]]] = {REGION: {}, ZONE: {}}
    for weight in items(topology, "spec", "weights"):
        if weight.get("name") != weights:
            continue
        for part in items(weight, "topologyList"):
            table = tables.get(str(part.get("topologyKey")), {})  # of another key, which no one reads
            for origin in items(part, "originList"):
                costs = {
                    str(each.get("destination")): cost
                    for each in items(origin, "costList")
                    if isinstance(cost := each.get("networkCost", 0), int)
                }
                table.setdefault(str(origin.get("origin")), {}).update(costs)
    return Costs(tables[REGION], tables[ZONE])


def found(objects: ObjectStore, namespaces: Iterable[str], name: str) -> Mapping[str, Any] | None:
    """Return the object of a name in the first namespace that has one."""
    if not name:
        return None
    candidates = (objects.get(f"{namespace}/{name}") for namespace in namespaces)
    return next((each for each in candidates if each is not None), None)


def items(document: Any, *path: str) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a list in a document; nothing if it has another form."""
    for field in path:
        document = document.get(field) if isinstance(document, Mapping) else None
    for each in document if isinstance(document, list) else ():
        if isinstance(each, Mapping):
            yield each


def _selector(document: Mapping[str, Any]) -> str:
    workload = document.get("workload")
    return str(workload.get("selector", "")) if isinstance(workload, Mapping) else ""
