"""Preemptors that share dry runs and verdicts decide as a scheduler that shares nothing."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lightkube.models.policy_v1 import PodDisruptionBudget

from bayplan.api.kinds import CSI_NODE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD_DISRUPTION_BUDGET
from bayplan.api.objects import convert
from bayplan.config import default_profile
from bayplan.framework.interface import CycleState
from bayplan.framework.runner import run_pre_filter
from bayplan.framework.what_if import ProfileWhatIf
from bayplan.scheduling import Templates, decide
from bayplan.simulation.handle import OfflineHandle
from bayplan.testing.builders import make_cluster, make_node, make_pod

pytestmark = pytest.mark.feature("DefaultPreemption: dry runs that preemptors share")

ZONE = "topology.kubernetes.io/zone"
NODES = [f"n{number}" for number in range(8)]
VOLUMES = range(8)


class World:
    """A full cluster of two zones. `decide` compares two profiles on the same state."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        cluster = make_cluster()
        self.state, self.sharing = cluster.state, cluster.profile
        self.templates = Templates(self.sharing)
        self.made = 0
        for number, name in enumerate(NODES):
            self.state.set_node(make_node(name, cpu="4", labels={ZONE: "ab"[number % 2]}))
            for _ in range(4):
                self.start(name)
        for number in VOLUMES:
            self.volume(number)

    def start(self, node):
        self.made += 1
        rng = self.rng
        claims = [f"c{rng.choice(VOLUMES)}"] if rng.random() < 0.3 else []
        started = {"startTime": f"2026-01-01T00:00:{rng.randint(0, 5):02}Z"}
        self.state.set_pod(self.pod(f"low-{self.made}", "1", rng.randint(0, 2), claims, node=node, status=started))

    def pod(self, name, cpu, priority, claims, **others):
        volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
        app = {"app": self.rng.choice("xyz")}
        return make_pod(name, cpu=cpu, priority=priority, labels=app, spec={"volumes": volumes}, **others)

    def preemptor(self):
        self.made += 1
        rng = self.rng
        claims = [f"c{number}" for number in rng.sample(VOLUMES, rng.choice([0, 0, 1, 1, 2]))]
        return self.pod(f"high-{self.made}", f"{rng.choice([1, 3])}", rng.choice([5, 5, 6]), claims)

    def volume(self, number):
        rng, name = self.rng, f"v{number}"
        expression = {"key": ZONE, "operator": "In", "values": [rng.choice("ab")]}
        affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}
        source = {"csi": {"driver": "d", "volumeHandle": name}}
        if rng.random() < 0.5:
            source = {"awsElasticBlockStore": {"volumeID": f"vol-{number}"}}
        spec = {**source, **(affinity if rng.random() < 0.3 else {}), "accessModes": ["ReadWriteOnce"]}
        labels = {ZONE: rng.choice("ab")} if rng.random() < 0.3 else {}
        self.put(PERSISTENT_VOLUME, name, {"metadata": {"name": name, "labels": labels}, "spec": spec})
        metadata = {"name": f"c{number}", "namespace": "default"}
        metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        mode = "ReadWriteOncePod" if rng.random() < 0.2 else "ReadWriteOnce"
        claim = {"metadata": metadata, "spec": {"volumeName": name, "accessModes": [mode]}}
        self.put(PERSISTENT_VOLUME_CLAIM, f"default/c{number}", claim)

    def csi_node(self):
        name, rng = self.rng.choice(NODES), self.rng
        limit = {"allocatable": {"count": rng.randint(0, 2)}} if rng.random() < 0.7 else {}
        driver = {"name": rng.choice(["d", "ebs.csi.aws.com"]), "nodeID": name, "topologyKeys": [], **limit}
        migrated = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"}
        metadata = {"name": name, "annotations": migrated if rng.random() < 0.5 else {}}
        self.put(CSI_NODE, name, {"metadata": metadata, "spec": {"drivers": [driver]}})

    def budget(self):
        app = self.rng.choice("xyz")
        spec, status = {"selector": {"matchLabels": {"app": app}}}, {"disruptionsAllowed": self.rng.randint(0, 2)}
        document = {"metadata": {"name": app, "namespace": "default"}, "spec": spec, "status": status}
        self.state.objects[POD_DISRUPTION_BUDGET].set(f"default/{app}", convert(PodDisruptionBudget, document))

    def put(self, kind, key, document):
        self.state.objects[kind].set(key, convert(kind.type, document))

    def running(self):
        return [pod for pods in self.state.table.pods for pod in pods.values()]

    def change(self):
        rng = self.rng
        what = rng.choice(["evict", "evict", "start", "volume", "csi node", "budget", "nominate", "node"])
        if what == "evict" and self.running():
            self.state.remove_pod(rng.choice(self.running()).uid)
        elif what == "start":
            self.start(rng.choice(NODES))
        elif what == "volume":
            self.volume(rng.choice(VOLUMES))
        elif what == "csi node" and rng.random() < 0.3:
            self.csi_node()
        elif what == "budget" and rng.random() < 0.5:
            self.budget()
        elif what == "nominate":
            self.state.nominations.add(self.preemptor(), rng.choice(NODES))
        elif what == "node":
            name = rng.choice(NODES)
            self.state.set_node(make_node(name, cpu=rng.choice(["4", "5"]), labels={ZONE: rng.choice("ab")}))

    def decide(self, pod):
        """Decide a pod with and without results of earlier pods, and carry the decision out."""
        plain, seed = default_profile("default-scheduler", OfflineHandle(self.state)), self.rng.random()
        alone = decide(plain, self.state, pod, random.Random(seed))
        shared = decide(self.sharing, self.state, pod, random.Random(seed), templates=self.templates)
        assert told(shared) == told(alone)
        if shared.node:
            self.state.nominations.remove(pod.uid)
            self.state.assume(pod, shared.node)
        elif shared.nominated_node:
            self.state.nominations.add(pod, shared.nominated_node)
            if self.rng.random() < 0.7:
                for victim in shared.victims:
                    self.state.remove_pod(victim.uid)
        return shared


