"""Dumps the scheduler's state: nodes with their pods, and the queue with what each pod waits for.

Mirrors pkg/scheduler/backend/cache/debugger/dumper.go.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from bayplan.core.api import requests
from bayplan.core.cluster.node_table import NodeTable
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.queue import Place, QueuedPod, SchedulingQueue
from bayplan.foundations.log_fields import LogField, about_node, about_pod
from bayplan.running.service.waiting_pods import AwaitedPods

log = logging.getLogger(__name__)

_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def dump(state: ClusterState, queue: SchedulingQueue, waiting: AwaitedPods, now: float) -> Iterator[None]:
    """Log the state, one line per step. The state may change between steps.

    `now` is the current time of the queue's clock.
    """
    yield from _dump_nodes(state)
    yield from _dump_queue(queue, now)
    for each in waiting:
        plugins = sorted(each.pending_plugins)
        log.info(
            "dump: pod %s waits in Permit of %s for node %s",
            about_pod(each.pod),
            LogField("plugins", plugins, ", ".join(plugins)),
            about_node(each.pod.node_name),
        )
        yield
    log.info("dump: end")


def _dump_nodes(state: ClusterState) -> Iterator[None]:
    table, nominations = state.table, state.nominations
    log.info(
        "dump: %d nodes, %d pods on them, of which %d are assumed; %d nodes have nominated pods",
        table.live_count,
        state.pod_count,
        state.assumed_count,
        len(nominations.nodes),
    )
    yield
    for name in sorted({*table.row_of, *nominations.nodes}):
        row = table.row_of.get(name)
        nominated = nominations.on(name)
        if row is None and not nominated:  # it was removed since
            continue
        pods = [] if row is None else list(table.pods[row].values())
        requested, allocatable = ({}, {}) if row is None else _amounts(table, row)
        log.info(
            "dump: node %s%s: requested %s; allocatable %s; pods: %s; nominated: %s",
            about_node(name),
            LogField("deleted", value := row is None or not table.live[row], " (deleted)" if value else ""),
            LogField("requested", requested, _text(requested)),
            LogField("allocatable", allocatable, _text(allocatable)),
            _pods("pods", pods, state),
            _pods("nominatedPods", nominated, state),
        )
        yield


def _dump_queue(queue: SchedulingQueue, now: float) -> Iterator[None]:
    pending = queue.pending_pods()
    log.info(
        "dump: queue: %d active, %d backoff, %d unschedulable, %d gated, %d in flight",
        pending.active,
        pending.backoff,
        pending.unschedulable,
        pending.gated,
        pending.in_flight,
    )
    yield
    by_place: dict[Place, list[QueuedPod]] = {place: [] for place in Place}
    for queued in list(queue):
        if queued.place is not None:
            by_place[queued.place].append(queued)
        yield
    for queued in (queued for pods in by_place.values() for queued in pods):
        if queued.place is None:  # it was removed since
            continue
        log.info(
            "dump: %s: pod %s, uid %s, priority %d, attempts %d, %s%s",
            LogField("queue", queued.place.value, queued.place.value),
            about_pod(queued.pod),
            LogField("uid", queued.uid, queued.uid),
            queued.pod.priority,
            queued.attempts,
            _waits_for(queued, now),
            LogField("message", queued.message, f": {queued.message}" if queued.message else ""),
        )
        yield


def _waits_for(queued: QueuedPod, now: float) -> LogField:
    """The reason why a pod is pending."""
    entry = queued.group or queued
    if queued.place is Place.GATED:
        text = f"gated by {(queued.gate or queued).gating_plugin}"
    elif queued.place is Place.PENDING:
        text = "waiting for the end of an attempt of its group"
    elif queued.place is Place.UNSCHEDULABLE:
        plugins = ", ".join(sorted(queued.unschedulable_plugins | queued.pending_plugins))
        text = f"waiting for {now - queued.queued_at:.1f} s for an event for {plugins}"
    elif queued.place is Place.BACKOFF:
        ends = entry.backoff_expiration
        left = "" if ends is None else f" for another {max(0.0, ends - now):.1f} s"
        text = f"backing off{left}"
    elif queued.place is Place.IN_FLIGHT:
        text = f"in an attempt for {now - queued.popped_at:.1f} s"
    else:
        text = f"ready for {now - entry.queued_at:.1f} s"
    return LogField("waits", text, text)


def _pods(name: str, pods: Iterable[PodInfo], state: ClusterState) -> LogField:
    """Pods with their names, uids and phases."""
    values, texts = [], []
    for pod in pods:
        assumed = state.is_assumed(pod.uid)
        value = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid, "phase": pod.phase}
        values.append({**value, "assumed": True} if assumed else value)
        texts.append(f"{pod.key} ({'assumed, ' if assumed else ''}{pod.phase}, uid {pod.uid})")
    return LogField(name, values, ", ".join(texts) or "none")


def _amounts(table: NodeTable, row: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The requested and allocatable resources of a node, with the field names of upstream's dump."""
    requested: dict[str, Any] = {}
    allocatable: dict[str, Any] = {}
    for amounts, column, pods in (
        (requested, table.requested, table.pod_count),
        (allocatable, table.allocatable, table.allowed_pods),
    ):
        amounts["milliCPU"] = int(column[table.resources[requests.CPU], row])
        amounts["memory"] = int(column[table.resources[requests.MEMORY], row])
        amounts["ephemeralStorage"] = int(column[table.resources[requests.EPHEMERAL_STORAGE], row])
        amounts["allowedPodNumber"] = int(pods[row])
        scalar = {
            name: int(column[index, row])
            for name, index in table.resources.items()
            if name not in {requests.CPU, requests.MEMORY, requests.EPHEMERAL_STORAGE} and column[index, row]
        }
        if scalar:
            amounts["scalarResources"] = scalar
    requested["pods"] = requested.pop("allowedPodNumber")
    return requested, allocatable


def _text(amounts: Mapping[str, Any]) -> str:
    if not amounts:
        return "nothing"
    scalar = "".join(f", {name} {amount}" for name, amount in amounts.get("scalarResources", {}).items())
    return (
        f"cpu {amounts['milliCPU']}m, memory {_binary(amounts['memory'])}, ephemeral-storage "
        f"{_binary(amounts['ephemeralStorage'])}, pods {amounts.get('pods', amounts.get('allowedPodNumber'))}{scalar}"
    )


def _binary(amount: int) -> str:
    """Bytes as a whole number with the largest possible suffix."""
    power = 0
    while amount and amount % 1024 == 0 and power < len(_BINARY) - 1:
        amount //= 1024
        power += 1
    return f"{amount}{_BINARY[power]}"
