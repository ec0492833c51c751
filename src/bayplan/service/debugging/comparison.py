"""Compares the scheduler's state with the API server.

Mirrors pkg/scheduler/backend/cache/debugger/comparer.go, but lists from the API server instead of the informers, so
that it also finds events that informers have missed.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import NamedTuple

import msgspec

from bayplan.api.kinds import NODE, POD
from bayplan.client import Client
from bayplan.cluster.state import ClusterState
from bayplan.queue import SchedulingQueue

MISSING = "missing: it is in the API server, but not in the scheduler's state"
REDUNDANT = "redundant: it is in the scheduler's state, but not in the API server"


class Difference(NamedTuple):
    """An object that differs. `kind` is node or pod; `namespace` and `uid` are "" for a node."""

    kind: str
    namespace: str
    name: str
    uid: str
    problem: str


class _Metadata(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    deletionTimestamp: str | None = None


class _Spec(msgspec.Struct, frozen=True, gc=False):
    nodeName: str = ""
    schedulerName: str = "default-scheduler"


class Listed(msgspec.Struct, frozen=True, gc=False):
    """The compared fields of a node or a pod."""

    metadata: _Metadata
    spec: _Spec = _Spec()


async def list_all(client: Client, live_pods: str) -> tuple[list[Listed], list[Listed]]:
    """All nodes, and all pods that match the field selector. Raises as `Client.list`, or msgspec.MsgspecError."""
    decode = msgspec.json.Decoder(Listed).decode
    nodes = await client.list(NODE, decode=decode)
    pods = await client.list(POD, field_selector=live_pods, decode=decode)
    return nodes.items, pods.items


def differences(
    nodes: list[Listed],
    pods: list[Listed],
    state: ClusterState,
    queue: SchedulingQueue,
    scheduler_names: Container[str],
    found: set[Difference],
) -> Iterator[None]:
    """Add the differences from the listed objects to `found`, one object per step. The state may change in between."""
    by_uid: dict[str, Listed] = {}
    for pod in pods:
        by_uid[pod.metadata.uid] = pod
        yield
    names = {node.metadata.name for node in nodes}
    for name in sorted(names):
        row = state.table.row_of.get(name)
        if row is None or not state.table.live[row]:
            found.add(Difference("node", "", name, "", MISSING))
        yield
    for pod in pods:
        problem = _problem(pod, state, queue, scheduler_names)
        if problem:
            found.add(Difference("pod", pod.metadata.namespace, pod.metadata.name, pod.metadata.uid, problem))
        yield
    for name in list(state.table.row_of):
        yield from _redundant(name, names, by_uid.keys(), state, found)
    for queued in list(queue):
        if queued.uid not in by_uid and queue.get(queued.uid) is not None:
            found.add(Difference("pod", queued.pod.namespace, queued.pod.name, queued.uid, REDUNDANT))
        yield


def _problem(pod: Listed, state: ClusterState, queue: SchedulingQueue, scheduler_names: Container[str]) -> str:
    """How the state differs from a listed pod; "" if it doesn't."""
    uid, node = pod.metadata.uid, pod.spec.nodeName
    known = state.pod(uid)
    if node:
        if known is None:
            return MISSING
        return "" if known.node_name == node else f"misplaced: it is on node {node}, not on {known.node_name}"
    if known is not None:
        return "" if state.is_assumed(uid) else f"misplaced: it is on no node, not on {known.node_name}"
    # Pods of other schedulers and terminating pods don't belong in the queue.
    ours = pod.spec.schedulerName in scheduler_names and pod.metadata.deletionTimestamp is None
    return MISSING if ours and queue.get(uid) is None else ""


def _redundant(
    name: str, nodes: Container[str], uids: Container[str], state: ClusterState, found: set[Difference]
) -> Iterator[None]:
    row = state.table.row_of.get(name)
    if row is None:
        return
    if state.table.live[row] and name not in nodes:
        found.add(Difference("node", "", name, "", REDUNDANT))
    for pod in state.table.pods[row].values():
        if pod.uid not in uids:
            found.add(Difference("pod", pod.namespace, pod.name, pod.uid, REDUNDANT))
    yield
