"""The room that is left in a cluster: the largest pods that still fit, and how many of one kind fit at once.

The scheduler decides about each candidate, so taints, spreading and devices count. The largest is found by bisection
over the amounts that are free on single nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median_low
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bayplan.answers.insight.answers import QuestionError
from bayplan.answers.insight.questions.utilization import free, quantity_text, resources_of
from bayplan.answers.simulation.replicas import Replicas
from bayplan.answers.simulation.results import Fate
from bayplan.answers.simulation.simulation import Simulation
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import POD
from bayplan.core.api.objects import encode
from bayplan.core.api.requests import CPU, MEMORY, PODS, amount_text
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.remedies import is_daemon

Requests = Mapping[str, int]
"""Amounts by resource: millicores of cpu, base units of other resources."""

_DEFAULTS = {CPU: 100, MEMORY: 128 * 2**20}
"""What counts as typical where no pod requests the resource."""

_NAME = "bayplan-probe"


@dataclass(frozen=True, slots=True)
class LargestPod:
    """The largest pod of one mix that would be placed now, and its node; None if none would be.

    `mix`: a resource, for the most of it with typical requests for cpu and memory; or `typical`, for the most in the
    typical proportions.
    """

    mix: str
    requests: Requests
    node: str | None


@dataclass(frozen=True, slots=True)
class LargestGang:
    """How many copies of a pod would be placed now at the same time, and why not one more.

    `pod`: what the members are like. `complete`: False if as many as were tried fit. `message`: the event's text for
    the first copy that does not fit.
    """

    pod: str
    members: int
    nodes: int
    complete: bool
    message: str


def requests_text(requests: Requests) -> str:
    """Return requests for people."""
    return " and ".join(f"{quantity_text(name, amount)} {name}" for name, amount in requests.items())


def ordinary(world: World) -> list[PodInfo]:
    """Return the pods that are no daemons."""
    return [pod for pod in world.state.objects[POD].values() if not is_daemon(pod)]


def typical(pods: Sequence[PodInfo], resource: str = "") -> dict[str, int]:
    """Return the median requests for cpu and memory of pods, or of those with a `resource`."""
    pods = [pod for pod in pods if pod.requested.get(resource)] or pods
    found = {}
    for name, default in _DEFAULTS.items():
        known = [amount for pod in pods if (amount := pod.requested.get(name, 0))]
        found[name] = median_low(known) if known else default
    return found


def largest_pods(world: World, pods: Sequence[PodInfo]) -> tuple[LargestPod, ...]:
    """Return the largest pods that fit: with the proportions of `pods`, and with the most of each resource."""
    usual = typical(pods)
    found = [_largest(world, "typical", {}, lambda left: _multiples(left, usual), _probe(world))]
    for resource in resources_of(world):
        if resource == PODS:
            continue
        others = {name: amount for name, amount in typical(pods, resource).items() if name != resource}
        like = _probe(world, "" if resource in _DEFAULTS else resource)
        found.append(_largest(world, resource, others, partial(_most, resource=resource, others=others), like))
    return tuple(found)


Free = Mapping[str, NDArray[np.int64]]
"""What is free on each node, by resource."""


def _multiples(left: Free, usual: Requests) -> list[Requests]:
    """The candidates with the proportions of `usual`: one for each node, as large as the node allows."""
    factors = np.min([left[name] / amount for name, amount in usual.items()], axis=0)
    found = np.unique(factors[factors > 0])[::-1]
    return [{name: int(amount * factor) for name, amount in usual.items()} for factor in found.tolist()]


def _most(left: Free, resource: str, others: Requests) -> list[Requests]:
    """The candidates with the most of one resource: one for each node that has room for the others."""
    enough = np.all([left[name] >= amount for name, amount in others.items()], axis=0)
    found = np.unique(left[resource][enough & (left[resource] > 0)])[::-1]
    return [{resource: amount, **others} for amount in found.tolist()]


def _largest(
    world: World, mix: str, others: Requests, candidates: Callable[[Free], Sequence[Requests]], like: Mapping[str, Any]
) -> LargestPod:
    """Find the first candidate that the scheduler places. A smaller candidate fits wherever a larger one does."""
    tried = [candidate for candidate in candidates(free(world)) if all(candidate.values())]
    low, high, node = 0, len(tried), None
    while low < high:
        middle = (low + high) // 2
        found = _node_for(world, like, tried[middle])
        if found is None:
            low = middle + 1
        else:
            high, node = middle, found
    return LargestPod(mix, tried[high] if node is not None else others, node)


def _node_for(world: World, like: Mapping[str, Any], requests: Requests) -> str | None:
    """The node that a pod like another one, with these requests, would get without preemption."""
    texts = {name: amount_text(name, amount) for name, amount in requests.items()}
    limits = {name: text for name, text in texts.items() if "/" in name}
    container = {"name": "main", "image": _NAME, "resources": {"requests": texts, "limits": limits}}
    pod = PodInfo.from_raw(encode({**like, "spec": {**like["spec"], "containers": [container]}}))
    with world.what_if():
        world.change(POD, pod.key, pod)
        return Simulation(world).outcome(pod)[pod.key].node


def _probe(world: World, resource: str = "") -> dict[str, Any]:
    """A pod without requests. With a `resource`, it has the tolerations of a pod that requests the resource."""
    users = (pod for pod in world.state.objects[POD].values() if resource and pod.requested.get(resource))
    user = next((pod for pod in users if not is_daemon(pod)), None)
    tolerations = [] if user is None else msgspec.to_builtins(user.spec.tolerations or [])
    name = "default-scheduler" if "default-scheduler" in world.profiles else next(iter(world.profiles))
    spec = {"schedulerName": name, "preemptionPolicy": "Never", "tolerations": tolerations}
    metadata = {"name": _NAME, "namespace": "default", "uid": _NAME}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def largest_gang(world: World, most: int, pod: Mapping[str, Any] | None = None) -> LargestGang:
    """Place copies of a pod, by default of one with typical requests, until one does not fit, or `most` fit.

    `pod`: a document; its claims are shared by the copies. Copies don't preempt. Raises QuestionError if no profile
    schedules the pod.
    """
    if pod is None:
        requests = typical(ordinary(world))
        texts = {resource: amount_text(resource, amount) for resource, amount in requests.items()}
        pod = _probe(world)
        pod["spec"]["containers"] = [{"name": "main", "image": _NAME, "resources": {"requests": texts}}]
        name = f"pods with {requests_text(requests)}"
    else:
        name = f"pods like {pod['metadata']['namespace']}/{pod['metadata']['name']}"
    spec = {**pod["spec"], "preemptionPolicy": "Never"}
    spec.pop("nodeName", None)
    spec.pop("schedulingGroup", None)
    if spec.get("schedulerName", "default-scheduler") not in world.profiles:
        raise QuestionError(f"{name}: no scheduler here has the name {spec['schedulerName']!r}")

    def copy(number: int) -> PodInfo:
        metadata = {**pod["metadata"], "name": f"{_NAME}-{number}", "uid": f"{_NAME}-{number}"}
        status = {**(pod.get("status") or {}), "phase": "Pending"}
        return PodInfo.from_raw(encode({"metadata": metadata, "spec": spec, "status": status}))

    nodes: list[str] = []
    with world.what_if():
        simulation = Simulation(world)
        while len(nodes) < most:
            one = copy(len(nodes))
            world.change(POD, one.key, one)
            result = simulation.outcome(one)[one.key]
            if result.fate is not Fate.PLACED or result.node is None:
                return LargestGang(name, len(nodes), len(set(nodes)), complete=True, message=result.message)
            nodes.append(result.node)
            if len(nodes) == 1:
                nodes += _replicas(world, copy, most)
    return LargestGang(name, len(nodes), len(set(nodes)), complete=False, message="")


def _replicas(world: World, copy: Callable[[int], PodInfo], most: int) -> Iterator[str]:
    """Place the copies after the first one that need no attempt. Yields their nodes."""
    replicas = Replicas.of(world, copy(1), copy(2))
    for number in range(1, most if replicas is not None else 0):
        assert replicas is not None
        node = replicas.place(f"{_NAME}-{number}", f"{_NAME}-{number}")
        if node is None:
            return
        yield node
