"""Where a pending pod is on its way to a node, as far as its objects tell: seen, tried, chosen, waiting to be bound.

A snapshot doesn't have the scheduler's queue. Conditions, nominations and what PreBind has written tell of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from bayplan.answers.insight.answers import listed
from bayplan.answers.insight.questions.liveness import lease_of
from bayplan.answers.simulation.results import Fate, Result
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import PERSISTENT_VOLUME_CLAIM, RESOURCE_CLAIM, STORAGE_CLASS
from bayplan.core.api.provisioning import consumed_by
from bayplan.core.api.times import rfc3339
from bayplan.core.api.volumes import SELECTED_NODE, annotations_of, claim_name, class_of_claim, is_fully_bound
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.devices.claims import allocation_of, made_claim_names

MOST_BACKOFF = timedelta(seconds=10)
"""The default `podMaxBackoffSeconds`."""
MOST_UNSCHEDULABLE = timedelta(minutes=5)
"""How long an unschedulable pod waits at most; kube-scheduler's `podMaxInUnschedulablePodsDuration`."""
NOMINATED = "is tried again soon if it preempted pods, else a plugin lets it wait there in Permit or PreBind"
"""What comes next for a nominated pod, if no pod on its node is terminating."""
_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
_COUNTS = re.compile(r"\d+(/\d+)? ")


def chosen_node(world: World, pod: PodInfo) -> tuple[str, list[str]] | None:
    """Return the node that the scheduler has chosen already, and what the pod waits for there before it is bound.

    None if its objects tell of no choice. PreBind writes them before the pod is bound. A scheduler that waits in Permit
    or PreBind writes the node into the pod; one that preempts writes a condition, too.
    """
    node, waits = "", []
    for claim in _volume_claims(world, pod):
        selected = annotations_of(claim).get(SELECTED_NODE, "")
        if selected and not is_fully_bound(claim):
            node = selected
            storage_class = world.state.objects[STORAGE_CLASS].get(class_of_claim(claim))
            provisioner = annotations_of(claim).get(_PROVISIONER) or getattr(storage_class, "provisioner", "its driver")
            waits.append(f"provisioner {provisioner} to provision the claim {claim.metadata.name}")
    for name in made_claim_names(pod.object):
        claim = world.state.objects[RESOURCE_CLAIM].get(f"{pod.namespace}/{name}")
        reserved = claim is not None and claim.status is not None and claim.status.reservedFor
        if reserved and any(each.uid == pod.uid for each in reserved) and allocation_of(claim) is not None:
            node = node or pod.nominated_node_name or ""
            waits.append(f"the devices of the claim {name}, which are allocated and reserved for it")
    if not waits and recorded(pod) is None:
        node = pod.nominated_node_name or ""
        waits.append("a plugin in Permit or PreBind")
    return (node, waits) if node and waits else None


def chosen_already(world: World, pod: PodInfo, result: Result) -> str:
    """Return which node the scheduler has chosen already, and what the pod waits for; "" if it has to choose again.

    `result`: of trying the pod now.
    """
    chosen = None if consumed_by(pod.annotations) else chosen_node(world, pod)  # such a pod has a place held there
    if chosen is None or not (result.fate is Fate.PLACED or _waits_on_a_node(result)):
        return ""
    node, waits = chosen
    return f"{node} was chosen already; the pod waits for {listed(waits)}"


def never_seen(pod: PodInfo) -> bool:
    """Whether no scheduler has tried a pod. One without a creation time may come from a manifest."""
    return recorded(pod) is None and pod.creation_timestamp is not None


def not_tried(pod: PodInfo) -> str:
    """Return why a pod that would be placed now is pending."""
    if never_seen(pod):
        return f"it would be placed now, but no scheduler has tried it: check that one named {pod.scheduler_name} runs"
    if pod.nominated_node_name:
        return f"it would be placed now: it is nominated to a node, and {NOMINATED}"
    return (
        "it would be placed now: the scheduler has not tried it since something changed, or its backoff has not ended"
    )


