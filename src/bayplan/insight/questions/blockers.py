"""All that keeps a pod from nodes: every plugin is asked about every node, although the first rejection decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayplan.api.labels import Requirement
from bayplan.api.selectors import RequiredNodeAffinity
from bayplan.api.tolerations import NO_EXECUTE, NO_SCHEDULE, tolerate
from bayplan.cluster.nodes import NodeInfo, Nodes, clash
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.interface import CycleState
from bayplan.framework.profile import Point, Profile
from bayplan.framework.runner import run_filter, run_pre_filter
from bayplan.framework.status import Code, PluginError, Status
from bayplan.framework.verdicts import Verdicts
from bayplan.framework.what_if import filter_nominated
from bayplan.insight.questions.documents import amount_text
from bayplan.simulation.world import World

_POINTS = (Point.PRE_FILTER, Point.FILTER)


@dataclass(frozen=True, slots=True)
class Blocker:
    """Why one plugin rejects a node.

    `reasons`: as in the event. `text`: the reasons with details, such as "Insufficient cpu: lacks 200m".
    """

    plugin: str
    reasons: tuple[str, ...]
    text: str


class Blockers:
    """The rejections of a pod by all plugins, each asked alone. `nodes`: the nodes of the world when it was made."""

    def __init__(self, world: World, pod: PodInfo) -> None:
        self._pod = pod
        self.nodes = world.state.nodes
        self._rejections = [(name, verdicts) for name, verdicts in _verdicts(world, pod) if (verdicts.codes != 0).any()]

    def of(self, position: int) -> list[Blocker]:
        """Return what blocks a node; empty if the node is feasible."""
        node = self.nodes.info(position)
        found = []
        for name, verdicts in self._rejections:
            if verdicts.codes[position]:
                status = verdicts.of(position)
                detail = _DETAILS.get(name)
                text = detail(self._pod, node) if detail is not None and status.code is not Code.ERROR else ""
                found.append(Blocker(name, status.reasons, text or ", ".join(status.reasons)))
        return found

    def nearest(self, limit: int) -> list[int]:
        """Return the positions of the blocked nodes with the fewest blockers, those that lack the least first."""
        counts = np.zeros(len(self.nodes), dtype=np.int64)
        for _, verdicts in self._rejections:
            counts += verdicts.codes != 0
        blocked = np.flatnonzero(self.nodes.live & (counts > 0))
        order = np.lexsort((blocked, self._shortage()[blocked], counts[blocked]))
        return [int(position) for position in blocked[order[:limit]]]

    def _shortage(self) -> NDArray[np.float64]:
        """How much the nodes lack, as a sum of shares of the request."""
        shortage = np.zeros(len(self.nodes), dtype=np.float64)
        for resource, amount in self._pod.requested.items():
            if amount:
                free = self.nodes.allocatable(resource) - self.nodes.requested(resource)
                shortage += np.maximum(amount - free, 0) / amount
        return shortage


def _verdicts(world: World, pod: PodInfo) -> list[tuple[str, Verdicts]]:
    profile, nodes = world.profiles[pod.scheduler_name], world.state.nodes
    plugins = {plugin.name: plugin for point in (Point.FILTER, Point.PRE_FILTER) for plugin in profile.at(point)}
    found = []
    for name, plugin in plugins.items():
        points = {point: [plugin] for point in _POINTS if any(each is plugin for each in profile.at(point))}
        alone, cycle = Profile(profile.scheduler_name, points), CycleState()
        try:
            outcome = run_pre_filter(alone, cycle, pod, nodes)
            if outcome.refusal is not None:
                verdicts = _all(nodes, outcome.refusal)
            else:
                verdicts = run_filter(alone, cycle, pod, nodes)
                filter_nominated(alone, world.state.nominations, cycle, pod, verdicts)
            if outcome.refusal is None and outcome.names is not None:
                missing = Status.unresolvable(f"node(s) didn't satisfy plugin(s) [{name}]").by(name)
                named = {nodes.position(each) for each in outcome.names}
                for position in np.flatnonzero(verdicts.feasible_mask).tolist():
                    if position not in named:
                        verdicts.set(position, missing)
        except PluginError as error:
            verdicts = _all(nodes, Status.error(str(error)).by(name))
        found.append((name, verdicts))
    return found


def _all(nodes: Nodes, status: Status) -> Verdicts:
    verdicts = Verdicts(nodes)
    verdicts.table.append(status)
    verdicts.codes[verdicts.feasible_mask] = 1
    verdicts.feasible_mask[:] = False
    return verdicts


# Details


def shortages(pod: PodInfo, node: NodeInfo) -> dict[str, int]:
    """Return what a node lacks for a pod, by resource, in the units of `PodInfo.requested`."""
    lacking = {
        resource: amount - (node.allocatable_of(resource) - node.requested_of(resource))
        for resource, amount in pod.requested.items()
        if amount
    }
    return {resource: amount for resource, amount in lacking.items() if amount > 0}


def untolerated(pod: PodInfo, node: NodeInfo) -> list[tuple[str, str, str]]:
    """Return the (key, value, effect) of the node's taints that keep the pod away."""
    taints = [(taint.key, taint.value or "", taint.effect) for taint in node.spec.taints or ()]
    return [taint for taint in taints if taint[2] in {NO_SCHEDULE, NO_EXECUTE} and not tolerate(pod.tolerations, taint)]


