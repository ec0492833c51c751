"""The bay plan: the nodes of a world as slots in groups, filled by what their pods request of one resource.

Numbers are read from the columns of the node table. The browser gets percentages; a workload's colour follows from its
name, so that it is the same on all pages.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bayplan.answers.insight.questions.utilization import amounts, quantity_text, resources_of
from bayplan.answers.insight.tables import grouped
from bayplan.answers.simulation.owners import owners_of
from bayplan.answers.simulation.world import World
from bayplan.core.api.requests import CPU, PODS
from bayplan.core.api.tolerations import UNSCHEDULABLE_TAINT, taint_text
from bayplan.core.cluster.nodes import NodeInfo, Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.faces.ui.grouping import grouping, varying_keys

DETAILED_NODES = 60
DETAILED_PODS = 1500
"""The most nodes and pods of a plan whose slots show the pods."""


@dataclass(frozen=True, slots=True)
class Block:
    """The pods of a workload in a slot, by `namespace/name`. `height`: what they take, in percent of the node.

    `hue` (0 to 359) is the same everywhere for a workload. `amount`: what they take, for people.
    """

    workload: str
    pods: tuple[str, ...]
    height: float
    hue: int
    amount: str


@dataclass(frozen=True, slots=True)
class Slot:
    """A node. `fill`: the percentage of the resource that is taken, over 100 if the node is overcommitted.

    `flags`: letters for `FLAGS`. `note`: what distinguishes the node, for people. `blocks`: its pods by workload,
    the largest first, if the plan is detailed.
    """

    name: str
    fill: int
    flags: str
    pods: int
    used: str
    room: str
    note: str
    blocks: tuple[Block, ...] = ()


@dataclass(frozen=True, slots=True)
class Bay:
    """Nodes with the same value of a label, ordered by name. `pods`: on them. `fill`: that of all together."""

    name: str
    slots: tuple[Slot, ...]
    pods: int
    fill: int


FLAGS = {"c": "cordoned", "t": "tainted", "x": "not ready", "n": "new"}


@dataclass(frozen=True, slots=True)
class BayPlan:
    """The plan for one resource. `resources`: those that can be chosen. `size`: `large`, `medium` or `small` slots.

    `keys`: labels by which the nodes can be grouped.
    """

    resource: str
    resources: tuple[str, ...]
    keys: tuple[str, ...]
    bays: tuple[Bay, ...]
    nodes: int
    pods: int
    used: str
    room: str
    fill: int
    size: str
    counts: dict[str, int] = field(default_factory=dict)
    """flag -> the number of nodes that have it"""


def bay_plan(
    world: World, resource: str = CPU, new: frozenset[str] = frozenset(), *, by: str = "", namespace: str = ""
) -> BayPlan:
    """Draw the plan of a world. `resource`: cpu if no node has it. `new`: nodes to mark as new.

    `by`: the label key of the groups, "" for the zone. `namespace`: only its pods fill the nodes; "" for all. Raises
    UnknownName if no node has the label.
    """
    nodes = world.state.nodes
    resources = [name for name in resources_of(world) if amounts(nodes, name)[0].any()] or [CPU]
    live = nodes.live.nonzero()[0].tolist()
    filling = _Filling.of(nodes, live, resource if resource in resources else resources[0], namespace)
    infos = {position: nodes.info(position) for position in live}
    labels = [info.labels for info in infos.values()]
    groups = grouping(labels, by)
    pods = int(filling.pods[live].sum())
    detailed = len(live) <= DETAILED_NODES and pods <= DETAILED_PODS
    bays: dict[str, dict[int, Slot]] = {}
    for position, info in infos.items():
        slot = filling.slot(position, info, new, detailed=detailed)
        bays.setdefault(groups.of(info.labels), {})[position] = slot
    counts = Counter(flag for slots in bays.values() for slot in slots.values() for flag in slot.flags)
    taken, allocatable = int(filling.used[live].sum()), int(filling.room[live].sum())
    return BayPlan(
        filling.resource,
        tuple(resources),
        tuple(varying_keys(labels)),
        tuple(
            filling.bay(name, slots)
            for name, slots in sorted(bays.items(), key=lambda item: (item[0] == groups.others, natural(item[0])))
        ),
        len(live),
        pods,
        quantity_text(filling.resource, taken),
        quantity_text(filling.resource, allocatable),
        percent(taken, allocatable),
        "large" if detailed else "medium" if len(live) <= 600 else "small",
        {flag: counts[flag] for flag in FLAGS},
    )


@dataclass(frozen=True, slots=True)
class _Filling:
    """How much of a resource there is on each node, how much of it is used, and by how many pods.

    `namespace`: only its pods count; "" for all.
    """

    resource: str
    namespace: str
    room: NDArray[np.int64]
    used: NDArray[np.int64]
    pods: NDArray[np.int64]

    @classmethod
    def of(cls, nodes: Nodes, live: Sequence[int], resource: str, namespace: str) -> _Filling:
        room, used = amounts(nodes, resource)
        pods = nodes.pod_count
        if namespace:
            used, pods = np.zeros((2, len(nodes)), dtype=np.int64)
            for position in live:
                counted = _in(namespace, nodes.pods(position))
                pods[position], used[position] = len(counted), _amount(counted, resource)
        return cls(resource, namespace, room, used, pods)

    def slot(self, position: int, info: NodeInfo, new: frozenset[str], *, detailed: bool) -> Slot:
        """Draw a node."""
        flags, note = _state(info, new)
        taken, allocatable = int(self.used[position]), int(self.room[position])
        return Slot(
            info.name,
            percent(taken, allocatable),
            flags,
            int(self.pods[position]),
            quantity_text(self.resource, taken),
            quantity_text(self.resource, allocatable),
            note,
            _blocks(_in(self.namespace, info.pods), self.resource, allocatable) if detailed else (),
        )

    def bay(self, name: str, slots: Mapping[int, Slot]) -> Bay:
        """Draw a group of nodes. `slots`: by position."""
        rows = list(slots)
        in_order = tuple(sorted(slots.values(), key=lambda slot: natural(slot.name)))
        fill = percent(int(self.used[rows].sum()), int(self.room[rows].sum()))
        return Bay(name, in_order, sum(slot.pods for slot in in_order), fill)


def _amount(pods: Sequence[PodInfo], resource: str) -> int:
    """What pods request."""
    return len(pods) if resource == PODS else sum(pod.requested.get(resource, 0) for pod in pods)


def _in(namespace: str, pods: Sequence[PodInfo]) -> Sequence[PodInfo]:
    return [pod for pod in pods if pod.namespace == namespace] if namespace else pods


def natural(name: str) -> list[tuple[int, str]]:
    """Return the key of an order in which n2 comes before n10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]+)", name)]


