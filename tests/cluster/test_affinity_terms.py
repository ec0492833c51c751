"""The affinity terms of the pods on nodes, grouped by distinct term."""

import gc
import tracemalloc

from bayplan.core.cluster.affinity_terms import PodTerms, terms_of
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.testing.builders import make_cluster, make_node, make_pod, pod_affinity, pod_term

WEB, DB = {"app": "web"}, {"app": "db"}
AWAY_FROM_WEB, AWAY_FROM_DB = (pod_affinity(pod_term("zone", labels), anti=True) for labels in (WEB, DB))


def matching(state, labels=WEB, namespace="default", namespace_labels=None):
    """By topology key: how many pods of each row have a term that matches the pod."""
    pod = make_pod("pending", labels=labels, namespace=namespace)
    columns = state.table.terms.matching(pod, namespace_labels or {})
    return {column.term.topology_key: column.counts.dense(state.table.size).tolist() for column in columns}


def there(name, node="n0", affinity=AWAY_FROM_WEB, **more):
    return make_pod(name, node=node, affinity=affinity, **more)


def test_pods_with_equal_terms_share_a_column():
    state = make_cluster(make_node("n0"), make_node("n1"), there("a"), there("b"), there("c", "n1")).state
    assert matching(state) == {"zone": [2, 1]}
    assert matching(state, DB) == {}
    assert matching(state, namespace="other") == {}
    state.remove_pod("default-b")
    assert matching(state) == {"zone": [1, 1]}
    state.remove_pod("default-a")
    state.remove_pod("default-c")
    assert matching(state) == {}


def test_duplicate_term_of_a_pod_counts_twice():
    term = pod_term("zone", WEB)
    state = make_cluster(make_node("n0"), there("a", affinity=pod_affinity(term, term, anti=True))).state
    assert matching(state) == {"zone": [2]}
    state.remove_pod("default-a")
    assert matching(state) == {}


def test_equal_terms_of_many_pods_are_stored_once():
    pods = [there(name) for name in "abc"]
    make_cluster(make_node("n0"), *pods)
    assert len({id(terms_of(pod)) for pod in pods}) == 1


def test_what_terms_take():
    """A pod may have 500 terms that no other pod has."""
    state, pods, terms = make_cluster(make_node("n0")).state, 20, 500
    documents = [
        there(f"p{each}", node="", affinity=pod_affinity(*own_terms(each, terms), anti=True)).raw
        for each in range(pods)
    ]
    gc.collect()
    tracemalloc.start()
    try:
        for raw in documents:
            pod = PodInfo.from_raw(raw)
            terms_of(pod)
            state.assume(pod, "n0")
            confirmed = PodInfo.from_raw(pod.on_node("n0").raw)
            confirmed.release()
            state.set_pod(confirmed)
        assert terms_of(confirmed) is terms_of(pod)
        taken = tracemalloc.get_traced_memory()[0] / (pods * terms)
        for number in range(pods):
            state.remove_pod(f"default-p{number}")
        del pod, confirmed
        left = tracemalloc.get_traced_memory()[0] / (pods * terms)
    finally:
        tracemalloc.stop()
    assert taken < 1200, "bytes; a term of the JSON takes about 150"
    assert left < 50


def own_terms(number, terms):
    return [pod_term("kubernetes.io/hostname", {"app": f"own-{number}-{each}"}) for each in range(terms)]


def test_invalid_terms_are_ignored():
    expression = {"key": "app", "operator": "Near", "values": ["web"]}
    broken = pod_affinity(pod_term("zone", labelSelector={"matchExpressions": [expression]}), anti=True)
    state = make_cluster(make_node("n0"), there("a", affinity=broken)).state
    assert matching(state) == {}
    state.remove_pod("default-a")


def test_pod_update_with_other_terms_is_recounted():
    state = make_cluster(make_node("n0"), there("a")).state
    state.set_pod(there("a", affinity=AWAY_FROM_DB))
    assert (matching(state, WEB), matching(state, DB)) == ({}, {"zone": [1]})
    state.remove_pod("default-a")
    assert (matching(state, WEB), matching(state, DB)) == ({}, {})


def test_bound_pod_replaces_its_assumed_version():
    state = make_cluster(make_node("n0")).state
    pod = make_pod("a", affinity=AWAY_FROM_WEB)
    state.assume(pod, "n0")
    bound = PodInfo.from_raw(there("a").raw)
    state.set_pod(bound)
    bound.release()
    assert matching(state) == {"zone": [1]}
    assert PodTerms in bound.cache
    state.remove_pod(pod.uid)
    assert matching(state) == {}