def told(decision):
    victims = [victim.name for victim in decision.victims]
    blamed = None if decision.node else sorted(decision.diagnosis.unschedulable_plugins)
    return decision.outcome, decision.node, decision.nominated_node, victims, decision.message, blamed


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_decisions_are_the_same_if_nothing_is_shared(seed):
    world, waiting = World(seed), []
    for _ in range(25):
        waiting.append(world.preemptor())
        for pod in waiting[-3:]:
            if world.decide(pod).node:
                waiting.remove(pod)
        if world.rng.random() < 0.7:
            world.change()


def test_preemptors_with_volumes_of_the_same_zone_share_dry_runs():
    world = World(1)
    plugin = next(each for each in world.sharing.every() if each.name == "DefaultPreemption")
    expression = {"key": ZONE, "operator": "In", "values": ["a"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    for number in range(3):
        name, claim = f"v1{number}", f"c1{number}"
        spec = {"csi": {"driver": "d", "volumeHandle": name}, "nodeAffinity": {"required": required}}
        world.put(PERSISTENT_VOLUME, name, {"metadata": {"name": name}, "spec": spec})
        metadata = {"name": claim, "namespace": "default", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
        world.put(PERSISTENT_VOLUME_CLAIM, f"default/{claim}", {"metadata": metadata, "spec": {"volumeName": name}})
        assert world.decide(world.pod(f"high-{number}", "4", 5, [claim])).nominated_node
    assert len(plugin._results) == 1


def test_preemptors_with_volumes_share_nothing_where_drivers_have_limits():
    world = World(1)
    pod, nodes = world.pod("high", "3", 5, ["c0"]), world.state.nodes

    def sharing_key():
        cycle = CycleState()
        run_pre_filter(world.sharing, cycle, pod, nodes)
        return ProfileWhatIf(world.sharing, world.state.nominations, world.rng).sharing_key(cycle, pod, nodes)

    assert sharing_key() is not None
    drivers = [{"name": "d", "nodeID": "n0", "topologyKeys": [], "allocatable": {"count": 1}}]
    world.put(CSI_NODE, "n0", {"metadata": {"name": "n0"}, "spec": {"drivers": drivers}})
    assert sharing_key() is None