def percent(part: int, whole: int) -> int:
    """Return a share in percent; what is taken of nothing counts as 100."""
    return round(100 * part / whole) if whole else 100 if part else 0


def _state(node: NodeInfo, added: frozenset[str]) -> tuple[str, str]:
    """The flags of a node, and their meanings."""
    cordoned = bool(node.spec.unschedulable)
    taints = [
        taint_text((taint.key, taint.value or "", taint.effect))
        for taint in node.spec.taints or ()
        if not (cordoned and taint.key == UNSCHEDULABLE_TAINT)
    ]
    ready = next((condition.status for condition in node.status.conditions or () if condition.type == "Ready"), "True")
    flags, notes = "", []
    if node.name in added:
        flags, notes = "n", ["new"]
    if ready != "True":
        flags += "x"
        notes.append("not ready")
    if cordoned:
        flags += "c"
        notes.append("cordoned")
    if taints:
        flags += "t"
        notes += taints
    return flags, ", ".join(notes)


def _blocks(pods: Sequence[PodInfo], resource: str, allocatable: int) -> tuple[Block, ...]:
    blocks = []
    for workload, members in grouped((workload_of(pod), pod) for pod in pods).items():
        amount = _amount(members, resource)
        height = round(100 * amount / allocatable, 1) if allocatable else 0.0
        keys = tuple(sorted(pod.key for pod in members))
        blocks.append(Block(workload, keys, height, hue_of(workload), quantity_text(resource, amount)))
    return tuple(sorted(blocks, key=lambda block: (-block.height, block.workload)))


def workload_of(pod: PodInfo) -> str:
    """Return the name of the workload that a pod belongs to, or its own."""
    names = [name for _, name in owners_of(pod)]
    return names[-1] if names else pod.name


def hue_of(workload: str) -> int:
    """Return a colour for a workload that is always the same."""
    return zlib.crc32(workload.encode()) % 360
