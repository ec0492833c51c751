"""The bay plan: the nodes of a world as slots by zone, filled by what their pods request of one resource."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from bayplan.api.requests import CPU, PODS
from bayplan.api.tolerations import UNSCHEDULABLE_TAINT, taint_text
from bayplan.cluster.nodes import NodeInfo
from bayplan.cluster.pod_info import PodInfo
from bayplan.insight.owners import owners_of
from bayplan.insight.questions.utilization import amounts, quantity_text, resources_of
from bayplan.simulation.world import World

ZONE = "topology.kubernetes.io/zone"
DETAILED_NODES = 60
DETAILED_PODS = 1500
"""With at most this many nodes and pods, the pods are drawn in the slots."""


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
class Zone:
    """The nodes of a zone, ordered by name. `name`: "" for nodes without the label. `fill`: that of all together."""

    name: str
    slots: tuple[Slot, ...]
    fill: int


FLAGS = {"c": "cordoned", "t": "tainted", "x": "not ready", "n": "new"}


@dataclass(frozen=True, slots=True)
class BayPlan:
    """The plan for one resource. `resources`: those that can be chosen. `size`: `large`, `medium` or `small` slots."""

    resource: str
    resources: tuple[str, ...]
    zones: tuple[Zone, ...]
    nodes: int
    pods: int
    used: str
    room: str
    fill: int
    size: str
    counts: dict[str, int] = field(default_factory=dict)
    """By flag: the number of nodes."""


def bay_plan(world: World, resource: str = CPU, new: frozenset[str] = frozenset()) -> BayPlan:
    """Draw the plan of a world. `resource`: cpu if no node has it. `new`: nodes to mark as new."""
    nodes = world.state.nodes
    resources = [name for name in resources_of(world) if amounts(nodes, name)[0].any()] or [CPU]
    if resource not in resources:
        resource = resources[0]
    live = nodes.live.nonzero()[0].tolist()
    counts = nodes.pod_count
    room, used = amounts(nodes, resource)
    total = int(counts[live].sum())
    detailed = len(live) <= DETAILED_NODES and total <= DETAILED_PODS
    flagged = dict.fromkeys(FLAGS, 0)
    zones: dict[str, list[tuple[int, Slot]]] = {}
    for position in live:
        info = nodes.info(position)
        flags, note = _state(info, new)
        for flag in flags:
            flagged[flag] += 1
        taken, allocatable = int(used[position]), int(room[position])
        slot = Slot(
            info.name,
            percent(taken, allocatable),
            flags,
            int(counts[position]),
            quantity_text(resource, taken),
            quantity_text(resource, allocatable),
            note,
            _blocks(info.pods, resource, allocatable) if detailed else (),
        )
        zones.setdefault(info.labels.get(ZONE, ""), []).append((position, slot))
    size = "large" if detailed else "medium" if len(live) <= 600 else "small"
    taken, allocatable = int(used[live].sum()), int(room[live].sum())
    return BayPlan(
        resource,
        tuple(resources),
        tuple(
            Zone(
                name,
                tuple(slot for _, slot in sorted(slots, key=lambda each: each[1].name)),
                percent(
                    sum(int(used[position]) for position, _ in slots),
                    sum(int(room[position]) for position, _ in slots),
                ),
            )
            for name, slots in sorted(zones.items())
        ),
        len(live),
        total,
        quantity_text(resource, taken),
        quantity_text(resource, allocatable),
        percent(taken, allocatable),
        size,
        flagged,
    )


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
    ready = next((each.status for each in node.status.conditions or () if each.type == "Ready"), "True")
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
    workloads: dict[str, list[PodInfo]] = {}
    for pod in pods:
        workloads.setdefault(workload_of(pod), []).append(pod)
    blocks = []
    for workload, members in workloads.items():
        amount = len(members) if resource == PODS else sum(pod.requested.get(resource, 0) for pod in members)
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
