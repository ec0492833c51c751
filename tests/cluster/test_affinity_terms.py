"""The affinity terms of the pods that are there, grouped by what they say."""

from __future__ import annotations

from bayplan.cluster.affinity_terms import PodTerms, terms_of
from bayplan.cluster.pod_info import PodInfo
from bayplan.testing.builders import make_cluster, make_node, make_pod, pod_affinity, pod_term

WEB, DB = {"app": "web"}, {"app": "db"}
AWAY_FROM_WEB, AWAY_FROM_DB = (pod_affinity(pod_term("zone", labels), anti=True) for labels in (WEB, DB))


def meant(state, labels=WEB, namespace="default", namespace_labels=None):
    """By topology key: how many pods of each row have a term that means such a pod."""
    pod = make_pod("pending", labels=labels, namespace=namespace)
    columns = state.table.terms.matching(pod, namespace_labels or {})
    return {column.term.topology_key: column.counts.rows[: state.table.size].tolist() for column in columns}


def there(name, node="n0", affinity=AWAY_FROM_WEB, **more):
    return make_pod(name, node=node, affinity=affinity, **more)


def test_pods_with_the_same_term_are_counted_together():
    state = make_cluster(make_node("n0"), make_node("n1"), there("a"), there("b"), there("c", "n1")).state
    assert meant(state) == {"zone": [2, 1]}
    assert meant(state, DB) == {}
    assert meant(state, namespace="other") == {}
    state.remove_pod("default-b")
    assert meant(state) == {"zone": [1, 1]}
    state.remove_pod("default-a")
    state.remove_pod("default-c")
    assert meant(state) == {}


def test_a_term_that_a_pod_has_twice_counts_twice():
    term = pod_term("zone", WEB)
    state = make_cluster(make_node("n0"), there("a", affinity=pod_affinity(term, term, anti=True))).state
    assert meant(state) == {"zone": [2]}
    state.remove_pod("default-a")
    assert meant(state) == {}


def test_the_version_grows_with_distinct_terms_only():
    state = make_cluster(make_node("n0"), there("a")).state
    terms = state.table.terms
    before = terms.version
    state.set_pod(there("b"))
    assert terms.version == before
    state.set_pod(there("c", affinity=AWAY_FROM_DB))
    assert terms.version == before + 1
    state.remove_pod("default-c")
    assert terms.version == before + 2


def test_equal_terms_of_many_pods_are_kept_once():
    pods = [there(name) for name in "abc"]
    make_cluster(make_node("n0"), *pods)
    assert len({id(terms_of(pod)) for pod in pods}) == 1


def test_terms_that_cannot_be_read_are_left_out():
    expression = {"key": "app", "operator": "Near", "values": ["web"]}
    broken = pod_affinity(pod_term("zone", labelSelector={"matchExpressions": [expression]}), anti=True)
    state = make_cluster(make_node("n0"), there("a", affinity=broken)).state
    assert meant(state) == {}
    state.remove_pod("default-a")


def test_a_pod_that_says_something_else_is_counted_anew():
    state = make_cluster(make_node("n0"), there("a")).state
    state.set_pod(there("a", affinity=AWAY_FROM_DB))
    assert (meant(state, WEB), meant(state, DB)) == ({}, {"zone": [1]})
    state.remove_pod("default-a")
    assert (meant(state, WEB), meant(state, DB)) == ({}, {})


def test_an_assumed_pod_and_its_bound_self_are_one():
    state = make_cluster(make_node("n0")).state
    pod = make_pod("a", affinity=AWAY_FROM_WEB)
    state.assume(pod, "n0")
    bound = PodInfo.from_raw(there("a").raw)
    state.set_pod(bound)
    bound.release()
    assert meant(state) == {"zone": [1]}
    assert PodTerms in bound.cache
    state.remove_pod(pod.uid)
    assert meant(state) == {}
