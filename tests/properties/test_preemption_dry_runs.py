"""Compares preemption with a plain search, and shows that the comparison finds faults of the dry runs."""

from collections import deque
from itertools import chain, cycle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_preemption import check_random_cluster

from bayplan.core.cluster.disruption_budgets import Budgets
from bayplan.core.cluster.pod_changes import Removals
from bayplan.core.plugins.default_preemption import dry_run
from bayplan.testing.builders import make_cluster, make_node, make_pod

pytestmark = pytest.mark.feature("DefaultPreemption: dry runs")

PROFILES = ("default-scheduler", "counted", "few-plugins")


@pytest.mark.parametrize("profile", PROFILES)
@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_preemption_equals_a_search_that_really_removes_pods(profile, seed):
    check_random_cluster(profile, seed)


class WidthOfFormerNodes(Removals):
    """What-ifs as rows that are as wide as the most pods of a node. A selection of nodes has the width of all nodes."""

    __slots__ = ("_present",)

    def __init__(self, pods):
        super().__init__(pods)
        self._present = np.arange(max(map(len, pods), default=0)) < self.sizes[:, None]

    def at(self, positions):
        some = WidthOfFormerNodes([self.pods[position] for position in positions.tolist()])
        some.removed, some._present = self.removed[self.places(positions)], self._present[positions]
        some._amounts = {key: amounts[positions] for key, amounts in self._amounts.items()}
        return some

    def ordered(self, order):
        pods = list(chain.from_iterable(self.pods))
        starts = zip(self.starts.tolist(), self.sizes.tolist(), strict=True)
        other = WidthOfFormerNodes([[pods[each] for each in order[start : start + size]] for start, size in starts])
        for key, amounts in self._amounts.items():
            other._amounts[key] = moved = np.zeros_like(amounts)
            moved[self._present] = amounts[self._present][order]
        return other

    def difference(self, key, amounts_of):
        removed = np.zeros(self._present.shape, dtype=np.bool_)
        removed[self._present] = self.removed
        if key not in self._amounts:
            self._amounts[key] = np.zeros(removed.shape, dtype=np.int64)
            self._amounts[key][self._present] = amounts_of(list(chain.from_iterable(self.pods)))
        return -np.add.reduce(self._amounts[key] * removed, axis=1)


def with_amounts_of_all_nodes(removals, positions):
    some = Removals([removals.pods[position] for position in positions.tolist()])
    some.removed, some._amounts = removals.removed[removals.places(positions)], removals._amounts
    return some


def with_all_pods_gone_again(removals, positions):
    some = at(removals, positions)
    some.removed[:] = True
    return some


def with_amounts_in_the_former_order(removals, order):
    other = ordered(removals, order)
    other._amounts = removals._amounts
    return other


def in_the_order_of_the_nodes(by_node):
    return np.arange(sum(map(len, by_node)))


at, ordered = Removals.at, Removals.ordered
FAULTS = {
    "a selection is as wide as the nodes that it came from": (dry_run, "Removals", WidthOfFormerNodes, "broadcast"),
    "a selection has the amounts of all nodes": (Removals, "at", with_amounts_of_all_nodes, "broadcast"),
    "a selection forgets which pods are restored": (Removals, "at", with_all_pods_gone_again, None),
    "amounts stay in the former order": (Removals, "ordered", with_amounts_in_the_former_order, None),
    "pods aren't sorted by importance": (dry_run, "importance_order", in_the_order_of_the_nodes, None),
    "budgets protect nothing": (Budgets, "violations", lambda _, pods: [False] * len(pods), None),
}
"""By fault: what is replaced by what, and what the message of a failure has, if it has one."""
ENOUGH = 150
"""How many random clusters show each fault; a run of the property looks at 120."""


@pytest.mark.parametrize("fault", FAULTS)
def test_the_property_finds_faults_of_dry_runs(monkeypatch, fault):
    *change, message = FAULTS[fault]
    monkeypatch.setattr(*change)
    with pytest.raises(AssertionError, match=message):
        deque(map(check_random_cluster, cycle(PROFILES), range(ENOUGH)), maxlen=0)


def test_preemption_repeats_the_dry_run_of_a_node_whose_pod_has_started():
    def victim(name, node, started):
        status = {"startTime": f"2026-01-01T00:00:{started:02}Z"}
        return make_pod(name, node=node, cpu="3", priority=0, status=status)

    cluster = make_cluster(make_node("n0", cpu="3"), make_node("n1", cpu="3"))
    cluster.state.set_pod(victim("a", "n0", 1))
    cluster.state.set_pod(victim("b", "n1", 2))
    assert cluster.decide(make_pod("vip", cpu="3", priority=1)).nominated_node == "n1"
    cluster.state.set_pod(victim("a", "n0", 3))
    assert cluster.decide(make_pod("other", cpu="3", priority=1)).nominated_node == "n0"
