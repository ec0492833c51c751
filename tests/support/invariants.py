"""Invariants of a scheduler, checked on the history of an observer: every pod is bound exactly once or
pending with a reason, and the scheduler overcommits no node as far as it could know.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from lightkube.models.core_v1 import Pod

from bayplan.core.api.kinds import NODE, POD
from bayplan.core.api.objects import UndecodableObject, convert
from bayplan.core.api.quantity import InvalidQuantity
from bayplan.core.api.requests import Amounts, parse_amounts, pod_requests
from bayplan.core.devices.extended_claims import resources_from_devices
from bayplan.testing.observer import Document, Observer, condition_of


def check_invariants(
    observer: Observer, scheduler_name: str, *, foreign: Collection[str] = (), schedulers: int = 1
) -> None:
    """Raise AssertionError with all violations by the pods of a scheduler. Call it once everything has settled.

    `foreign`: keys of pods that another client bound. `schedulers`: how many ran at once under this name.

    All clients receive changes of pods in one order. A scheduler that decides about a pod has therefore received every
    change up to the pod's creation, and a scheduler that runs alone knows all of its own bindings. So only pods that
    others bound after the creation of this one may overcommit a node.
    """
    problems = [
        *_bound_twice(observer),
        *_waiting_without_reason(observer, scheduler_name),
        *(_bound_and_waiting(observer, scheduler_name, set(foreign)) if schedulers == 1 else ()),
        *_wrong_events(observer, scheduler_name, alone=schedulers == 1),
        *_overcommitted(observer, scheduler_name, set(foreign), alone=schedulers == 1),
    ]
    assert not problems, "\n".join(problems)


def waiting_or_bound(observer: Observer, scheduler_name: str) -> bool:
    """Return True if all pods of a scheduler are bound or pending with a reason, else raise AssertionError."""
    problems = list(_waiting_without_reason(observer, scheduler_name))
    assert not problems, "\n".join(problems[:5])
    return True


def _bound_twice(observer: Observer) -> Iterator[str]:
    nodes: dict[str, str] = {}
    for change in observer.history(POD):
        node = change.object["spec"].get("nodeName")
        if node and nodes.setdefault(change.uid, node) != node:
            yield f"pod {change.key} was bound to {nodes[change.uid]}, then to {node}"


def _waiting_without_reason(observer: Observer, scheduler_name: str) -> Iterator[str]:
    for key, pod in observer.pods.items():
        if not _is_ours(pod, scheduler_name) or pod["spec"].get("nodeName") or pod["metadata"].get("deletionTimestamp"):
            continue
        condition = condition_of(pod)
        if condition is None or condition["status"] != "False":
            yield f"pod {key} is pending, but its conditions don't report it"
        elif not condition.get("reason") or not condition.get("message"):
            yield f"pod {key} is pending without a reason: {condition}"
        elif condition["reason"] != "SchedulingGated" and not observer.events_of(key, "FailedScheduling"):
            yield f"pod {key} is pending, but no event reports why"


def _bound_and_waiting(observer: Observer, scheduler_name: str, foreign: set[str]) -> Iterator[str]:
    """A pod that the scheduler bound has no pending condition; pods that others bound may have one from before."""
    for key, pod in observer.pods.items():
        condition = condition_of(pod)
        waits = condition is not None and condition["status"] == "False"
        if waits and observer.node_of(key) and _is_ours(pod, scheduler_name) and key not in foreign:
            yield f"pod {key} is on {observer.node_of(key)}, but its conditions report it as pending"


def _wrong_events(observer: Observer, scheduler_name: str, *, alone: bool) -> Iterator[str]:
    scheduled: Counter[str] = Counter()
    nodes = {change.uid: change.object["spec"].get("nodeName") for change in observer.history(POD)}
    for event in observer.events:
        if event["reason"] != "Scheduled" or event["reportingController"] != scheduler_name:
            continue
        regarding = event["regarding"]
        key, uid = f"{regarding['namespace']}/{regarding['name']}", regarding["uid"]
        scheduled[uid] += 1
        if alone and scheduled[uid] > 1:
            yield f"pod {key} has {scheduled[uid]} Scheduled events"
        if uid in nodes and event["note"] != f"Successfully assigned {key} to {nodes[uid]}":
            yield f"pod {key} is on {nodes[uid]}, but an event reports: {event['note']}"


@dataclass(slots=True)
class _Bound:
    """A pod on a node. `at`: the position in the history at which it was bound. `ports`: (ip, protocol, port)."""

    key: str
    ours: bool
    at: int
    requests: Amounts
    ports: set[tuple[str, str, int]] = field(default_factory=set)


def _overcommitted(observer: Observer, scheduler_name: str, foreign: set[str], *, alone: bool) -> Iterator[str]:
    allocatable = _most_allocatable(observer)
    created: dict[str, int] = {}
    nodes: dict[str, dict[str, _Bound]] = {}
    seen: set[str] = set()
    for at, change in enumerate(observer.history(POD)):
        pod, uid = change.object, change.uid
        node = pod["spec"].get("nodeName")
        created.setdefault(uid, at)
        if not node:
            continue
        there = nodes.setdefault(node, {})
        if change.type == "DELETED" or (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}:
            there.pop(uid, None)
            seen.add(uid)
        elif uid not in seen:
            seen.add(uid)
            ours = _is_ours(pod, scheduler_name) and change.key not in foreign and created[uid] != at
            there[uid] = bound = _Bound(change.key, ours, at, *_taken(pod))
            if ours:
                known = [
                    other
                    for other in there.values()
                    if other is not bound and ((other.ours and alone) or other.at < created[uid])
                ]
                yield from _too_much(node, bound, known, allocatable.get(node))


def _too_much(node: str, pod: _Bound, others: list[_Bound], allocatable: Amounts | None) -> Iterator[str]:
    if allocatable is None:
        yield f"pod {pod.key} was bound to {node}, which never existed"
        return
    total: Counter[str] = Counter()
    for one in (pod, *others):
        total.update(one.requests)
    for resource, amount in total.items():
        if pod.requests.get(resource) and amount > allocatable.get(resource, 0):
            yield (
                f"pod {pod.key} was bound to {node} next to {', '.join(other.key for other in others)}: "
                f"{amount / 10**9:g} {resource} of {allocatable.get(resource, 0) / 10**9:g}"
            )
    for other in others:
        if clash := pod.ports & other.ports:
            yield f"pods {pod.key} and {other.key} both have the port {min(clash)} of {node}"


def _most_allocatable(observer: Observer) -> dict[str, Amounts]:
    """The most that was ever allocatable on each node: the scheduler may receive changes of nodes late."""
    most: dict[str, Amounts] = {}
    for change in observer.history(NODE):
        status = change.object.get("status") or {}
        amounts = _or_nothing(partial(parse_amounts, status.get("allocatable")))
        for resource, amount in amounts.items():
            node = most.setdefault(change.key, {})
            node[resource] = max(amount, node.get(resource, 0))
    return most


def _taken(document: Document) -> tuple[Amounts, set[tuple[str, str, int]]]:
    try:
        pod = convert(Pod, document)
    except UndecodableObject:
        return {}, set()
    assert pod.spec is not None
    ports = {
        (port.hostIP or "", port.protocol or "TCP", port.hostPort)
        for container in pod.spec.containers
        for port in container.ports or ()
        if port.hostPort
    }
    requests = _or_nothing(partial(pod_requests, pod))
    return {name: requests[name] for name in requests.keys() - resources_from_devices(pod)} | {"pods": 10**9}, ports


def _or_nothing(amounts: Callable[[], Amounts]) -> Amounts:
    """Return the amounts, or none for an invalid quantity."""
    try:
        return amounts()
    except InvalidQuantity:
        return {}


def _is_ours(pod: dict[str, Any], scheduler_name: str) -> bool:
    return (pod["spec"].get("schedulerName") or "default-scheduler") == scheduler_name
