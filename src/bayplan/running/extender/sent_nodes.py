"""The nodes of an extender without a connection to the cluster: those in requests, without their pods.

Each version of a node is read once, and kept for the requests that follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
from lightkube.models.core_v1 import Node

from bayplan.core.api.objects import decode
from bayplan.core.cluster.state import ClusterState
from bayplan.running.client.answers import Identity
from bayplan.running.extender.problems import Unanswerable
from bayplan.running.extender.wire import ExtenderArgs

KEPT = 10_000
"""The number of nodes to keep in addition to those of the latest request."""


@dataclass(frozen=True, slots=True)
class RequestedNodes:
    """The nodes of a request in its order. `unusable` has the invalid ones, with the reasons."""

    names: list[str]
    unusable: dict[str, str] = field(default_factory=dict)


class SentNodes:
    """Adds the nodes of requests to the state, each version of a node once."""

    ready = True

    def __init__(self, state: ClusterState, *, kept: int = KEPT) -> None:
        self._state = state
        self._kept = kept
        self._versions: dict[str, Identity] = {}
        """The version of each node in the state, the least recently sent one first."""

    def requested(self, args: ExtenderArgs) -> RequestedNodes:
        """Add the nodes of a request to the state and return them. Raises Unanswerable if it has only names."""
        if args.Nodes is None:
            if args.NodeNames is None:
                raise Unanswerable("the request has neither Nodes nor NodeNames")
            raise Unanswerable(
                "the request has only names of nodes (nodeCacheCapable: true), but this extender does not watch the "
                "cluster: start it with --kubeconfig FILE or --watch, or set nodeCacheCapable: false"
            )
        requested = RequestedNodes([])
        for index, raw in enumerate(args.Nodes.items):
            identity = Identity.of(raw)
            if not identity.key:
                raise Unanswerable(f"Nodes.items[{index}] is not a node with a name")
            requested.names.append(identity.key)
            problem = self._add(identity, raw)
            if problem:
                requested.unusable[identity.key] = problem
        self._forget(len(requested.names))
        return requested

    def _add(self, identity: Identity, raw: msgspec.Raw) -> str:
        """Add a node to the state. Returns the error, or ""."""
        known = self._versions.pop(identity.key, None)
        if known is None or known != identity or not identity.resource_version:
            try:
                self._state.set_node(decode(Node, bytes(raw)))
            except ValueError as error:
                self._state.remove_node(identity.key)
                return f"the node is invalid: {error}"
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