def unmet_labels(pod: PodInfo, node: NodeInfo) -> tuple[Requirement, ...]:
    """Return the label requirements of the pod that the node does not meet; of several terms, the nearest one's."""
    required = RequiredNodeAffinity.of(pod.spec)
    unmet = tuple(
        each for each in (required.labels.requirements if required.labels else ()) if not each.matches(node.labels)
    )
    selector = required.selector
    if selector is not None and selector.terms and not selector.matches(node.labels, node.name):
        unmet_terms: list[tuple[Requirement, ...]] = [
            tuple(each for each in term.labels.requirements if not each.matches(node.labels)) for term in selector.terms
        ]
        unmet += min(unmet_terms, key=len)
    return unmet


def port_conflicts(pod: PodInfo, node: NodeInfo) -> list[tuple[int, PodInfo]]:
    """Return the host ports that pods of the node use already, each with the pod."""
    return [
        (wanted.port, other)
        for wanted in pod.host_ports
        for other in node.pods
        if any(clash(wanted, used) for used in other.host_ports)
    ]


def taint_text(taint: tuple[str, str, str]) -> str:
    """Return a taint as kubectl writes it: key=value:effect."""
    key, value, effect = taint
    return f"{key}={value}:{effect}" if value else f"{key}:{effect}"


def requirement_text(requirement: Requirement) -> str:
    """Return a label requirement in selector syntax."""
    values = sorted(requirement.values)
    match requirement.operator:
        case "exists":
            return requirement.key
        case "!":
            return f"!{requirement.key}"
        case "in" | "=" | "==" if len(values) == 1:
            return f"{requirement.key}={values[0]}"
        case "in" | "notin":
            return f"{requirement.key} {requirement.operator} ({','.join(values)})"
        case "gt" | "lt":
            return f"{requirement.key}{'>' if requirement.operator == 'gt' else '<'}{values[0]}"
        case _:
            return f"{requirement.key}{requirement.operator}{','.join(values)}"


def _resources(pod: PodInfo, node: NodeInfo) -> str:
    parts = []
    if node.pod_count >= node.allowed_pods:
        parts.append(f"Too many pods: {node.pod_count} of {node.allowed_pods}")
    for resource, lacking in shortages(pod, node).items():
        allocatable = node.allocatable_of(resource)
        if pod.requested[resource] > allocatable:
            need, has = amount_text(resource, pod.requested[resource]), amount_text(resource, allocatable)
            parts.append(f"Insufficient {resource}: the pod requests {need}, the whole node has {has}")
        else:
            parts.append(f"Insufficient {resource}: lacks {amount_text(resource, lacking)}")
    return "; ".join(parts)


def _taints(pod: PodInfo, node: NodeInfo) -> str:
    taints = untolerated(pod, node)
    return f"node(s) had untolerated taint(s): {', '.join(map(taint_text, taints))}" if taints else ""


def _labels(pod: PodInfo, node: NodeInfo) -> str:
    unmet = unmet_labels(pod, node)
    wanted = ", ".join(map(requirement_text, unmet))
    return f"node(s) didn't match Pod's node affinity/selector: {wanted}" if unmet else ""


def _ports(pod: PodInfo, node: NodeInfo) -> str:
    used = [f"port {port} is used by pod {other.key}" for port, other in port_conflicts(pod, node)]
    return f"node(s) didn't have free ports for the requested pod ports: {', '.join(used)}" if used else ""


_DETAILS: Mapping[str, Callable[[PodInfo, NodeInfo], str]] = {
    "NodeResourcesFit": _resources,
    "TaintToleration": _taints,
    "NodeAffinity": _labels,
    "NodePorts": _ports,
}


def group_by_text(found: Sequence[tuple[str, list[Blocker]]]) -> dict[tuple[str, ...], list[str]]:
    """Group nodes by the texts of their blockers: texts -> node names."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, blockers in found:
        groups.setdefault(tuple(each.text for each in blockers), []).append(name)
    return groups
