"""percentageOfNodesToScore: how many nodes are filtered, which ones, and where the next pod starts."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tables import cases

from bayplan import Plugin
from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.config import KubeSchedulerProfile, build_profile
from bayplan.core.config.types import PluginReference, Plugins, PluginSet
from bayplan.core.framework.profile import Profile
from bayplan.core.scheduling import Rotation, decide
from bayplan.core.scheduling.sampling import enough_nodes
from bayplan.testing.builders import make_cluster, make_node, make_pod

pytestmark = pytest.mark.feature("Whole decision: percentageOfNodesToScore")


class Picky(Plugin):
    """A per-node plugin that records the nodes it was called for."""

    name = "Picky"

    def __init__(self, refused=()):
        self.refused = set(refused)
        self.asked = []

    def filter(self, cycle, pod, node):
        self.asked.append(node.name)
        return "picky" if node.name in self.refused else None


class Signs(Picky):
    name = "Signs"

    def sign(self, pod):
        return ()


class Whole(Plugin):
    """A whole-table plugin that does not sign."""

    name = "Whole"

    def filter_nodes(self, cycle, pod, nodes):
        return None


def profile_with(plugin, state, percentage=0):
    plugins = Plugins(multiPoint=PluginSet([PluginReference(plugin.name)] if plugin else []))
    config = KubeSchedulerProfile(schedulerName="default-scheduler", plugins=plugins)
    return build_profile(config, OfflineHandle(state), [plugin] if plugin else [], percentage)


def empty_profile(plugin, percentage):
    cluster = make_cluster()
    profile = profile_with(plugin, cluster.state, percentage)
    assert isinstance(profile, Profile)
    return profile


@cases(
    "percentage, total, enough",
    {
        "few nodes: all": (0, 99, 99),
        "as many as the least": (0, 100, 100),
        "never less than 100": (50, 150, 100),
        "the percentage": (30, 1000, 300),
        "all": (100, 5000, 5000),
        "adaptive: 50 - 1000/125": (0, 1000, 420),
        "adaptive: 50 - 5000/125": (0, 5000, 500),
        "adaptive: not below 5": (0, 6000, 300),
    },
)
def test_the_number_of_nodes_to_find_is_that_of_upstream(percentage, total, enough):
    assert enough_nodes(empty_profile(Picky(), percentage), total) == enough


@cases("plugin", {"the built-in ones": None, "answers are kept": Signs(), "whole table": Whole()})
def test_all_nodes_are_filtered_by_whole_table_plugins(plugin):
    assert enough_nodes(empty_profile(plugin, 10), 5000) == 5000


@settings(max_examples=40)
@given(
    refused=st.sets(st.integers(0, 219)),
    cordoned=st.sets(st.integers(0, 219), max_size=100),
    start=st.integers(0, 500),
    percentage=st.sampled_from([0, 1, 50, 70]),
)
def test_sampling_finds_the_same_nodes_as_a_loop(refused, cordoned, start, percentage):
    names = [f"n{index}" for index in range(220)]
    nodes = [make_node(name, unschedulable=index in cordoned) for index, name in enumerate(names)]
    cluster = make_cluster(*nodes)
    plugin = Picky(names[index] for index in refused)
    profile = profile_with(plugin, cluster.state, percentage)
    rotation = Rotation(start)
    decision = decide(profile, cluster.state, make_pod("p"), random.Random(0), rotation=rotation)

    enough, expected, looked_at = enough_nodes(profile, 220), [], 0
    for step in range(220):
        index = (start + step) % 220
        looked_at += 1
        if index not in refused | cordoned:
            expected.append(index)
        if len(expected) == enough:
            break
    assert rotation.start == (start + looked_at) % 220
    if expected:
        assert sorted(decision.feasible.tolist()) == sorted(expected)
        assert cluster.state.table.row_of[decision.node] in expected
    else:
        assert not decision.node
    assert len(plugin.asked) <= looked_at + 64


def test_every_node_is_counted_if_none_is_feasible():
    names = [f"n{index}" for index in range(150)]
    cluster = make_cluster(*map(make_node, names))
    profile = profile_with(Picky(names), cluster.state, 5)
    decision = decide(profile, cluster.state, make_pod("p"), random.Random(0), rotation=Rotation(149))
    assert decision.message.startswith("0/150 nodes are available: 150 picky.")
    assert decision.diagnosis.unschedulable_plugins == {"Picky"}


def test_rotation_reaches_every_node():
    cluster = make_cluster(*(make_node(f"n{index}") for index in range(250)))
    plugin, rotation = Picky(), Rotation()
    profile = profile_with(plugin, cluster.state, 1)
    for number in range(5):
        decide(profile, cluster.state, make_pod(f"p{number}"), random.Random(0), rotation=rotation)
    assert rotation.start == 0
    assert all(plugin.asked.count(f"n{index}") == 2 for index in range(250))