def recorded(pod: PodInfo) -> Any:
    """Return the PodScheduled condition that a scheduler, or the API server, has written; None if there is none."""
    return next((condition for condition in pod.status.conditions or () if condition.type == "PodScheduled"), None)


def progress_notes(world: World, pod: PodInfo, result: Result, message: str) -> Iterator[str]:
    """Yield what the pod's condition says of its way through the queue.

    `result`: of trying the pod now. `message`: why the pod stays pending.
    """
    condition, placed = recorded(pod), result.fate is Fate.PLACED
    if result.gated:
        return
    yield from _lost_lease(world, pod)
    if condition is None:
        if _waits_on_a_node(result) and chosen_node(world, pod) is not None:
            yield f"unless the plugin allows it, its attempt ends with: {message}"
        if never_seen(pod) and chosen_node(world, pod) is None:
            yield (
                "no scheduler has tried the pod yet: it has no PodScheduled condition; check that a scheduler named "
                f"{pod.scheduler_name} is running"
            )
        return
    if condition.status == "True":
        yield "its PodScheduled condition is True: the pod is being bound"
        return
    text = " ".join((condition.message or "").split())
    if text and condition.reason != "SchedulingGated" and _core(text) != _core(message):
        other = (
            "; none of these plugins rejects the pod now: either something has changed since then, or it is a message "
            "of another scheduler's plugin, which --config and --plugin name"
        )
        yield f'its condition {condition.reason} says: "{text}"{other if placed else ""}'
    if placed and condition.reason == "Unschedulable" and not pod.nominated_node_name:
        yield _next_try(world, condition)


def _lost_lease(world: World, pod: PodInfo) -> Iterator[str]:
    """Yield that the pod's scheduler doesn't renew its lease, if its name tells which one that is."""
    lease = lease_of(world, pod.scheduler_name)
    if lease is not None and lease.lost:
        holder = f" by {lease.holder}" if lease.holder else ""
        yield (
            f"no scheduler named {pod.scheduler_name} seems to be running: its lease {lease.key} was last "
            f"renewed at {rfc3339(lease.renewed)}{holder}"
        )


def _next_try(world: World, condition: Any) -> str:
    """When the scheduler tries a pod again that would be placed now."""
    since, now = condition.lastTransitionTime, world.handle.now()
    later = "the scheduler has no reason to try it again; it does so after 5 minutes at the latest"
    if since is None:
        return (
            "the scheduler tries it again within 10 seconds after an event that its plugins wait for; without such an "
            "event, it has no reason to try it again, and does so after 5 minutes at the latest"
        )
    if now - since <= MOST_UNSCHEDULABLE:
        later += f", at {rfc3339(since + MOST_UNSCHEDULABLE)} if it was not tried meanwhile"
    if now - since <= MOST_BACKOFF:  # which events came since isn't known
        return (
            f"it was rejected at {rfc3339(since)}: after an event that its plugins wait for, it is tried again when "
            f"its backoff ends, by {rfc3339(since + MOST_BACKOFF)} at the latest; without one, {later}"
        )
    return later


def _waits_on_a_node(result: Result) -> bool:
    """Whether the filters let a pending pod pass, and a plugin in Permit or PreBind doesn't."""
    return result.fate is Fate.PENDING and result.decision is not None and result.decision.node is not None


def _volume_claims(world: World, pod: PodInfo) -> Iterator[Any]:
    for volume in pod.volumes:
        claim = world.state.objects[PERSISTENT_VOLUME_CLAIM].get(f"{pod.namespace}/{claim_name(pod.name, volume)}")
        if claim is not None:
            yield claim


def _core(message: str) -> str:
    """A message without what changes with the size of the cluster, and without what PostFilter plugins say."""
    return _COUNTS.sub("", " ".join(message.split()).partition(". ")[0]).strip(". ")
