"""Compares the scheduler's state with the API server.

Mirrors pkg/scheduler/backend/cache/debugger/comparer.go, but lists from the API server instead of the informers, so
that it also finds events that informers have missed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator
from typing import NamedTuple

import msgspec

from bayplan.core.api.kinds import NODE, POD
from bayplan.core.api.provisioning import is_provisioned
from bayplan.core.cluster.state import ClusterState
from bayplan.core.queue import SchedulingQueue
from bayplan.running.client.answers import Identity
from bayplan.running.client.client import Client

MISSING = "missing: it is in the API server, but not in the scheduler's state"
REDUNDANT = "redundant: it is in the scheduler's state, but not in the API server"


class ObjectDifference(NamedTuple):
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


class ComparedObject(msgspec.Struct, frozen=True, gc=False):
    """The compared fields of a node or a pod. For one that is not `readable`, only its existence is compared."""

    metadata: _Metadata
    spec: _Spec = _Spec()
    readable: bool = True

    @classmethod
    def of(cls, raw: bytes) -> ComparedObject:
        """Read a node or a pod, whatever it looks like."""
        try:
            return _decode(raw)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            identity = Identity.of(raw)
            namespace, _, name = identity.key.rpartition("/")
            return cls(_Metadata(name, namespace, identity.uid), readable=False)

    @property
    def uid(self) -> str:
        """The uid as `PodInfo` has it."""
        metadata = self.metadata
        return metadata.uid or f"{metadata.namespace or 'default'}/{metadata.name}"


_decode = msgspec.json.Decoder(ComparedObject).decode


async def list_all(client: Client, live_pods: str) -> tuple[list[ComparedObject], list[ComparedObject]]:
    """All nodes, and all pods that match the field selector. Raises as `Client.list`."""
    nodes = await client.list(NODE, decode=ComparedObject.of)
    pods = await client.list(POD, field_selector=live_pods, decode=ComparedObject.of)
    return nodes.items, pods.items


def differences(
    nodes: list[ComparedObject],
    pods: list[ComparedObject],
    state: ClusterState,
    queue: SchedulingQueue,
    scheduler_names: Container[str],
    found: set[ObjectDifference],
) -> Iterator[None]:
    """Add the differences from the listed objects to `found`, one object per step. The state may change in between."""
    uids: Counter[str] = Counter()
    for pod in pods:
        uids[pod.uid] += 1
        yield
    names = {node.metadata.name for node in nodes}
    for name in sorted(node.metadata.name for node in nodes if node.readable):
        row = state.table.row_of.get(name)
        if row is None or not state.table.live[row]:
            found.add(ObjectDifference("node", "", name, "", MISSING))
        yield
    for pod in pods:
        if uids[pod.uid] > 1 or not pod.readable:  # the scheduler stores only one pod per uid
            continue
        problem = _problem(pod, state, queue, scheduler_names)
        if problem:
            found.add(ObjectDifference("pod", pod.metadata.namespace, pod.metadata.name, pod.uid, problem))
        yield
    for name in list(state.table.row_of):
        yield from _redundant(name, names, uids, state, found)
    for queued in list(queue):
        if queued.uid not in uids and not is_provisioned(queued.pod) and queue.get(queued.uid) is not None:
            found.add(ObjectDifference("pod", queued.pod.namespace, queued.pod.name, queued.uid, REDUNDANT))
        yield


def _problem(pod: ComparedObject, state: ClusterState, queue: SchedulingQueue, scheduler_names: Container[str]) -> str:
    """How the state differs from a listed pod; "" if it doesn't."""
    uid, node = pod.uid, pod.spec.nodeName
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
    name: str, nodes: Container[str], uids: Container[str], state: ClusterState, found: set[ObjectDifference]
) -> Iterator[None]:
    row = state.table.row_of.get(name)
    if row is None:
        return
    if state.table.live[row] and name not in nodes:
        found.add(ObjectDifference("node", "", name, "", REDUNDANT))
    for pod in state.table.pods[row].values():
        if pod.uid not in uids and not is_provisioned(pod):
            found.add(ObjectDifference("pod", pod.namespace, pod.name, pod.uid, REDUNDANT))
    yield
