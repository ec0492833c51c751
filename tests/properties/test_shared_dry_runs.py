"""Preemptors that share dry runs and verdicts decide as a scheduler that shares nothing."""

import random
from collections import deque

import pytest
from full_clusters import ZONE, FullCluster, claimed, profiles
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.core.api.kinds import CSI_NODE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from bayplan.core.plugins.default_preemption.results import Results
from bayplan.core.scheduling import decide
from bayplan.core.scheduling.decision import Outcome
from bayplan.core.sharing import Sharing
from bayplan.testing.builders import make_node, make_pod

pytestmark = pytest.mark.feature("DefaultPreemption: dry runs that preemptors share")


class World(FullCluster):
    """A full cluster with several schedulers. `decide` compares two profiles on the same state."""

    def __init__(self, rng):
        super().__init__(rng)
        self.profiles = profiles(self.state)
        self.sharing = {name: Sharing(profile) for name, profile in self.profiles.items()}

    def decide(self, pod, name="default-scheduler"):
        """Decide a pod with and without results of earlier pods, and carry the decision out."""
        plain, seed = profiles(self.state)[name], self.rng.random()
        alone = decide(plain, self.state, pod, random.Random(seed))
        shared = decide(self.profiles[name], self.state, pod, random.Random(seed), start=self.sharing[name].start)
        assert describe_decision(shared) == describe_decision(alone)
        assert shared.outcome is not Outcome.ERROR
        if shared.node:
            self.state.nominations.remove(pod.uid)
            self.state.assume(pod, shared.node)
        elif shared.nominated_node:
            self.state.nominations.add(pod, shared.nominated_node)
            if self.rng.random() < 0.7:
                for victim in shared.victims:
                    self.state.remove_pod(victim.uid)
        return shared


def describe_decision(decision):
    victims = [victim.name for victim in decision.victims]
    blamed = None if decision.node else sorted(decision.diagnosis.unschedulable_plugins)
    return decision.outcome, decision.node, decision.nominated_node, victims, decision.message, blamed


@settings(max_examples=15)
@given(st.integers(0, 2**32))
def test_decisions_are_the_same_if_nothing_is_shared(seed):
    check_sharing(seed)


def check_sharing(seed):
    rng = random.Random(seed)
    world, waiting = World(rng), []
    for _ in range(15):
        alike = rng.choice(waiting)[0] if waiting and rng.random() < 0.7 else None
        pod = world.pending() if alike is None else world.alike(alike)
        waiting.append((pod, rng.choice(["default-scheduler", "default-scheduler", *world.sharing])))
        for pod, name in waiting[-3:]:
            if world.decide(pod, name).node:
                waiting.remove((pod, name))
        if rng.random() < 0.7:
            world.change()


FAULTS = {
    "results outlive changes of their nodes": (Results, "refresh", lambda _: None),
    "results of single pods are kept for all": (Results, "forget", lambda *_: None),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_property_finds_faults_of_shared_results(monkeypatch, fault):
    monkeypatch.setattr(*FAULTS[fault])
    with pytest.raises(AssertionError):
        deque(map(check_sharing, range(40)), maxlen=0)


@pytest.fixture
def full():
    """Two zones, full of pods without volumes, and without limits of volumes."""
    world = World(random.Random(1))
    for name in list(world.nodes):
        world.remove(name)
    for name in list(world.state.objects[CSI_NODE]):
        world.state.objects[CSI_NODE].remove(name)
    for number in range(8):
        world.state.set_node(make_node(f"n{number}", cpu="4", labels={ZONE: "ab"[number % 2]}))
        world.state.set_pod(make_pod(f"low-{number}", cpu="4", node=f"n{number}"))
    return world


def test_preemptors_with_volumes_of_the_same_zone_share_dry_runs(full):
    expression = {"key": ZONE, "operator": "In", "values": ["a"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    for number in range(3):
        name, claim = f"v1{number}", f"c1{number}"
        spec = {"csi": {"driver": "d", "volumeHandle": name}, "nodeAffinity": {"required": required}}
        full.put(PERSISTENT_VOLUME, name, {"metadata": {"name": name}, "spec": spec})
        metadata = {"name": claim, "namespace": "default", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
        full.put(PERSISTENT_VOLUME_CLAIM, f"default/{claim}", {"metadata": metadata, "spec": {"volumeName": name}})
        pod = make_pod(f"high-{number}", cpu="4", priority=5, spec={"volumes": claimed([claim])})
        assert full.decide(pod).nominated_node
    assert len(full.sharing["default-scheduler"].kept) == 1


def test_preemptors_with_volumes_share_nothing_where_drivers_have_limits(full):
    sharing = full.sharing["default-scheduler"]
    for number in range(3):
        full.decide(make_pod(f"high-{number}", cpu="3", priority=5, spec={"volumes": claimed(["c0"])}))
    assert len(sharing.kept) == 1
    drivers = [{"name": "d", "nodeID": "n0", "topologyKeys": [], "allocatable": {"count": 1}}]
    full.put(CSI_NODE, "n0", {"metadata": {"name": "n0"}, "spec": {"drivers": drivers}})
    sharing.kept.clear()
    full.decide(make_pod("another", cpu="3", priority=5, spec={"volumes": claimed(["c0"])}))
    assert not sharing.kept
