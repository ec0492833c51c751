"""The scheduler's view of the cluster: the objects that the API server reported, and the assumed pods.

An assumed pod counts on its node at once. The watch confirms it, or it is forgotten once its binding is certain to have
failed; it never expires. Mirrors pkg/scheduler/backend/cache/cache.go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import contextmanager
from functools import partial

from lightkube.models.core_v1 import Node

from bayplan.core.cluster.affinity_terms import bound_terms
from bayplan.core.cluster.node_table import NodeTable
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.nominations import Nominations
from bayplan.core.cluster.objects import ObjectStores
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.preemptions import Preemptions


class ClusterState:
    """Nodes, the pods on them, nominations, running preemptions, and other objects.

    A pod on a node is in one of two states::

                 assume                 add (the watch reports it bound)
        (none) --------->  assumed  ------------------------------->  added
           ^                  |                                      |    ^
           |     forget       |                                      |    | update
           +------------------+                                      +----+
           |                            remove                       |
           +---------------------------------------------------------+

    An assumed pod counts like an added one. It never expires: the API server confirms it, or it is forgotten once its
    binding is certain to have failed. The API server is right: a pod that is reported on another node than it was
    assumed on is moved there.
    """

    def __init__(self) -> None:
        self.table = NodeTable()
        self.nominations = Nominations()
        self.objects = ObjectStores()
        self.preemptions = Preemptions(self.table.pod)
        self._assumed: set[str] = set()
        self._hypothetically_gone: dict[str, tuple[PodInfo, bool]] = {}
        """Pods that a what-if removed, and whether they were assumed."""

    @property
    def nodes(self) -> Nodes:
        """All rows as they are now."""
        return Nodes(self.table)

    # Changes reported by the API server

    def set_node(self, node: Node, raw: bytes | None = None) -> None:
        """Add or update a node. `raw`: its JSON, for extenders. Raises InvalidQuantity and changes nothing."""
        self.table.set_node(node, raw)

    def remove_node(self, name: str) -> None:
        """Remove a node. Its pods stay until the API server reports their deletion."""
        self.table.remove_node(name)

    def set_pod(self, pod: PodInfo) -> None:
        """Add or update a pod that has a node; a terminated pod uses nothing and is removed."""
        if pod.terminated:
            self.remove_pod(pod.uid)
            return
        old = self.table.pod(pod.uid)
        if old is not None and _takes_the_same(old, pod):
            self.table.replace_pod(pod)
        else:
            if old is not None:
                self.table.remove_pod(pod.uid)
            self.table.add_pod(pod)
        self._assumed.discard(pod.uid)
        if pod.terminating:
            self.preemptions.left(pod.uid)

    def remove_pod(self, uid: str) -> None:
        """Remove a pod. Unknown pods are ignored."""
        self._hypothetically_gone.pop(uid, None)
        if uid in self.table.row_of_pod:
            self.table.remove_pod(uid)
            self._assumed.discard(uid)
            self.preemptions.left(uid)

    # Assumptions

    def assume(self, pod: PodInfo, node_name: str) -> PodInfo:
        """Count a pod on a node from now on. Returns the pod with its node.

        Raises ValueError for a pod that is on a node already: it would count twice.
        """
        known = self.table.pod(pod.uid)
        if known is not None:
            raise ValueError(f"{pod.key} is on node {known.node_name} already")
        assumed = pod.on_node(node_name)
        self.table.add_pod(assumed)
        self._assumed.add(pod.uid)
        return assumed

    def forget(self, uid: str) -> None:
        """Undo `assume`, unless the API server has confirmed the pod since."""
        if uid in self._assumed or self._hypothetically_gone.get(uid, (None, False))[1]:
            self.remove_pod(uid)

    # What-ifs

    @contextmanager
    def what_if(self) -> Iterator[StateWhatIf]:
        """Make temporary changes of the state; on exit, they are undone.

        What-ifs may be nested. Watch events must wait until they end; a pod that is forgotten inside stays forgotten.
        """
        what_if = StateWhatIf(self, self._hypothetically_gone)
        try:
            yield what_if
        finally:
            what_if.end()

    def _restore(self, uid: str) -> None:
        pod, assumed = self._hypothetically_gone.pop(uid, (None, False))
        if pod is not None:
            self.table.add_pod(pod)
            if assumed:
                self._assumed.add(uid)

    # Queries

    @property
    def version(self) -> Hashable:
        """Changes with everything that decisions depend on, except the pod itself."""
        return self.table.version, self.table.replaced, self.nominations.version, self.objects.version

    def pod(self, uid: str) -> PodInfo | None:
        """A pod on a node, assumed or added."""
        return self.table.pod(uid)

    def is_assumed(self, uid: str) -> bool:
        """Whether a pod is assumed and not confirmed."""
        return uid in self._assumed

    @property
    def assumed(self) -> frozenset[str]:
        """The uids of the pods that are assumed and not confirmed."""
        return frozenset(self._assumed)

    @property
    def assumed_count(self) -> int:
        """How many pods are assumed."""
        return len(self._assumed)

    @property
    def pod_count(self) -> int:
        """How many pods are on nodes, assumed ones included."""
        return len(self.table.row_of_pod)


class StateWhatIf:
    """Changes of a cluster state that will be undone.

    `removed`: the uids of removed pods.
    """

    def __init__(self, state: ClusterState, gone: dict[str, tuple[PodInfo, bool]]) -> None:
        self.removed: dict[str, None] = {}
        self._undo: list[Callable[[], object]] = []
        self._state = state
        self._gone = gone

    def place(self, pod: PodInfo, node_name: str) -> PodInfo:
        """Count a pod on a node. Returns the pod with its node."""
        nominations = self._state.nominations
        nominated = nominations.node_of(pod.uid)
        placed = self._state.assume(pod, node_name)
        if nominated is not None:
            self._undo.append(partial(nominations.add, pod, nominated))
        self._undo.append(partial(self._state.forget, pod.uid))
        nominations.remove(pod.uid)
        return placed

    def changed(self, undo: Callable[[], object]) -> None:
        """Record another change, and the function that undoes it. The latest change is undone first."""
        self._undo.append(undo)

    def mark(self) -> int:
        """Return the current point in the sequence of changes, for `undo_to`."""
        return len(self._undo)

    def undo_to(self, mark: int) -> None:
        """Undo all changes since `mark` but removals of pods."""
        while len(self._undo) > mark:
            self._undo.pop()()

    def end(self) -> None:
        """Undo all changes."""
        self.undo_to(0)
        for uid in self.removed:
            self._state._restore(uid)  # noqa: SLF001 - a part of the state

    def remove(self, uid: str) -> None:
        """Count a pod as gone."""
        pod, assumed = self._state.pod(uid), self._state.is_assumed(uid)
        if pod is not None:
            self._state.remove_pod(uid)
            self._gone[uid] = (pod, assumed)
            self.removed[uid] = None

    def restore(self, uid: str) -> None:
        """Count a pod again that this what-if removed."""
        if uid in self.removed:
            del self.removed[uid]
            self._state._restore(uid)  # noqa: SLF001 - a part of the state

    def remove_only(self, pods: Collection[PodInfo]) -> None:
        """Count exactly these pods as gone."""
        wanted = {pod.uid for pod in pods}
        for uid in [uid for uid in self.removed if uid not in wanted]:
            self.restore(uid)
        for pod in pods:
            if pod.uid not in self.removed:
                self.remove(pod.uid)


def _takes_the_same(old: PodInfo, new: PodInfo) -> bool:
    """Whether two versions of a pod use the same of the same node, and have the same affinity terms."""
    return (
        old.node_name == new.node_name
        and old.requested == new.requested
        and old.nonzero_cpu == new.nonzero_cpu
        and old.nonzero_memory == new.nonzero_memory
        and old.host_ports == new.host_ports
        and old.volumes == new.volumes
        and old.counted_claims == new.counted_claims
        and bound_terms(old) == bound_terms(new)
    )
