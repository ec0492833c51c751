"""Selector groups count pods by row, whether the pods or the group came first."""

from __future__ import annotations

import pytest

from bayplan.api.labels import LabelSelector, Requirement
from bayplan.cluster import selector_groups
from bayplan.cluster.selector_groups import PodSelector
from bayplan.testing.builders import make_cluster, make_node, make_pod

WEB = LabelSelector((Requirement("app", "=", frozenset({"web"})),))
FRONT = LabelSelector((Requirement("tier", "=", frozenset({"front"})),))
DEFAULT = frozenset({"default"})


def pod(name, node="n0", **labels):
    return make_pod(name, node=node, labels=labels)


@pytest.fixture
def state():
    return make_cluster(make_node("n0"), make_node("n1"), pod("a", app="web"), pod("b", app="db"), pod("c")).state


def counts(state, *selectors):
    group = state.table.group(selectors)
    return group.counts.rows[: state.table.size].tolist(), group.active.rows[: state.table.size].tolist()


@pytest.mark.parametrize(
    ("selectors", "number"),
    [
        pytest.param([PodSelector(DEFAULT, WEB)], 1, id="by label"),
        pytest.param([PodSelector(None, WEB)], 1, id="in any namespace"),
        pytest.param([PodSelector(frozenset({"other"}), WEB)], 0, id="in another namespace"),
        pytest.param([PodSelector(frozenset(), WEB)], 0, id="in no namespace"),
        pytest.param([PodSelector(DEFAULT, LabelSelector())], 3, id="empty selector matches all pods"),
        pytest.param([PodSelector(DEFAULT, None)], 0, id="no selector matches no pod"),
        pytest.param([PodSelector(DEFAULT, WEB), PodSelector(DEFAULT, FRONT)], 0, id="all of several selectors"),
    ],
)
def test_group_counts_matching_pods(state, selectors, number):
    assert counts(state, *selectors) == ([number, 0], [number, 0])


def test_groups_follow_pod_events(state):
    web = PodSelector(DEFAULT, WEB)
    assert counts(state, web) == ([1, 0], [1, 0])
    state.set_pod(pod("d", "n1", app="web"))
    state.set_pod(pod("b", app="web"))
    assert counts(state, web) == ([2, 1], [2, 1])
    state.set_pod(make_pod("a", node="n0", labels={"app": "web"}, terminating=True))
    assert counts(state, web) == ([2, 1], [1, 1])
    state.remove_pod("default-a")
    state.assume(make_pod("e", labels={"app": "web"}), "n1")
    assert counts(state, web) == ([1, 2], [1, 2])
    state.forget("default-e")
    state.remove_node("n1")
    assert counts(state, web) == ([1, 1], [1, 1])
    state.remove_pod("default-d")
    state.set_node(make_node("n2"))
    assert counts(state, web) == ([1, 0], [1, 0])


def test_groups_grow_with_the_table(state):
    web = PodSelector(DEFAULT, WEB)
    counts(state, web)
    for number in range(2, 200):
        state.set_node(make_node(f"n{number}"))
    state.set_pod(pod("last", "n199", app="web"))
    assert sum(counts(state, web)[0]) == 2


def test_evicted_group_is_recounted(state, monkeypatch):
    monkeypatch.setattr(selector_groups, "CAPACITY", 2)
    web, front, everything = (PodSelector(DEFAULT, selector) for selector in (WEB, FRONT, LabelSelector()))
    assert counts(state, web)[0] == [1, 0]
    counts(state, front)
    counts(state, everything)
    state.set_pod(pod("d", app="web", tier="front"))
    assert counts(state, web)[0] == [2, 0]
    assert counts(state, front)[0] == [1, 0]
    state.remove_pod("default-d")
    assert [counts(state, each)[0] for each in (web, front, everything)] == [[1, 0], [0, 0], [3, 0]]
