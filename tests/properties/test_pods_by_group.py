"""Compares the index of pods by group with a plain recount, after random changes."""

import json

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from bayplan.core.cluster.objects import ObjectStore
from bayplan.core.cluster.pod_groups import PodsByGroup
from bayplan.testing.builders import make_pod
from bayplan.testing.contract.examples import pod_info

NAMES, GROUPS = ["a", "b", "c", "d"], ["red", "blue"]
names, groups = st.sampled_from(NAMES), st.sampled_from(GROUPS)


class Groups(RuleBasedStateMachine):
    """The model: the pods, and the nodes of permitted ones by group and UID."""

    def __init__(self):
        super().__init__()
        self.store = ObjectStore()
        self.by_group = PodsByGroup(self.store, self.key_of)
        self.pods = {}
        self.permitted = {group: {} for group in GROUPS}
        self.seen = []

    @staticmethod
    def key_of(pod):
        return pod.labels.get("group")

    @rule(
        name=names,
        group=st.sampled_from([*GROUPS, ""]),
        node=st.sampled_from(["", "", "n1", "n2"]),
        terminating=st.booleans(),
        second=st.integers(0, 2),
        uid=st.sampled_from(["first", "second"]),
    )
    def put(self, name, group, node, terminating, second, uid):
        labels = {"group": group} if group else {}
        document = json.loads(make_pod(name, labels=labels, node=node, terminating=terminating).raw)
        document["metadata"] |= {"uid": f"{name}-{uid}", "creationTimestamp": f"2026-01-01T00:00:0{second}Z"}
        pod = pod_info(document)
        old = self.pods.get(name)
        if old is not None and (self.key_of(old), old.uid) != (self.key_of(pod), pod.uid):
            self._forget(old)
        if node and group:
            self.permitted[group].pop(pod.uid, None)
        self.pods[name] = pod
        self.store.set(pod.key, pod)

    @rule(name=names)
    def remove(self, name):
        if name in self.pods:
            self._forget(self.pods.pop(name))
            self.store.remove(f"default/{name}")

    def _forget(self, pod):
        if group := self.key_of(pod):
            self.permitted[group].pop(pod.uid, None)

    @rule(group=groups, name=names, uid=st.sampled_from(["first", "second"]), node=st.sampled_from(["n1", "n3"]))
    def permit(self, group, name, uid, node):
        self.by_group.permit(group, f"{name}-{uid}", node)
        self.permitted[group][f"{name}-{uid}"] = node

    @rule(group=groups, name=names, uid=st.sampled_from(["first", "second"]))
    def forget(self, group, name, uid):
        self.by_group.forget(group, f"{name}-{uid}")
        self.permitted[group].pop(f"{name}-{uid}", None)

    @rule()
    def restore(self):
        """A plugin is restored: it knows the pods that are there already, and which ones were permitted."""
        permitted = self.by_group.permitted
        self.by_group = PodsByGroup(self.store, self.key_of)
        self.by_group.permitted = permitted

    @rule(group=groups)
    def see(self, group):
        members = self.by_group[group]
        self.seen.append((members, dict(members.pods)))

    @invariant()
    def numbers_are_those_of_a_recount(self):
        for group in GROUPS:
            pods = {pod.uid: pod for pod in self.pods.values() if self.key_of(pod) == group}
            there = [pod for pod in pods.values() if not pod.terminating]
            assigned = {pod.uid for pod in there if pod.node_name} | self.permitted[group].keys()
            assert self.by_group[group].pods == pods
            assert (group in self.by_group) == bool(pods)
            assert self.by_group.number(group) == len(there)
            assert self.by_group.assigned(group) == assigned
            assert self.by_group.number_assigned(group) == len(assigned)
            nodes = {pod.node_name for pod in there if pod.node_name} | set(self.permitted[group].values())
            assert set(self.by_group.nodes(group)) == nodes
            assert self.by_group.oldest(group) == min((pod.creation_timestamp for pod in pods.values()), default=None)
        assert self.by_group.permitted == {group: pods for group, pods in self.permitted.items() if pods}

    @invariant()
    def readers_keep_what_they_have_seen(self):
        assert all(members.pods == pods for members, pods in self.seen)


TestGroups = Groups.TestCase
TestGroups.settings = settings(max_examples=150, stateful_step_count=30)
