"""The parts of the pages about a pod, a node and a search that are not answers of `bayplan.insight`.

They are made in the worker thread, from the world, as answers are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from bayplan.answers.insight.answers import Progress, plural, silent
from bayplan.answers.insight.insight import Insight
from bayplan.answers.insight.nodes import node_of, position_of
from bayplan.answers.insight.questions.blockers import Blocker, Blockers
from bayplan.answers.insight.questions.change import Change
from bayplan.answers.insight.questions.pending import PendingPods
from bayplan.answers.insight.questions.utilization import quantity_text
from bayplan.answers.insight.tables import grouped
from bayplan.answers.simulation.owners import owners_of
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import POD
from bayplan.core.api.tolerations import taint_text
from bayplan.core.api.well_known_labels import ZONE
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.faces.ui.bay_plan import hue_of, percent, workload_of

SORTS_OF_PODS = 20
"""The most sorts of pending pods that a node is compared with."""
FOUND = 20
"""The most results of a search."""


@dataclass(frozen=True, slots=True)
class Bar:
    """What is taken of a resource of a node. `fill`: in percent."""

    resource: str
    used: str
    room: str
    fill: int


@dataclass(frozen=True, slots=True)
class PodRow:
    """A pod on a node. `address`: the page of its workload; "" if it has none."""

    pod: str
    workload: str
    hue: int
    phase: str
    priority: int
    requests: str
    address: str


WorkloadKey = tuple[str, str, str]
"""The kind as in `deployment`, the namespace and the name."""


@dataclass(frozen=True, slots=True)
class WorkloadCount:
    """A workload, its page, and how many of some pods it has."""

    workload: str
    address: str
    pods: int


@dataclass(frozen=True, slots=True)
class RejectedPods:
    """Equal pending pods, and what keeps them from the node; nothing if the node is feasible for them."""

    pods: tuple[str, ...]
    blockers: tuple[Blocker, ...]


@dataclass(frozen=True, slots=True)
class NodeReport:
    """A node, the pods on it, and the pending pods that it rejects.

    `others`: how many sorts of pending pods were not compared with the node.
    """

    name: str
    zone: str
    cordoned: bool
    ready: bool
    taints: tuple[str, ...]
    bars: tuple[Bar, ...]
    pods: tuple[PodRow, ...]
    rejections: tuple[RejectedPods, ...]
    others: int


def node_report(insight: Insight, name: str, progress: Progress = silent) -> NodeReport:
    """Report on a node. Raises QuestionError if there is none of that name, and Stopped if `progress` does."""
    position = position_of(insight.world, name)
    node = insight.world.state.nodes.info(position)
    bars = [
        Bar(resource, quantity_text(resource, used), quantity_text(resource, room), percent(used, room))
        for resource, room in sorted(node.allocatable.items())
        for used in (node.requested_of(resource),)
        if room or used
    ]
    bars.append(Bar("pods", str(node.pod_count), str(node.allowed_pods), percent(node.pod_count, node.allowed_pods)))
    conditions = {condition.type: condition.status for condition in node.status.conditions or ()}
    rejections, others = _rejections(insight.world, position, progress)
    return NodeReport(
        name,
        node.labels.get(ZONE, ""),
        bool(node.spec.unschedulable),
        conditions.get("Ready", "True") == "True",
        tuple(taint_text((taint.key, taint.value or "", taint.effect)) for taint in node.spec.taints or ()),
        tuple(bars),
        tuple(pod_row(pod) for pod in sorted(node.pods, key=lambda pod: pod.key)),
        rejections,
        others,
    )


def pod_row(pod: PodInfo) -> PodRow:
    """Return a pod as a row of a table."""
    workload = workload_of(pod)
    requests = ", ".join(f"{name} {quantity_text(name, amount)}" for name, amount in pod.requested.items() if amount)
    phase = "Terminating" if pod.terminating else pod.phase
    key = workload_key(pod)
    address = "" if key is None else workload_address(key)
    return PodRow(pod.key, workload, hue_of(workload), phase, pod.priority, requests, address)


def first_helps(pending: PendingPods) -> list[Change]:
    """Return the change that each cause's example shows."""
    examples = (cause.example for cause in pending.causes if cause.example is not None)
    return [example.help[0].change for example in examples if example.help]


def workload_key(pod: PodInfo) -> WorkloadKey | None:
    """Return the workload of a pod; None for a pod without a controller."""
    owners = list(owners_of(pod))
    return (owners[-1][0].lower(), pod.namespace, owners[-1][1]) if owners else None


def workload_address(key: WorkloadKey) -> str:
    """Return the address of the page about a workload."""
    kind, namespace, name = map(quote, key)
    return f"/workloads/{namespace}/{kind}/{name}"


def workloads_of(world: World, pods: Iterable[str]) -> tuple[WorkloadCount, ...]:
    """Return how many of some pods each workload has, the most first. Pods without a controller don't count."""
    known: Mapping[str, PodInfo] = world.state.objects[POD]
    counts = Counter(key for pod in pods if pod in known and (key := workload_key(known[pod])) is not None)
    return tuple(
        WorkloadCount(f"{key[0]} {key[1]}/{key[2]}", workload_address(key), number)
        for key, number in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    )


def waiting_pods(world: World, namespace: str = "") -> list[PodInfo]:
    """Return all pods without a node, also those that no scheduler serves, by priority and name.

    `namespace`: only its pods; "" for all.
    """
    pods: Mapping[str, PodInfo] = world.state.objects[POD]
    waiting = (pod for pod in pods.values() if not pod.node_name and namespace in {"", pod.namespace})
    return sorted(waiting, key=lambda pod: (-pod.priority, pod.key))


def _rejections(world: World, position: int, progress: Progress) -> tuple[tuple[RejectedPods, ...], int]:
    """Compare the pending pods with a node; of equal pods only one. Returns also how many sorts are left out."""
    sorts = grouped((world.sharing_key(pod) or key, pod) for key, pod in sorted(world.pending.items()))
    largest = sorted(sorts.values(), key=len, reverse=True)
    found: list[RejectedPods] = []
    for pods in largest[:SORTS_OF_PODS]:
        progress(f"{plural(len(found), 'sort')} of pods")
        found.append(RejectedPods(tuple(pod.key for pod in pods), tuple(Blockers(world, pods[0]).of(position))))
    return tuple(found), max(len(largest) - SORTS_OF_PODS, 0)


@dataclass(frozen=True, slots=True)
class Hit:
    """A result of a search. `kind`: `node` or `pod`. `note`: the node of a pod, or the zone of a node."""

    kind: str
    name: str
    note: str


def search(insight: Insight, text: str) -> tuple[Hit, ...]:
    """Return the nodes and pods whose names contain the text: exact names first, then nodes, pending pods, others."""
    wanted = text.strip().lower()
    if not wanted:
        return ()
    world = insight.world
    hits = []
    for name in world.state.table.row_of:
        node = node_of(world, name) if wanted in name.lower() else None
        if node is not None:
            hits.append(Hit("node", name, node.labels.get(ZONE, "")))
    pods: Mapping[str, PodInfo] = world.state.objects[POD]
    hits += [Hit("pod", key, pods[key].node_name or "pending") for key in pods if wanted in key.lower()]

    def order(hit: Hit) -> tuple[bool, bool, bool, str]:
        exact = wanted in {hit.name.lower(), hit.name.lower().rpartition("/")[2]}
        return not exact, hit.kind != "node", hit.note != "pending", hit.name

    return tuple(sorted(hits, key=order)[:FOUND])
