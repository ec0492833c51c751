"""Selector groups and affinity terms after random changes, against a plain recount of all pods."""

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule

from bayplan.core.api.labels import LabelSelector, Requirement
from bayplan.core.cluster import selector_groups, tally
from bayplan.core.cluster.affinity_terms import terms_of
from bayplan.core.cluster.pod_selectors import PodSelector, matches_all
from bayplan.core.cluster.state import ClusterState
from bayplan.testing.builders import make_node, make_pod, pod_affinity, pod_term

KEYS, VALUES, NAMESPACES = ["app", "tier", "own"], ["a", "b", ""], ["one", "two", "three"]
NAMES = [f"n{number}" for number in range(5)]

labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=3)
values = st.frozensets(st.sampled_from(VALUES), min_size=1, max_size=3)
requirements = st.one_of(
    st.builds(Requirement, st.sampled_from(KEYS), st.sampled_from(["in", "notin"]), values),
    st.builds(Requirement, st.sampled_from(KEYS), st.sampled_from(["exists", "!"])),
    st.builds(lambda key, value: Requirement(key, "=", (value,)), st.sampled_from(KEYS), st.sampled_from(VALUES)),
)
selectors = st.none() | st.builds(LabelSelector, st.lists(requirements, max_size=3).map(tuple))
namespaces = st.none() | st.frozensets(st.sampled_from(NAMESPACES), max_size=2)
keys = st.lists(st.builds(PodSelector, namespaces, selectors), max_size=2).map(tuple)
expressions = st.sampled_from(
    [
        {"matchLabels": {"app": "a"}},
        {"matchLabels": {"app": "a", "tier": "b"}},
        {"matchExpressions": [{"key": "own", "operator": "Exists"}]},
        {"matchExpressions": [{"key": "own", "operator": "NotIn", "values": ["a"]}]},
        {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}]},
        {},
    ]
)
scopes = st.sampled_from([{}, {"namespaces": ["two"]}, {"namespaceSelector": {}}])


class PodsAndSelectors(RuleBasedStateMachine):
    """The model: the pods in a dictionary, and the keys of the groups that were requested."""

    asked = Bundle("asked")

    def __init__(self):
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(selector_groups, "CAPACITY", 5)
        self.patch.setattr(selector_groups, "NEW_CAPACITY", 3)
        self.patch.setattr(selector_groups, "MAX_BYTES", 2000)
        self.patch.setattr(selector_groups, "_SWEEP_INTERVAL", 5)
        self.patch.setattr(selector_groups, "_MIN_AGE", 10)
        self.patch.setattr(tally, "_MIN_DENSE", 2)
        self.state = ClusterState()
        self.pods = {}
        self.keys = {}

    def teardown(self):
        self.patch.undo()
        for uid in self.pods:
            self.state.remove_pod(uid)
        groups = self.state.table._groups
        assert not list(groups.pods.label_sets)
        assert not groups.pods._with_label
        assert not groups.pods._with_value
        assert not groups.pods._in_namespace
        assert groups.pods._slots.size == len(groups.pods) == 0
        assert len(self.state.table.terms._index) == 0

    @rule(
        number=st.integers(0, 8),
        node=st.sampled_from(NAMES),
        namespace=st.sampled_from(NAMESPACES),
        labels=labels,
        terminating=st.booleans(),
        term=st.none() | st.tuples(expressions, scopes),
    )
    def set_pod(self, number, node, namespace, labels, terminating, term):
        affinity = None
        if term is not None:
            affinity = pod_affinity(pod_term("zone", labelSelector=term[0], **term[1]), anti=True)
        pod = make_pod(
            f"p{number}", namespace=namespace, node=node, labels=labels, terminating=terminating, affinity=affinity
        )
        for uid in [uid for uid, old in self.pods.items() if old.name == pod.name]:
            self.state.remove_pod(uid)
            del self.pods[uid]
        self.pods[pod.uid] = pod
        self.state.set_pod(pod)

    @rule(number=st.integers(0, 8))
    def remove_pod(self, number):
        for uid in [uid for uid, old in self.pods.items() if old.name == f"p{number}"]:
            self.state.remove_pod(uid)
            del self.pods[uid]

    @rule(target=asked, key=keys)
    def ask(self, key):
        self.check(key)
        return key

    @rule(key=asked)
    def ask_again(self, key):
        self.check(key)

    @rule(number=st.integers(0, 4))
    def change_node(self, number):
        if NAMES[number] in self.state.table.row_of and self.state.table.live[self.state.table.row_of[NAMES[number]]]:
            self.state.remove_node(NAMES[number])
        else:
            self.state.set_node(make_node(NAMES[number]))

    @precondition(lambda self: self.state.table.capacity < 256)
    @rule()
    def grow(self):
        names = [f"more-{number}" for number in range(self.state.table.capacity + 1)]
        for name in names:
            self.state.set_node(make_node(name))
        for name in names:
            self.state.remove_node(name)

    def check(self, key):
        table = self.state.table
        group = table.group(key)
        matching = [pod for pod in self.pods.values() if matches_all(key, pod)]
        assert self.by_node(group.counts) == Counter(pod.node_name for pod in matching)
        assert self.by_node(group.active) == Counter(pod.node_name for pod in matching if not pod.terminating)

    def by_node(self, counts):
        table = self.state.table
        numbers = counts.dense(table.size).tolist()
        assert len(numbers) == table.size
        return Counter({table.names[row]: number for row, number in enumerate(numbers) if number})

    @invariant()
    def cached_groups_equal_a_recount(self):
        groups = self.state.table._groups
        assert len(groups) <= selector_groups.CAPACITY
        current = {key: new.group for key, new in groups._new.items() if new.made_at == groups._pod_changes}
        for key, group in {**groups._groups, **current}.items():
            matching = [pod for pod in self.pods.values() if matches_all(key, pod)]
            assert self.by_node(group.counts) == Counter(pod.node_name for pod in matching)

    @invariant()
    def label_sets_belong_to_the_groups_that_match_them(self):
        groups = self.state.table._groups
        seen = Counter()
        for labels in groups.pods.label_sets:
            pod = next(
                pod for pod in self.pods.values() if (pod.namespace, pod.labels) == (labels.namespace, labels.labels)
            )
            matching = [group for key, group in groups._groups.items() if matches_all(key, pod)]
            assert sorted(map(id, groups.groups_of(labels))) == sorted(map(id, matching))
            seen[labels.key] = labels.pods
        assert seen == Counter((pod.namespace, tuple(sorted(pod.labels.items()))) for pod in self.pods.values())

    @invariant()
    def matching_terms_are_found(self):
        for namespace, labels in (("one", {"app": "a", "tier": "b"}), ("two", {"own": "a"}), ("three", {})):
            pod = make_pod("any", namespace=namespace, labels=labels)
            expected = Counter(
                (term, other.node_name)
                for other in self.pods.values()
                for term in terms_of(other)
                if term.matches(pod, {})
            )
            found = Counter()
            for column in self.state.table.terms.matching(pod, {}):
                for node, number in self.by_node(column.counts).items():
                    found[column.term, node] += number
            assert found == expected


TestPodsAndSelectors = PodsAndSelectors.TestCase
TestPodsAndSelectors.settings = settings(max_examples=60, stateful_step_count=30)
