"""Preemption as a plain search, which really removes the pods of each node and adds them again."""

import random

import msgspec
from full_clusters import FullCluster, profiles
from lightkube.models.core_v1 import Pod

from bayplan.core.api.kinds import POD_DISRUPTION_BUDGET
from bayplan.core.api.objects import convert, encode
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.interface import CycleState
from bayplan.core.framework.runner import run_filter, run_pre_filter
from bayplan.core.framework.status import Code
from bayplan.core.scheduling import decide
from bayplan.core.scheduling.decision import Outcome
from bayplan.testing.builders import Cluster


def check_random_cluster(profile, seed):
    """Compare decisions on a random full cluster that changes in between. `profile`: one of `PROFILES`."""
    world = FullCluster(random.Random(seed))
    cluster = Cluster(world.state, profiles(world.state)[profile])
    pod = world.pending()
    for _ in range(3):
        check_preemption(cluster, pod)
        check_preemption(cluster, world.pending())
        world.change()


def check_preemption(cluster, pod):
    decision = decide(cluster.profile, cluster.state, pod, random.Random(0))
    assert decision.outcome is not Outcome.ERROR, decision.message
    if decision.node:
        return
    candidates = {}
    for position, status in decision.diagnosis.verdicts.rejected():
        if status.code is Code.UNSCHEDULABLE:
            name = cluster.state.nodes.name(position)
            found = plain_victims(cluster, pod, name)
            if found is not None:
                candidates[name] = found
    if not candidates:
        assert (decision.nominated_node, decision.victims) == ("", ())
        return
    costs = {name: plain_cost(*found) for name, found in candidates.items()}
    best = {name for name, cost in costs.items() if cost == min(costs.values())}
    assert decision.nominated_node in best
    assert {victim.name for victim in decision.victims} == {victim.name for victim in found_on(candidates, decision)}


def found_on(candidates, decision):
    return candidates[decision.nominated_node][0]


def plain_victims(cluster, pod, node):
    """Return the victims on a node and how many budgets they violate; None if no eviction helps."""
    state = cluster.state
    bound = list(state.table.pods[state.table.row_of[node]].values())
    lower = [other for other in bound if other.priority < pod.priority]
    if not lower:
        return None
    skipped = skipped_filters(cluster, pod)
    freed = {port for other in lower for port in other.host_ports}
    for other in bound:
        if other in lower:
            state.remove_pod(other.uid)
        elif freed.intersection(other.host_ports):
            state.set_pod(without_ports(other))
    try:
        if not fits(cluster, pod, node, skipped):
            return None
        protected, others = plain_split(cluster, sorted(unstarted_newest_first(lower), key=importance))
        victims, broken = [], 0
        for other in (*protected, *others):
            state.set_pod(other)
            if not fits(cluster, pod, node, skipped):
                state.remove_pod(other.uid)
                victims.append(other)
                broken += other in protected
        return (victims, broken) if victims else None
    finally:
        for other in bound:  # all in their old order, so that the order on the node is unchanged
            state.remove_pod(other.uid)
        for other in bound:
            state.set_pod(other)


def without_ports(pod):
    """Return a pod as it counts once a victim with the same port has gone: a set of ports knows no owners."""
    document = msgspec.json.decode(encode(pod.object))
    for container in document["spec"]["containers"]:
        container.pop("ports", None)
    return PodInfo(convert(Pod, document))


def unstarted_newest_first(bound):
    return [
        *reversed([pod for pod in bound if pod.status.startTime is None]),
        *(pod for pod in bound if pod.status.startTime),
    ]


def importance(pod):
    start = pod.status.startTime
    return -pod.priority, start is None, start.timestamp() if start else 0


def plain_split(cluster, lower):
    budgets = list(cluster.state.objects[POD_DISRUPTION_BUDGET].values())
    left = [budget.status.disruptionsAllowed for budget in budgets]
    protected, others = [], []
    for pod in lower:
        broken = False
        for number, budget in enumerate(budgets):
            if pod.labels["app"] == budget.spec.selector.matchLabels["app"]:
                left[number] -= 1
                broken = broken or left[number] < 0
        (protected if broken else others).append(pod)
    return protected, others


def skipped_filters(cluster, pod):
    """Return the filters that are skipped for the current cluster; what-ifs skip them, too."""
    cycle = CycleState()
    run_pre_filter(cluster.profile, cycle, pod, cluster.state.nodes)
    return cycle.skip_filter


def fits(cluster, pod, node, skipped):
    """Whether the node fits the pod, both without and with the nominated pods of equal or higher priority."""
    state = cluster.state
    nominees = [one for one in state.nominations.on(node) if one.priority >= pod.priority]
    if not passes(cluster, pod, node, skipped):
        return False
    for nominee in nominees:
        state.set_pod(nominee.on_node(node))
    try:
        return passes(cluster, pod, node, skipped)
    finally:
        for nominee in nominees:
            state.remove_pod(nominee.uid)


def passes(cluster, pod, node, skipped):
    cycle, nodes = CycleState(), cluster.state.nodes
    run_pre_filter(cluster.profile, cycle, pod, nodes)
    cycle.skip_filter |= skipped
    return bool(run_filter(cluster.profile, cycle, pod, nodes).feasible_mask[nodes.position(node)])


def plain_cost(victims, broken):
    highest = max(victim.priority for victim in victims)
    lifted = sum(victim.priority + 2**31 for victim in victims)
    starts = [victim.status.startTime for victim in victims if victim.priority == highest]
    eldest = min((start.timestamp() for start in starts if start), default=float("inf"))
    return broken, highest, lifted, len(victims), -eldest
