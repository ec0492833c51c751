"""Compares InterPodAffinity and PodTopologySpread with loops over nodes and pods, in random clusters."""

from hypothesis import given, settings
from hypothesis import strategies as st
from lightkube.models.core_v1 import Namespace, Node, Pod, TopologySpreadConstraint
from plain_loops import HOSTNAME, affinity_scores, affinity_verdicts, name, namespace, spread_scores, spread_verdicts
from random_clusters import RACK, ZONE, Maker

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.api import kinds
from bayplan.core.api.objects import convert
from bayplan.core.cluster.pod_changes import PodChanges
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.plugins.arguments import InterPodAffinityArgs, PodTopologySpreadArgs
from bayplan.core.plugins.inter_pod_affinity.plugin import InterPodAffinity
from bayplan.core.plugins.pod_topology_spread.plugin import PodTopologySpread
from bayplan.testing.asking import ask_filter, ask_scores

anything = st.randoms(use_true_random=True).map(Maker)
"""Drawn from seeds, so that the report of a failing example is short and enough to reproduce it."""


def state_of(cluster):
    state = ClusterState()
    for each, labels in cluster.namespaces.items():
        state.objects[kinds.NAMESPACE].set(each, convert(Namespace, {"metadata": {"name": each, "labels": labels}}))
    for node in cluster.nodes:
        state.set_node(convert(Node, {**node, "status": {"allocatable": {}}}))
    for pod in cluster.pods:
        state.set_pod(info(pod))
    return state


def info(pod):
    return PodInfo(convert(Pod, pod))


def what_ifs_of(changes):
    """Convert what-ifs of manifests to what-ifs of pods."""
    return {
        each: PodChanges(tuple(map(info, added)), tuple(map(info, removed)))
        for each, (added, removed) in changes.items()
    }


@settings(max_examples=100)
@given(anything)
def test_affinity_filter(make):
    cluster, pod = make.cluster(), make.pod("pending")
    changes, state = make.what_ifs(cluster), state_of(cluster)
    plugin = InterPodAffinity(OfflineHandle(state))
    assert ask_filter(plugin, info(pod), state) == affinity_verdicts(pod, cluster)
    assert ask_filter(plugin, info(pod), state, what_ifs_of(changes)) == affinity_verdicts(pod, cluster, changes)


class OneByOne:
    """The per-node form of InterPodAffinity."""

    name = InterPodAffinity.name

    def __init__(self, plugin):
        self.plugin = plugin

    def pre_filter(self, cycle, pod, nodes):
        return self.plugin.pre_filter(cycle, pod, nodes)

    def filter(self, cycle, pod, node):
        return self.plugin.filter(cycle, pod, node)


@settings(max_examples=100)
@given(anything)
def test_affinity_filter_node_by_node(make):
    cluster, pod = make.cluster(), make.pod("pending")
    changes, state = make.what_ifs(cluster), state_of(cluster)
    plugin = OneByOne(InterPodAffinity(OfflineHandle(state)))
    assert ask_filter(plugin, info(pod), state) == affinity_verdicts(pod, cluster)
    assert ask_filter(plugin, info(pod), state, what_ifs_of(changes)) == affinity_verdicts(pod, cluster, changes)


@settings(max_examples=100)
@given(anything)
def test_spread_filter(make):
    cluster, pod = make.cluster(), make.pod("pending")
    changes, state = make.what_ifs(cluster), state_of(cluster)
    plugin = PodTopologySpread(OfflineHandle(state))
    assert ask_filter(plugin, info(pod), state) == spread_verdicts(pod, cluster)
    assert ask_filter(plugin, info(pod), state, what_ifs_of(changes)) == spread_verdicts(pod, cluster, changes)


@settings(max_examples=100)
@given(anything, st.sampled_from([0, 1, 3]), st.booleans())
def test_affinity_scores(make, hard_weight, ignore):
    cluster, pod = make.cluster(), make.pod("pending")
    scored, state = make.some(cluster), state_of(cluster)
    args = InterPodAffinityArgs(hardPodAffinityWeight=hard_weight, ignorePreferredTermsOfExistingPods=ignore)
    found = ask_scores(InterPodAffinity(OfflineHandle(state), args), info(pod), state, map(name, scored))
    assert found == affinity_scores(pod, cluster, scored, hard_weight, ignore_existing=ignore)


@settings(max_examples=100)
@given(anything)
def test_spread_scores(make):
    cluster, pod = make.cluster(), make.pod("pending")
    scored, state = make.some(cluster), state_of(cluster)
    found = ask_scores(PodTopologySpread(OfflineHandle(state)), info(pod), state, map(name, scored))
    assert found == spread_scores(pod, cluster, scored)


SYSTEM_DEFAULTS = [
    {"maxSkew": 3, "topologyKey": HOSTNAME, "whenUnsatisfiable": "ScheduleAnyway"},
    {"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"},
]
LIST_DEFAULTS = [
    {"maxSkew": 1, "topologyKey": RACK, "whenUnsatisfiable": "ScheduleAnyway"},
    {"maxSkew": 2, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"},
]


@settings(max_examples=100)
@given(anything, st.booleans())
def test_default_spreading(make, system):
    """A service selects the pods with the label app=a, and the default constraints spread them."""
    cluster, pod = make.cluster(), make.pod("pending")
    scored, state = make.some(cluster), state_of(cluster)
    pod["spec"].pop("topologySpreadConstraints", None)
    at = namespace(pod)
    service = {"metadata": {"name": "s", "namespace": at}, "spec": {"selector": {"app": "a"}}}
    state.objects[kinds.SERVICE].set(f"{at}/s", convert(kinds.SERVICE.type, service))
    listed = [] if system else [convert(TopologySpreadConstraint, each) for each in LIST_DEFAULTS]
    args = PodTopologySpreadArgs(defaultConstraints=listed, defaultingType="System" if system else "List")
    plugin = PodTopologySpread(OfflineHandle(state), args)
    picked = pod["metadata"]["labels"].get("app") == "a"
    defaults = SYSTEM_DEFAULTS if system else LIST_DEFAULTS
    selecting = [{**each, "labelSelector": {"matchLabels": {"app": "a"}}} for each in defaults] if picked else []
    assert ask_filter(plugin, info(pod), state) == spread_verdicts(pod, cluster, defaults=selecting)
    assert ask_scores(plugin, info(pod), state, map(name, scored)) == spread_scores(
        pod, cluster, scored, selecting, system=system
    )
