"""The orders in which a scheduler may go through the nodes of a large cluster. It scores only the first feasible ones.

Its place in an order isn't known from outside. So a choice is excused if some place exists from which it is the best.
"""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import chain, zip_longest
from typing import Any

import numpy as np

from bayplan.answers.judging.choices import score_at
from bayplan.core.api.kinds import NODE
from bayplan.core.api.well_known_labels import BETA_ZONE, ZONE
from bayplan.core.cluster.columns import Rows
from bayplan.core.cluster.state import ClusterState
from bayplan.core.framework.profile import Profile
from bayplan.core.scheduling import Decision
from bayplan.core.scheduling.sampling import enough_nodes, feasible_nodes_to_find

_REGION = "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"
_ZONE = ZONE, BETA_ZONE
_NEVER = datetime.min.replace(tzinfo=UTC)


class NodeOrders:
    """The orders of a cluster's nodes: a node of each zone in turn, those of a zone by creation, or by name.

    kube-scheduler adds the nodes that are there at its start by name, and later ones as they are created. Mirrors
    nodeTree (pkg/scheduler/backend/cache/node_tree.go). Bayplan itself goes through the rows of its table, where it
    looks at only some of the nodes.
    """

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._orders: list[Rows] = []
        self._version = -1

    def may_leave_out(self, decision: Decision, node: str, profile: Profile) -> bool:
        """Return whether as many feasible nodes in a row as a scheduler looks for include a node and no better one.

        A scheduler begins where it ended for the pod before.
        """
        table, scores = self._state.table, decision.scores
        mine = score_at(table, decision, node)
        if mine is None or scores is None:
            return False
        better, row = np.zeros(table.size, dtype=np.int8), table.row_of[node]
        better[scores.rows] = 1 + (scores.total > mine)
        total, own = table.live_count, np.flatnonzero(table.live[: table.size])
        needed = feasible_nodes_to_find(profile, total)
        return needed < total and (
            any(_gap(better[order], order, row) >= needed for order in self.orders())
            or _gap(better[own], own, row) >= enough_nodes(profile, total)
        )

    def chance(self, feasible: Rows, wanted: Rows, needed: int) -> float:
        """Return how often `needed` feasible nodes in a row include at least one that is wanted.

        It begins at each feasible node equally often, and with each of the orders.
        """
        kinds = np.zeros(self._state.table.size, dtype=np.int8)
        kinds[feasible] = 1
        kinds[wanted] = 2
        missed = [_missed(kinds[order], needed) for order in self.orders()]
        return 1 - sum(missed) / len(missed) / len(feasible)

    def orders(self) -> list[Rows]:
        """Return the rows of all nodes in each order that kube-scheduler may have."""
        table = self._state.table
        if self._version != table.nodes_version:
            self._version = table.nodes_version
            known = self._state.objects[NODE].known
            nodes = [(row, name, known(name)) for name, row in table.row_of.items() if table.live[row]]
            self._orders = [_by_zone(sorted(nodes, key=key)) for key in (_creation, _name)]
        return self._orders


def _gap(better: np.ndarray[Any, np.dtype[np.int8]], order: Rows, row: int) -> int:
    """How many feasible nodes there are between the closest better ones before and after a row.

    `better`: by place in the order, 2 for these, and 1 for other feasible nodes.
    """
    feasible = better > 0
    place = int(np.flatnonzero(order[feasible] == row)[0])
    places, count = np.flatnonzero(better[feasible] > 1), int(feasible.sum())
    return int(((places - place) % count).min() + ((place - places) % count).min()) - 1 if len(places) else count


def _missed(kinds: np.ndarray[Any, np.dtype[np.int8]], needed: int) -> int:
    """How many runs of `needed` feasible nodes have no wanted one.

    `kinds`: by place in the order, 2 for these, and 1 for other feasible nodes.
    """
    found = kinds[kinds > 0]
    places = np.flatnonzero(found == 2)
    if not len(places):
        return len(found)
    gaps = np.diff(np.append(places, places[0] + len(found))) - 1
    return int(np.maximum(gaps - needed + 1, 0).sum())


def _by_zone(nodes: list[tuple[int, str, Any]]) -> Rows:
    zones: dict[tuple[str, str], list[int]] = {}
    for row, _, node in nodes:
        labels = (node.metadata.labels if node.metadata is not None else None) or {}
        region, zone = (next((labels[key] for key in keys if key in labels), "") for keys in (_REGION, _ZONE))
        zones.setdefault((region, zone), []).append(row)
    in_turn = chain.from_iterable(zip_longest(*zones.values()))
    return np.array([row for row in in_turn if row is not None], dtype=np.int64)


def _name(node: tuple[int, str, Any]) -> str:
    return node[1]


def _creation(node: tuple[int, str, Any]) -> tuple[datetime, str]:
    metadata = node[2].metadata
    created = metadata.creationTimestamp if metadata is not None else None
    return created or _NEVER, node[1]
