"""The cluster as far as the scheduler knows: what the server told, and what was decided since.

Mirrors pkg/scheduler/backend/cache/cache.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lightkube.models.core_v1 import Node

from bayplan.cluster.affinity_terms import bound_terms
from bayplan.cluster.node_table import NodeTable
from bayplan.cluster.nodes import Nodes
from bayplan.cluster.nominations import Nominations
from bayplan.cluster.objects import Objects
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.preemptions import Preemptions


class ClusterState:
    """Nodes, the pods on them, nominations, preemptions that go on, and other objects.

    A pod on a node is in one of two states::

                 assume                 add (its bound self arrives)
        (none) --------->  assumed  ------------------------------->  added
           ^                  |                                      |    ^
           |     forget       |                                      |    | update
           +------------------+                                      +----+
           |                            remove                       |
           +---------------------------------------------------------+

    An assumed pod counts like an added one. It never expires: it is confirmed by the server, or forgotten by the
    binding that is certain to have failed. What the server says wins: a pod that turns up on another node than it was
    assumed on is moved there.
    """

    def __init__(self) -> None:
        self.table = NodeTable()
        self.nominations = Nominations()
        self.objects = Objects()
        self.preemptions = Preemptions(self.pod)
        self._pods: dict[str, PodInfo] = {}
        self._assumed: set[str] = set()
        self._thought_gone: dict[str, tuple[PodInfo, bool]] = {}
        """The pods that are thought to be gone for now, and whether they are assumed."""

    @property
    def nodes(self) -> Nodes:
        """All rows as they are now."""
        return Nodes(self.table)

    # What the server tells

    def set_node(self, node: Node, raw: bytes | None = None) -> None:
        """A node was added or changed; `raw`: its JSON, if wanted. Raises InvalidQuantity and changes nothing."""
        self.table.set_node(node, raw)

    def remove_node(self, name: str) -> None:
        """A node is gone. Its pods stay until the server says that they are gone too."""
        self.table.remove_node(name)

    def set_pod(self, pod: PodInfo) -> None:
        """A pod with a node was added or changed; one that has terminated takes nothing any more and is dropped."""
        if pod.terminated:
            self.remove_pod(pod.uid)
            return
        old = self._pods.get(pod.uid)
        if old is not None and _takes_the_same(old, pod):
            self.table.replace_pod(old, pod)
        else:
            if old is not None:
                self.table.remove_pod(old)
            self.table.add_pod(pod)
        self._pods[pod.uid] = pod
        self._assumed.discard(pod.uid)

    def remove_pod(self, uid: str) -> None:
        """A pod is gone. Unknown pods are ignored."""
        self._thought_gone.pop(uid, None)
        pod = self._pods.pop(uid, None)
        if pod is not None:
            self.table.remove_pod(pod)
            self._assumed.discard(uid)

    # What was decided here

    def assume(self, pod: PodInfo, node_name: str) -> PodInfo:
        """Count a pod on a node from now on. Returns the pod as it will be there.

        Raises ValueError for a pod that is on a node already: it would be counted twice.
        """
        if pod.uid in self._pods:
            raise ValueError(f"{pod.key} is on node {self._pods[pod.uid].node_name} already")
        assumed = pod.on_node(node_name)
        self.table.add_pod(assumed)
        self._pods[pod.uid] = assumed
        self._assumed.add(pod.uid)
        return assumed

    def forget(self, uid: str) -> None:
        """Undo `assume`. A pod that the server has confirmed meanwhile stays."""
        if uid in self._assumed or self._thought_gone.get(uid, (None, False))[1]:
            self.remove_pod(uid)

    # What is thought through

    @contextmanager
    def in_thought(self) -> Iterator[Thought]:
        """Change the state to see what would be; in the end it is as before, but for what happened meanwhile.

        Within a thought there may be another one, which ends first. What the server tells has to wait until they are
        over; a pod that is forgotten meanwhile stays forgotten.
        """
        thought = Thought(self, self._thought_gone)
        try:
            yield thought
        finally:
            for uid, nominated in reversed(thought.placed.items()):
                self.forget(uid)
                if nominated is not None:
                    self.nominations.add(*nominated)
            for uid in thought.removed:
                self._bring_back(uid)

    def _bring_back(self, uid: str) -> None:
        pod, assumed = self._thought_gone.pop(uid, (None, False))
        if pod is not None:
            self.table.add_pod(pod)
            self._pods[uid] = pod
            if assumed:
                self._assumed.add(uid)

    # Looking up

    def pod(self, uid: str) -> PodInfo | None:
        """A pod on a node, assumed or added."""
        return self._pods.get(uid)

    def is_assumed(self, uid: str) -> bool:
        """Whether a pod is assumed and not confirmed yet."""
        return uid in self._assumed

    @property
    def assumed_count(self) -> int:
        """How many pods are assumed."""
        return len(self._assumed)

    @property
    def pod_count(self) -> int:
        """How many pods are on nodes, assumed ones included."""
        return len(self._pods)


class Thought:
    """Changes of a cluster state that will be undone. `placed`: the pods that are thought to be on nodes, by uid, each
    with the nomination that it had before; `removed`: the uids of those that are thought to be gone.
    """

    def __init__(self, state: ClusterState, gone: dict[str, tuple[PodInfo, bool]]) -> None:
        self.placed: dict[str, tuple[PodInfo, str] | None] = {}
        self.removed: dict[str, None] = {}
        self._state = state
        self._gone = gone

    def place(self, pod: PodInfo, node_name: str) -> None:
        """Count a pod on a node."""
        nominations = self._state.nominations
        nominated = nominations.node_of(pod.uid)
        self._state.assume(pod, node_name)
        self.placed[pod.uid] = None if nominated is None else (pod, nominated)
        nominations.remove(pod.uid)

    def remove(self, uid: str) -> None:
        """Count a pod as gone."""
        pod, assumed = self._state.pod(uid), self._state.is_assumed(uid)
        if pod is not None:
            self._state.remove_pod(uid)
            self._gone[uid] = (pod, assumed)
            self.removed[uid] = None

    def bring_back(self, uid: str) -> None:
        """Count a pod as there again that this thought has removed."""
        if uid in self.removed:
            del self.removed[uid]
            self._state._bring_back(uid)  # noqa: SLF001 - a part of the state


def _takes_the_same(old: PodInfo, new: PodInfo) -> bool:
    """Whether two values of a pod weigh the same on the same node, so that no column changes between them."""
    return (
        old.node_name == new.node_name
        and old.requested == new.requested
        and old.nonzero_cpu == new.nonzero_cpu
        and old.nonzero_memory == new.nonzero_memory
        and old.host_ports == new.host_ports
        and old.labels == new.labels
        and old.terminating == new.terminating
        and old.volumes == new.volumes
        and bound_terms(old) == bound_terms(new)
    )
