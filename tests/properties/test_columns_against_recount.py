"""Compares columns after random changes of nodes and pods with a plain recount."""

from collections import Counter

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from bayplan.core.api.labels import LabelSelector, Requirement
from bayplan.core.cluster.domains import Domains
from bayplan.core.cluster.pod_info import HostPort
from bayplan.core.cluster.pod_selectors import PodSelector
from bayplan.core.cluster.state import ClusterState
from bayplan.testing.builders import make_node, make_pod, pod_affinity, pod_term

NAMES = [f"n{number}" for number in range(6)]
GPU = "example.com/gpu"
WEB = {"app": "web"}
AWAY = pod_affinity(pod_term("zone", WEB), anti=True)
node_names = st.sampled_from(NAMES)


class Columns(RuleBasedStateMachine):
    """The model: nodes and pods in two dictionaries."""

    pods_made = Bundle("pods_made")

    def __init__(self):
        super().__init__()
        self.state = ClusterState()
        self.nodes = {}
        self.pods = {}
        self.version = 0
        self.before = {}

    @rule(
        name=node_names,
        cpu=st.sampled_from(["1", "4"]),
        zone=st.sampled_from(["a", "b", ""]),
        rack=st.sampled_from(["1", "2", None]),
        taint=st.sampled_from([None, "x=1:NoSchedule"]),
        gpu=st.sampled_from([None, "2"]),
        image=st.sampled_from([None, "web:1"]),
        cordoned=st.booleans(),
    )
    def set_node(self, name, cpu, zone, rack, taint, gpu, image, cordoned):
        node = make_node(
            name,
            cpu=cpu,
            labels={"zone": zone, **({"rack": rack} if rack else {})},
            taints=[taint] if taint else [],
            unschedulable=cordoned,
            images={image: 7} if image else {},
            resources={GPU: gpu} if gpu else {},
        )
        self.nodes[name] = node
        self.state.set_node(node)

    @rule(name=node_names)
    def remove_node(self, name):
        self.nodes.pop(name, None)
        self.state.remove_node(name)

    @rule(
        target=pods_made,
        number=st.integers(0, 8),
        node=node_names,
        cpu=st.sampled_from([None, "1", "250m"]),
        gpu=st.sampled_from([None, "1"]),
        port=st.sampled_from([None, 80]),
        web=st.booleans(),
        away=st.booleans(),
        terminating=st.booleans(),
    )
    def set_pod(self, number, node, cpu, gpu, port, web, away, terminating):
        name = f"p{number}"
        resources = {GPU: gpu} if gpu else {}
        pod = make_pod(
            name,
            node=node,
            cpu=cpu,
            resources=resources,
            host_ports=[port] if port else [],
            labels=WEB if web else {},
            affinity=AWAY if away else None,
            terminating=terminating,
        )
        self.pods[pod.uid] = pod
        self.state.set_pod(pod)
        return pod.uid

    @rule(uid=pods_made)
    def remove_pod(self, uid):
        self.pods.pop(uid, None)
        self.state.remove_pod(uid)

    @rule(number=st.integers(9, 12), node=node_names)
    def assume(self, number, node):
        pod = make_pod(f"p{number}", cpu="1")
        if pod.uid not in self.pods:
            self.pods[pod.uid] = self.state.assume(pod, node)

    @rule(number=st.integers(9, 12))
    def forget(self, number):
        uid = f"default-p{number}"
        if uid in self.pods and self.state.is_assumed(uid):
            del self.pods[uid]
        self.state.forget(uid)

    @invariant()
    def columns_equal_a_recount(self):
        nodes, table = self.state.nodes, self.state.table
        assert table.live_count == len(self.nodes)
        assert {nodes.name(row) for row in range(len(nodes)) if nodes.live[row]} == set(self.nodes)
        wanted = HostPort("0.0.0.0", "TCP", 80)
        taken = nodes.port_conflicts(wanted)
        for row in range(len(nodes)):
            name = nodes.name(row)
            if table.row_of.get(name) != row:
                continue
            pods = [pod for pod in self.pods.values() if pod.node_name == name]
            assert {pod.uid for pod in nodes.pods(row)} == {pod.uid for pod in pods}
            assert nodes.pod_count[row] == len(pods)
            for resource in ("cpu", GPU):
                assert nodes.requested(resource)[row] == sum(pod.requested.get(resource, 0) for pod in pods)
            assert nodes.nonzero_requested("cpu")[row] == sum(pod.nonzero_cpu for pod in pods)
            assert bool(taken is not None and taken[row]) == any(wanted in pod.host_ports for pod in pods)
            if name in self.nodes:
                self._check_node_columns(row, self.nodes[name])

    def _check_node_columns(self, row, node):
        nodes = self.state.nodes
        zone = node.metadata.labels["zone"]
        assert nodes.allocatable("cpu")[row] == int(node.status.allocatable["cpu"]) * 1000
        assert nodes.allocatable(GPU)[row] == int(node.status.allocatable.get(GPU, 0))
        assert nodes.label_in("zone", {zone})[row]
        assert nodes.unschedulable[row] == node.spec.unschedulable
        assert nodes.taints_where(bool)[row] == bool(node.spec.taints)
        image = nodes.table.images.get("web:1")
        assert bool(image is not None and image.present[row]) == bool(node.status.images)

    @invariant()
    def domain_sums_equal_a_recount(self):
        nodes, table = self.state.nodes, self.state.table
        group = table.group((PodSelector(None, LabelSelector((Requirement("app", "=", ("web",)),))),))
        web = [pod for pod in self.pods.values() if pod.labels == WEB]
        away = [pod for pod in self.pods.values() if pod.spec.affinity]
        terms = table.terms.matching(make_pod("any", labels=WEB), {})
        assert len(terms) == bool(away)
        for key in ("zone", "rack"):
            assert self._summed(key, group.counts) == self._counted(key, web)
            assert self._summed(key, group.active) == self._counted(key, [pod for pod in web if not pod.terminating])
            for term in terms:
                assert self._summed(key, term.counts) == self._counted(key, away)
        assert len(Domains.of("zone", nodes).codes) == table.size
        for key in ("zone", "rack"):
            domains = Domains.of(key, nodes)
            assert domains.everywhere == bool(domains.codes.all())
            for some in (nodes, nodes.at(np.arange(len(nodes))[::2])):
                assert self._named(key, domains, some) == self._by_domain(key, some)

    def _named(self, key, domains, nodes):
        """Domain -> the names of its nodes, in the order of their positions."""
        values = self.state.table.labels(key).values
        found = domains.positions(nodes)
        return {values[code]: [nodes.name(int(each)) for each in positions] for code, positions in found.items()}

    def _by_domain(self, key, nodes):
        found = {}
        for position in range(len(nodes)):
            node = self.nodes.get(nodes.name(position))
            if node is not None and nodes.live[position] and key in node.metadata.labels:
                found.setdefault(node.metadata.labels[key], []).append(nodes.name(position))
        return found

    def _summed(self, key, tally):
        sums = Domains.of(key, self.state.nodes).sum(tally).tolist()
        values = self.state.table.labels(key).values
        return {value: number for value, number in zip(values, sums, strict=True) if number}

    def _counted(self, key, pods):
        homes = [self.nodes[pod.node_name] for pod in pods if pod.node_name in self.nodes]
        return dict(Counter(node.metadata.labels[key] for node in homes if key in node.metadata.labels))

    @invariant()
    def every_change_is_reported(self):
        table = self.state.table
        now = {row: self._seen(row) for row in range(table.size)}
        changed = table.changed_since(self.version)
        if changed is not None:
            different = {row for row, seen in now.items() if self.before.get(row) != seen and row in self.before}
            assert different <= set(changed)
        self.version, self.before = table.version, now

    def _seen(self, row):
        nodes = self.state.nodes
        columns = (nodes.allocatable("cpu"), nodes.requested("cpu"), nodes.pod_count, nodes.unschedulable, nodes.live)
        return tuple(column[row].item() for column in columns)


TestColumns = Columns.TestCase
TestColumns.settings = settings(max_examples=60, stateful_step_count=30)
