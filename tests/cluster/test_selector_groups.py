"""Selector groups count pods by row, whether the pods or the group came first."""

import sys

import numpy as np
import pytest
from tests.support.tables import cases

from bayplan.core.api.labels import LabelSelector, Requirement
from bayplan.core.cluster import selector_groups
from bayplan.core.cluster.pod_selectors import PodSelector
from bayplan.testing.builders import make_cluster, make_node, make_pod, pod_affinity, pod_term

WEB = LabelSelector((Requirement("app", "=", ("web",)),))
FRONT = LabelSelector((Requirement("tier", "=", ("front",)),))
DEFAULT = frozenset({"default"})


def pod(name, node="n0", **labels):
    return make_pod(name, node=node, labels=labels)


@pytest.fixture
def state():
    return make_cluster(make_node("n0"), make_node("n1"), pod("a", app="web"), pod("b", app="db"), pod("c")).state


def counts(state, *selectors):
    group = state.table.group(selectors)
    return group.counts.dense(state.table.size).tolist(), group.active.dense(state.table.size).tolist()


@cases(
    "selectors, number",
    {
        "by label": ([PodSelector(DEFAULT, WEB)], 1),
        "in any namespace": ([PodSelector(None, WEB)], 1),
        "in another namespace": ([PodSelector(frozenset({"other"}), WEB)], 0),
        "in no namespace": ([PodSelector(frozenset(), WEB)], 0),
        "empty selector matches all pods": ([PodSelector(DEFAULT, LabelSelector())], 3),
        "no selector matches no pod": ([PodSelector(DEFAULT, None)], 0),
        "all of several selectors": ([PodSelector(DEFAULT, WEB), PodSelector(DEFAULT, FRONT)], 0),
    },
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


def equal(key, *values):
    return LabelSelector((Requirement.of(key, "in" if len(values) > 1 else "=", values),))


def test_many_groups_are_kept_at_once(state):
    keys = [(PodSelector(DEFAULT, equal("app", f"app-{number}")),) for number in range(600)]
    groups = [state.table.group(key) for key in keys]
    assert [state.table.group(key) for key in keys] == groups


def test_new_group_evaluates_no_selector_on_pods_without_its_labels(state, monkeypatch):
    for number in range(1000):
        state.set_pod(pod(f"other-{number}", app=f"app-{number}", tier="back"))
    evaluated = []
    matches = Requirement.matches
    monkeypatch.setattr(Requirement, "matches", lambda self, labels: evaluated.append(labels) or matches(self, labels))
    both = LabelSelector(equal("tier", "back").requirements + equal("app", "app-7", "app-8").requirements)
    assert counts(state, PodSelector(DEFAULT, both))[0] == [2, 0]
    state.set_pod(pod("more", "n1", app="app-7", tier="back"))
    assert counts(state, PodSelector(DEFAULT, both))[0] == [2, 1]
    assert len(evaluated) <= 2


def test_groups_that_no_later_attempt_reads_cost_later_pods_nothing(state):
    table = state.table
    for number in range(50):
        assert counts(state, PodSelector(DEFAULT, equal("app", f"app-{number}", "web")))[0] == [1, 0]
    assert len(table._groups) == 50
    assert len(table._groups._index) == 0
    state.set_pod(pod("d", "n1", app="web"))
    again = [PodSelector(DEFAULT, equal("app", f"app-{number}", "web")) for number in range(3)]
    for _ in range(2):
        assert [counts(state, each)[0] for each in again] == [[1, 1]] * 3
    assert len(table._groups._groups) == 3
    state.set_pod(pod("e", "n1", app="web"))
    assert [counts(state, each)[0] for each in again] == [[1, 2]] * 3


def test_unused_groups_are_evicted(state, monkeypatch):
    monkeypatch.setattr(selector_groups, "_SWEEP_INTERVAL", 10)
    monkeypatch.setattr(selector_groups, "_MIN_AGE", 100)
    table = state.table
    web = (PodSelector(DEFAULT, WEB),)
    for number in range(50):
        table.group((PodSelector(DEFAULT, equal("app", f"app-{number}")),))
    table.group(web)
    state.set_pod(pod("d"))
    kept = table.group(web)
    for number in range(200):
        state.set_pod(pod("d", app=f"app-{number % 50}"))
        assert table.group(web) is kept
    assert len(table._groups) == 1
    assert len(table._groups._index) == 1
    assert counts(state, *web)[0] == [1, 0]


def test_memory_of_groups_is_bounded(state, monkeypatch):
    monkeypatch.setattr(selector_groups, "_SWEEP_INTERVAL", 10)
    monkeypatch.setattr(selector_groups, "MAX_BYTES", 20_000)
    for number in range(500):
        state.set_node(make_node(f"n{number}"))
        state.set_pod(pod(f"p{number}", f"n{number}", app="web"))
    keys = [(PodSelector(DEFAULT, LabelSelector((Requirement("x", "notin", (str(n),)),))),) for n in range(100)]
    for key in keys:
        state.table.group(key)
    assert 0 < taken(state) == state.table._groups._usage.bytes <= 20_000 + 10 * 4 * state.table.capacity
    assert sum(counts(state, *keys[0])[0]) == 503


def taken(state):
    return sum(tally.bytes for group in state.table._groups for tally in (group.counts, group.terminating))


def test_groups_that_were_read_in_one_attempt_make_room_for_each_other(state, monkeypatch):
    """A pod with thousands of selectors of its own doesn't cost the groups of others, nor each later pod much."""
    monkeypatch.setattr(selector_groups, "NEW_CAPACITY", 10)
    table = state.table
    web = (PodSelector(DEFAULT, WEB),)
    table.group(web)
    state.set_pod(pod("d", app="web"))
    kept = table.group(web)
    for number in range(100):
        assert counts(state, PodSelector(DEFAULT, equal("app", f"app-{number}")))[0] == [0, 0]
    assert len(table._groups) == 11
    assert table.group(web) is kept
    assert counts(state, *web)[0] == [2, 0]


def test_usage_follows_the_counts(state, monkeypatch):
    monkeypatch.setattr(selector_groups, "CAPACITY", 4)
    table = state.table
    zones = np.arange(400) % 3

    def check():
        assert table._groups._usage.bytes == taken(state)

    for number in range(6):
        key = (PodSelector(DEFAULT, equal("app", f"app-{number}", "web")),)
        table.group(key)
        check()
    state.set_pod(pod("z"))
    group = table.group(key)
    check()
    for number in range(2, 300):
        state.set_node(make_node(f"n{number}"))
        state.set_pod(make_pod(f"p{number}", node=f"n{number}", labels={"app": "web"}, terminating=number % 2 == 0))
        group.active.sum_by(zones, 3)
        check()
    assert group.counts.few is None
    for number in range(2, 300):
        state.remove_pod(f"default-p{number}")
        check()
    assert group.counts.few == {0: 1}


def test_counts_of_an_evicted_group_stay_for_their_readers(state, monkeypatch):
    monkeypatch.setattr(selector_groups, "CAPACITY", 1)
    web = state.table.group((PodSelector(DEFAULT, WEB),)).counts
    counts(state, PodSelector(DEFAULT, FRONT))
    assert web.dense(2).tolist() == [1, 0]


def test_no_table_keeps_the_size_that_it_once_had(state):
    """Python's own dicts and sets do."""
    tables = [*tables_of(state.table._groups), *tables_of(state.table.terms), *tables_of(state.table._groups.pods)]
    before = [sys.getsizeof(table) for table in tables]
    for number in range(3000):
        away = pod_affinity(pod_term("zone", {"app": f"own-{number}"}), anti=True)
        labels = {"app": f"app-{number}", f"key-{number}": "yes"}
        state.set_pod(make_pod(f"own-{number}", node="n0", labels=labels, affinity=away))
        for kept in (number, number - 1):
            state.table.group((PodSelector(DEFAULT, equal("app", f"own-{kept}")),))
    assert max(sys.getsizeof(table) for table in tables) > 100_000
    for number in range(3000):
        state.remove_pod(f"default-own-{number}")
    groups = state.table._groups
    while groups._new:
        groups._evict_new(next(iter(groups._new)))
    while groups:
        groups._evict()
    assert all(sys.getsizeof(table) <= 2 * size + 16_384 for table, size in zip(tables, before, strict=True))


def tables_of(owner):
    """The dicts of an object, and of the selector index that it has."""
    names = getattr(owner, "__slots__", None) or vars(owner)
    own = [each for name in names if isinstance(each := getattr(owner, name), dict)]
    return own + (tables_of(owner._index) if hasattr(owner, "_index") else [])
