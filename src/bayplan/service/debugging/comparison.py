"""What the scheduler knows, compared with what the API server has.

Mirrors pkg/scheduler/backend/cache/debugger/comparer.go, but lists anew: an informer that has lost something shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator
from typing import NamedTuple

import msgspec

from bayplan.api.kinds import NODE, POD
from bayplan.client import Client
from bayplan.client.answers import Identity
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
    """As much of a node or a pod as is compared. One that is not `readable` only counts as being there."""

    metadata: _Metadata
    spec: _Spec = _Spec()
    readable: bool = True

    @classmethod
    def of(cls, raw: bytes) -> Listed:
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


_decode = msgspec.json.Decoder(Listed).decode


async def list_all(client: Client, live_pods: str) -> tuple[list[Listed], list[Listed]]:
    """All nodes, and all pods that the selector selects. Raises as `Client.list`."""
    nodes = await client.list(NODE, decode=Listed.of)
    pods = await client.list(POD, field_selector=live_pods, decode=Listed.of)
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
    uids: Counter[str] = Counter()
    for pod in pods:
        uids[pod.uid] += 1
        yield
    names = {node.metadata.name for node in nodes}
    for name in sorted(node.metadata.name for node in nodes if node.readable):
        row = state.table.row_of.get(name)
        if row is None or not state.table.live[row]:
            found.add(Difference("node", "", name, "", MISSING))
        yield
    for pod in pods:
        if uids[pod.uid] > 1 or not pod.readable:  # of pods with the same uid, the scheduler knows only one
            continue
        problem = _problem(pod, state, queue, scheduler_names)
        if problem:
            found.add(Difference("pod", pod.metadata.namespace, pod.metadata.name, pod.uid, problem))
        yield
    for name in list(state.table.row_of):
        yield from _redundant(name, names, uids, state, found)
    for queued in list(queue):
        if queued.uid not in uids and queue.get(queued.uid) is not None:
            found.add(Difference("pod", queued.pod.namespace, queued.pod.name, queued.uid, REDUNDANT))
        yield


def _problem(pod: Listed, state: ClusterState, queue: SchedulingQueue, scheduler_names: Container[str]) -> str:
    """What is wrong with what is known of a pod; "" if nothing is."""
    uid, node = pod.uid, pod.spec.nodeName
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
