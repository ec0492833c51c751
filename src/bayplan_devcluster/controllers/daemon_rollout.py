"""Which pods a DaemonSet lacks and which it has to lose, without effects.

Mirrors podsShouldBeOnNode in pkg/controller/daemon/daemon_controller.go and rollingUpdate in update.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from lightkube.models.apps_v1 import DaemonSetStatus, RollingUpdateDaemonSet

from bayplan.core.api.served import DaemonSet, Pod
from bayplan.core.expansion import pods, rollout
from bayplan.core.expansion.daemon_pods import DaemonVerdict, is_updated


@dataclass(slots=True)
class RolloutPlan:
    """The pods to create, by the names of their nodes, and the pods to delete."""

    create: list[str] = field(default_factory=list)
    delete: list[Pod] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class DaemonState:
    """A DaemonSet, its verdicts about the nodes, and its pods by node (see `daemon_pods.by_node`)."""

    daemon_set: DaemonSet
    digest: str
    """The hash of the current template."""
    verdicts: Mapping[str, DaemonVerdict]
    """By node; all nodes of the cluster."""
    pods: Mapping[str, Sequence[Pod]]
    now: datetime

    @property
    def desired(self) -> int:
        """The number of nodes that should have a pod."""
        return sum(one.run for one in self.verdicts.values())

    def is_available(self, pod: Pod) -> bool:
        """Whether the pod has been ready for `minReadySeconds`."""
        return pods.is_available(pod, self.daemon_set.spec.minReadySeconds or 0, self.now)

    def is_updated(self, pod: Pod) -> bool:
        """Whether the pod was made from the present template."""
        return is_updated(self.daemon_set, pod, self.digest)

    def should_run(self, node: str) -> bool:
        """Whether the node is there and should have a pod."""
        return node in self.verdicts and self.verdicts[node].run


def plan_nodes(state: DaemonState) -> RolloutPlan:
    """Plan one pod for each node that should run one, and none for the others. The caller handles finished pods."""
    plan = RolloutPlan()
    surge = max_surge(state.daemon_set, 1) > 0
    for node, verdict in state.verdicts.items():
        there = state.pods.get(node)
        if there is None:
            plan.create += [node] if verdict.run else []
            continue
        if not verdict.stay:
            plan.delete += [pod for pod in there if not pods.is_terminating(pod)]
            continue
        active = [pod for pod in there if pods.is_active(pod)]
        if not surge:
            plan.delete += active[1:]
        elif active:
            plan.delete += _surplus(state, active)
        elif verdict.run and not any(pods.is_finished(pod) for pod in there):
            plan.create.append(node)
    # The pod garbage collector ignores unbound pods, and pending pods of a deleted node are never bound.
    gone = (there for node, there in state.pods.items() if node not in state.verdicts)
    plan.delete += [pod for there in gone for pod in there if not pod.spec.nodeName]
    return plan


def _surplus(state: DaemonState, active: Sequence[Pod]) -> list[Pod]:
    """The pods to delete on a node: all but the oldest new and old pod, and the old one once it is replaced."""
    new = [pod for pod in active if state.is_updated(pod)]
    old = [pod for pod in active if not state.is_updated(pod)]
    replaced = new and old and (not pods.is_ready(old[0]) or state.is_available(new[0]))
    return [*new[1:], *(old if replaced else old[1:])]


def plan_rolling_update(state: DaemonState) -> RolloutPlan:
    """The next step of a rolling update: old pods to delete, and nodes that get a new pod next to the old one."""
    desired = state.desired
    surge = max_surge(state.daemon_set, desired)
    rolling = _rolling(state.daemon_set)
    unavailable = rollout.scaled(rolling.maxUnavailable if rolling else None, desired, round_up=True)
    if desired and not surge and not unavailable:
        unavailable = 1  # with both zero, the update would never progress
    return _with_surge(state, surge) if surge else _without_surge(state, unavailable)


def max_surge(daemon_set: DaemonSet, nodes: int) -> int:
    """How many of `nodes` may have two pods during an update."""
    rolling = _rolling(daemon_set)
    return rollout.scaled(rolling.maxSurge if rolling else None, nodes, round_up=True)


def _rolling(daemon_set: DaemonSet) -> RollingUpdateDaemonSet | None:
    strategy = daemon_set.spec.updateStrategy
    return strategy.rollingUpdate if strategy and strategy.type == "RollingUpdate" else None


def _without_surge(state: DaemonState, max_unavailable: int) -> RolloutPlan:
    lacking = [node for node, verdict in state.verdicts.items() if verdict.run and node not in state.pods]
    unavailable = len(lacking)
    broken: list[Pod] = []
    candidates: list[Pod] = []
    for there in state.pods.values():
        pair = _pair(state, there)
        new, old = pair or (None, None)
        if old is not None and new is None:
            (candidates if state.is_available(old) else broken).append(old)
            unavailable += not state.is_available(old)
        elif new is None or old is not None:
            unavailable += 1  # `plan_nodes` corrects this node
        else:
            unavailable += not state.is_available(new)
    return RolloutPlan(delete=[*broken, *candidates[: max(max_unavailable - unavailable, 0)]])


def _with_surge(state: DaemonState, surge: int) -> RolloutPlan:
    plan = RolloutPlan()
    candidates, misplaced = [], []
    surging = available = 0
    for node, there in state.pods.items():
        pair = _pair(state, there)
        if pair is None:
            surging += 1
            continue
        new, old = pair
        counted = old if old is not None else new
        available += counted is not None and state.is_available(counted)
        if old is None:
            continue
        if new is not None:
            if state.is_available(new):
                plan.delete.append(old)
            else:
                surging += 1
        elif not state.is_available(old):
            if state.should_run(node):
                plan.create.append(node)
            else:
                plan.delete.append(old)
        elif state.should_run(node):
            candidates.append(node)
        else:
            misplaced.append(old)
    # A pod on a node that no longer qualifies goes when another one is available in its place.
    plan.delete += misplaced[: max(available - state.desired, 0)]
    plan.create += candidates[: max(surge - surging, 0)]
    return plan


def _pair(state: DaemonState, there: Sequence[Pod]) -> tuple[Pod | None, Pod | None] | None:
    """The new and the old pod of a node; None if there are several of one sort."""
    staying = [pod for pod in there if not pods.is_terminating(pod)]
    new = [pod for pod in staying if state.is_updated(pod)]
    old = [pod for pod in staying if not state.is_updated(pod)]
    if len(new) > 1 or len(old) > 1:
        return None
    return (new[0] if new else None, old[0] if old else None)


def calculate_status(state: DaemonState, collisions: int | None) -> DaemonSetStatus:
    """The status by nodes: of several pods on a node, the first counts."""
    counted = [there[0] for node, there in state.pods.items() if state.should_run(node)]
    available = sum(pods.is_ready(pod) and state.is_available(pod) for pod in counted)
    misplaced = [node for node in state.pods if node in state.verdicts and not state.should_run(node)]
    return DaemonSetStatus(
        observedGeneration=state.daemon_set.metadata.generation,
        desiredNumberScheduled=state.desired,
        currentNumberScheduled=len(counted),
        numberMisscheduled=len(misplaced),
        numberReady=sum(map(pods.is_ready, counted)),
        updatedNumberScheduled=sum(map(state.is_updated, counted)) or None,
        numberAvailable=available or None,
        numberUnavailable=(state.desired - available) or None,
        collisionCount=collisions,
        conditions=state.daemon_set.status.conditions if state.daemon_set.status else None,
    )
