"""The node groups of a cluster, as autoscalers see them, and new nodes like theirs.

A group has one pool and one instance type. A new node is a copy of a typical one, with the pods of DaemonSets, without
what belongs to one node alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import msgspec
import numpy as np

from bayplan.answers.insight.answers import QuestionError
from bayplan.answers.insight.pools import pool_of, type_of, zone_of
from bayplan.answers.insight.questions.documents import copy_of_node
from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots.documents import identify
from bayplan.core.api.kinds import CSI_NODE, NODE, POD, RESOURCE_SLICE, Kind
from bayplan.core.api.objects import convert, encode
from bayplan.core.api.requests import CPU, EPHEMERAL_STORAGE, MEMORY
from bayplan.core.api.suggestions import did_you_mean
from bayplan.core.cluster.nodes import NodeInfo
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.calling import call
from bayplan.core.framework.capabilities import NodeObjects
from bayplan.core.framework.profile import distinct_plugins, implements
from bayplan.core.framework.status import PluginError

CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


@dataclass(frozen=True, slots=True, eq=False)
class NodeGroup:
    """Nodes of one pool and one instance type, or of one size where that isn't known.

    `like`: the position of a typical node by zone, the zone with the fewest nodes first. `size`: the number of nodes.
    `names`: their names by zone.
    """

    pool: str
    instance_type: str
    size: int
    like: Mapping[str, int]
    names: Mapping[str, Sequence[str]]

    @property
    def title(self) -> str:
        """What people call it: its pool, or else its instance type."""
        return self.pool or self.instance_type or "the nodes"


def check_pools(world: World, pools: Sequence[str], where: str) -> None:
    """Raise QuestionError for a pool that doesn't exist. `where`: what the cluster is called."""
    known = {group.pool for group in node_groups(world)} if pools else set()
    for pool in pools:
        if pool not in known:
            raise QuestionError(f"there is no pool {pool} in {where}{did_you_mean(pool, sorted(known))}")


def node_groups(world: World) -> list[NodeGroup]:
    """Return the groups of a world, the largest first. Nodes of the control plane belong to none."""
    nodes = world.state.nodes
    members: dict[tuple[str, str, object], dict[str, list[int]]] = {}
    for position in np.flatnonzero(nodes.live).tolist():
        info = nodes.info(position)
        labels = info.labels
        if not any(label in labels for label in CONTROL_PLANE):
            instance_type = type_of(labels)
            size = () if instance_type else _size(info)
            zones = members.setdefault((pool_of(labels), instance_type, size), {})
            zones.setdefault(zone_of(labels), []).append(position)
    groups = [
        NodeGroup(
            pool,
            instance_type,
            sum(map(len, zones.values())),
            {zone: _typical(world, zones[zone]) for zone in sorted(zones, key=lambda zone: (len(zones[zone]), zone))},
            {zone: [nodes.info(position).name for position in positions] for zone, positions in zones.items()},
        )
        for (pool, instance_type, _), zones in members.items()
    ]
    return sorted(groups, key=lambda group: (-group.size, group.pool, group.instance_type))


