"""What the scheduler knows, compared with what the API server has.

Mirrors pkg/scheduler/backend/cache/debugger/comparer.go, but lists anew: an informer that has lost something shows.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import NamedTuple

import msgspec

from bayplan.api.kinds import NODE, POD
from bayplan.client import Client
from bayplan.cluster.state import ClusterState
from bayplan.queue import SchedulingQueue

MISSING = "missing: the API server has it, and the scheduler does not know it"
REDUNDANT = "redundant: the scheduler knows it, and the API server has it not"


class Difference(NamedTuple):
    """One object that is not known as it is. `kind` is node or pod; `namespace` and `uid` are "" for a node."""

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
    """As much of a node or a pod as is compared."""

    metadata: _Metadata
    spec: _Spec = _Spec()


async def list_all(client: Client, live_pods: str) -> tuple[list[Listed], list[Listed]]:
    """All nodes, and all pods that the selector selects. Raises as `Client.list`, and msgspec.MsgspecError."""
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
    """Add to `found` what is not known as it was listed, an object a step: between two of them the state may change."""
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
    """What is wrong with what is known of a pod; "" if nothing is."""
    uid, node = pod.metadata.uid, pod.spec.nodeName
    known = state.pod(uid)
    if node:
        if known is None:
            return MISSING
        return "" if known.node_name == node else f"misplaced: it is on node {node}, and not on {known.node_name}"
    if known is not None:
        return "" if state.is_assumed(uid) else f"misplaced: it is on no node, and not on {known.node_name}"
    # Those that others place, or that go before they were placed, are none of the queue's business.
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
