"""What an extender knows without a connection to the cluster: the nodes that it is sent, without their pods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
from lightkube.models.core_v1 import Node

from bayplan.api.objects import decode
from bayplan.client.answers import Identity
from bayplan.cluster.state import ClusterState
from bayplan.extender.problems import Unanswerable
from bayplan.extender.wire import ExtenderArgs

KEPT = 10_000
"""So many nodes are remembered beside those of the latest request: a request about some forgets no others."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The nodes that a request is about, in its order. `unusable`: those that cannot be read, with the reason."""

    names: list[str]
    unusable: dict[str, str] = field(default_factory=dict)


class SentNodes:
    """Takes nodes over into the state as they are sent, each version of a node once."""

    ready = True

    def __init__(self, state: ClusterState, *, kept: int = KEPT) -> None:
        self._state = state
        self._kept = kept
        self._versions: dict[str, Identity] = {}
        """The version of each node in the state, the one that was sent the longest time ago first."""

    def asked(self, args: ExtenderArgs) -> Asked:
        """The nodes of a request, which are known from now on. Raises Unanswerable where it has their names alone."""
        if args.Nodes is None:
            if args.NodeNames is None:
                raise Unanswerable("the request has neither Nodes nor NodeNames")
            raise Unanswerable(
                "the request has only names of nodes (nodeCacheCapable: true), and this extender does not watch the "
                "cluster: start it with --kubeconfig FILE or --watch, or set nodeCacheCapable: false"
            )
        asked = Asked([])
        for index, raw in enumerate(args.Nodes.items):
            identity = Identity.of(raw)
            if not identity.key:
                raise Unanswerable(f"Nodes.items[{index}] is no node with a name")
            asked.names.append(identity.key)
            problem = self._learn(identity, raw)
            if problem:
                asked.unusable[identity.key] = problem
        self._forget(len(asked.names))
        return asked

    def _learn(self, identity: Identity, raw: msgspec.Raw) -> str:
        """Take a node over. Returns what is wrong with it, if anything is."""
        known = self._versions.pop(identity.key, None)
        if known is None or known != identity or not identity.resource_version:
            try:
                self._state.set_node(decode(Node, bytes(raw)))
            except ValueError as error:
                self._state.remove_node(identity.key)
                return f"the node cannot be read: {error}"
        self._versions[identity.key] = identity
        return ""

    def _forget(self, just_sent: int) -> None:
        while len(self._versions) > self._kept + just_sent:
            name = next(iter(self._versions))
            del self._versions[name]
            self._state.remove_node(name)


def names_of(items: Sequence[msgspec.Raw]) -> list[str]:
    """The names of whole nodes."""
    return [Identity.of(raw).key for raw in items]