def _size(info: NodeInfo) -> tuple[tuple[str, int], ...]:
    """What nodes of one size have in common: kubelets of one machine type may reserve slightly different amounts."""
    amounts = {CPU: info.allocatable_of(CPU) // 1000, MEMORY: info.allocatable_of(MEMORY) >> 30}
    others = {name: amount for name, amount in info.allocatable.items() if name not in {*amounts, EPHEMERAL_STORAGE}}
    return tuple(sorted((amounts | others).items()))


def _typical(world: World, positions: Sequence[int]) -> int:
    """The first node, by name, with the taints and the amounts that most have; preferably one that isn't cordoned."""
    nodes = world.state.nodes
    infos = {position: nodes.info(position) for position in positions}
    shapes = {position: (_size(info), _taints(info)) for position, info in infos.items()}
    usual = Counter(shapes[position] for position in positions if not infos[position].spec.unschedulable)
    usual = usual or Counter(shapes.values())
    best = max(usual, key=lambda shape: (usual[shape], str(shape)))
    same = [position for position in positions if shapes[position] == best]
    return min(same, key=lambda position: (bool(infos[position].spec.unschedulable), infos[position].name))


def _taints(info: NodeInfo) -> tuple[tuple[str, str, str], ...]:
    return tuple(sorted((taint.key, taint.value or "", taint.effect) for taint in info.spec.taints or ()))


@dataclass(frozen=True, slots=True)
class NewNode:
    """A node that a group could get, with all that belongs to it: see `new_node_documents`."""

    name: str
    zone: str
    objects: tuple[tuple[Kind, str, Any], ...]

    def add_to(self, world: World) -> None:
        """Add the node to a world."""
        for kind, key, obj in self.objects:
            world.change(kind, key, obj)


def new_nodes(world: World, group: NodeGroup) -> Iterator[NewNode]:
    """Yield new nodes of a group without end, for each of its zones in turn."""
    known = frozenset(world.state.table.row_of)
    zones = [(zone, world.state.nodes.info(position)) for zone, position in group.like.items()]
    for number in count(1):
        for zone, like in zones:
            name = f"{like.name}-new-{number}"
            if name not in known:
                yield NewNode(name, zone, tuple(map(_decoded, new_node_documents(world, like, name))))


def maker(world: World, position: int) -> Callable[[str], list[tuple[Kind, str, Any]]]:
    """Return what makes new nodes of a name like one that a world has now, whatever becomes of that one."""
    like = world.state.nodes.info(position)
    node, *daemons = copy_of_node(like, _PLACEHOLDER)
    attached = _attached_objects(world, like.name, _PLACEHOLDER)
    raws, daemons_raw = [[encode(each) for each in documents] for documents in ((node, *attached), daemons)]
    of_plugins = _makers_of_plugins(world, like.name)

    def make(name: str) -> list[tuple[Kind, str, Any]]:
        text = msgspec.json.encode(name)[1:-1]
        found, pods = (
            [_decoded(msgspec.json.decode(raw.replace(_PLACEHOLDER.encode(), text))) for raw in some]
            for some in (raws, daemons_raw)
        )
        more = _of_plugins(of_plugins, name, [pod for _, _, pod in pods])
        return [*found, *pods, *map(_decoded, more)]

    return make


_PLACEHOLDER = "the-name-of-a-new-node-dc11a1"
"""What a new node is called until it gets its name. No cluster has that."""


def new_node_documents(world: World, like: NodeInfo, name: str = "") -> list[dict[str, Any]]:
    """Return a new node like another one, and all that belongs to it: pods of DaemonSets, devices, CSINode and others.

    `name`: by default that of the node with `-new`.
    """
    node, *daemons = copy_of_node(like, name)
    name = node["metadata"]["name"]
    pods = [PodInfo.from_raw(encode(document)) for document in daemons]
    more = _of_plugins(_makers_of_plugins(world, like.name), name, pods)
    return [node, *daemons, *_attached_objects(world, like.name, name), *more]


_Maker = Callable[[str, Sequence[PodInfo]], Iterable[Mapping[str, Any]]]


def _makers_of_plugins(world: World, like: str) -> list[_Maker]:
    """Return what makes the objects that plugins read of a node. A plugin that fails has none."""
    makers = []
    lists = [plugins for profile in world.profiles.values() for plugins in profile.plugins.values()]
    for plugin in distinct_plugins(lists):
        if implements(plugin, NodeObjects):
            try:
                make = call(plugin, "NodeObjects", plugin.objects_like, like)
            except PluginError as error:
                error.record(world.failures, f"node {like}")
            else:
                makers += [] if make is None else [make]
    return makers


def _of_plugins(makers: Iterable[_Maker], name: str, pods: Sequence[PodInfo]) -> list[dict[str, Any]]:
    """Return the objects of a new node, each once: several profiles may have one plugin."""
    made = [dict(document) for make in makers for document in make(name, pods)]
    return list({(each["kind"], each["metadata"]["name"]): each for each in made}.values())


def _attached_objects(world: World, like: str, name: str) -> Iterator[dict[str, Any]]:
    """Yield what belongs to a new node as it does to another one: its CSINode, and the slices of its devices."""
    csi_node = world.state.objects[CSI_NODE].get(like)
    if csi_node is not None:
        document = msgspec.json.decode(encode(csi_node))
        metadata = {"name": name, "uid": f"csi-{name}", "annotations": document["metadata"].get("annotations") or {}}
        yield document | {"apiVersion": CSI_NODE.api_version, "kind": CSI_NODE.kind, "metadata": metadata}
    for key, device_slice in world.state.objects[RESOURCE_SLICE].items():
        if device_slice.spec.nodeName == like:
            document = msgspec.json.decode(encode(device_slice))
            spec = document["spec"]
            pool = spec["pool"]["name"]
            renamed = pool.replace(like, name) if like in pool else f"{pool}-{name}"
            metadata = {"name": f"{key}-{name}", "uid": f"slice-{key}-{name}"}
            spec |= {"nodeName": name, "pool": {**spec["pool"], "name": renamed}}
            yield {
                "apiVersion": RESOURCE_SLICE.api_version,
                "kind": RESOURCE_SLICE.kind,
                "metadata": metadata,
                "spec": spec,
            }


def devices_by_node(world: World) -> dict[str, frozenset[tuple[str, int]]]:
    """Return the drivers of each node that has devices of its own, with the numbers of devices in their slices."""
    found: dict[str, set[tuple[str, int]]] = {}
    for each in world.state.objects[RESOURCE_SLICE].values():
        if each.spec.nodeName:
            found.setdefault(each.spec.nodeName, set()).add((each.spec.driver, len(each.spec.devices or ())))
    return {name: frozenset(devices) for name, devices in found.items()}


def _decoded(document: dict[str, Any]) -> tuple[Kind, str, Any]:
    kind, key, raw = identify(document)
    if kind is POD:
        return kind, key, PodInfo.from_raw(raw)
    return kind, key, convert(NODE.type if kind is NODE else kind.type, document)
