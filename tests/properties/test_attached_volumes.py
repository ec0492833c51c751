"""NodeVolumeLimits' counts, kept up to date by events, against a recount; and that nothing is left of what is gone."""

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.api.kinds import CSI_NODE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, VOLUME_ATTACHMENT
from bayplan.core.api.objects import convert
from bayplan.core.cluster.pod_changes import PodChanges
from bayplan.core.cluster.state import ClusterState
from bayplan.core.framework.interface import CycleState
from bayplan.core.framework.profile import Point, Profile
from bayplan.core.framework.runner import run_filter
from bayplan.core.framework.status import Code
from bayplan.core.plugins.node_volume_limits.plugin import NodeVolumeLimits
from bayplan.testing.builders import make_node, make_pod

pytestmark = pytest.mark.feature("NodeVolumeLimits: counts that events keep up to date")

NODES, DRIVERS, VOLUMES = ["n0", "n1", "n2"], ["d0", "d1"], ["v0", "v1", "v2", "v3"]
CLAIMS = {f"c{number}": volume for number, volume in enumerate([*VOLUMES, "v0"])}
"""By name: the volume that the claim is bound to. Volumes and claims come and go."""


class World:
    """The state of a scheduler, and the same as plain dictionaries."""

    def __init__(self, rng):
        self.rng, self.state = rng, ClusterState()
        self.plugin = NodeVolumeLimits(OfflineHandle(self.state))
        self.nodes, self.claims = set(), set()
        self.volumes, self.limits, self.attachments, self.pods = {}, {}, {}, {}

    def change(self):
        rng = self.rng
        step = rng.choice([self.node, self.claim, self.volume, self.csi_node, self.attachment, self.pod, self.pod])
        step(gone=rng.random() < 0.4)

    def node(self, *, gone):
        name = self.rng.choice(NODES)
        if gone:
            self.state.remove_node(name)
            self.nodes.discard(name)
        else:
            self.state.set_node(make_node(name))
            self.nodes.add(name)

    def claim(self, *, gone):
        name = self.rng.choice(list(CLAIMS))
        if gone:
            self.claims.discard(name)
        else:
            self.claims.add(name)
        metadata = {"name": name, "namespace": "default"}
        spec = {"volumeName": CLAIMS[name]}
        self.put(PERSISTENT_VOLUME_CLAIM, f"default/{name}", {"metadata": metadata, "spec": spec}, gone=gone)

    def volume(self, *, gone):
        name, driver = self.rng.choice(VOLUMES), self.rng.choice(DRIVERS)
        self.remember(self.volumes, name, driver, gone=gone)
        spec = {"csi": {"driver": driver, "volumeHandle": name}}
        self.put(PERSISTENT_VOLUME, name, {"metadata": {"name": name}, "spec": spec}, gone=gone)

    def csi_node(self, *, gone):
        name = self.rng.choice(NODES)
        limits = {driver: self.rng.randint(0, 3) for driver in DRIVERS if self.rng.random() < 0.8}
        self.remember(self.limits, name, limits, gone=gone)
        drivers = [
            {"name": driver, "nodeID": name, "topologyKeys": [], "allocatable": {"count": limit}}
            for driver, limit in limits.items()
        ]
        self.put(CSI_NODE, name, {"metadata": {"name": name}, "spec": {"drivers": drivers}}, gone=gone)

    def attachment(self, *, gone):
        name = f"a{self.rng.randint(0, 3)}"
        driver, node, volume = (self.rng.choice(each) for each in (DRIVERS, NODES, VOLUMES))
        self.remember(self.attachments, name, (driver, node, volume), gone=gone)
        spec = {"attacher": driver, "nodeName": node, "source": {"persistentVolumeName": volume}}
        self.put(VOLUME_ATTACHMENT, name, {"metadata": {"name": name}, "spec": spec}, gone=gone)

    def pod(self, *, gone):
        name, node = f"p{self.rng.randint(0, 5)}", self.rng.choice(NODES)
        used = self.rng.sample(list(CLAIMS), self.rng.randint(0, 2))
        if gone:
            self.state.remove_pod(f"default-{name}")
            self.pods.pop(name, None)
        else:
            self.state.set_pod(using(name, used, node=node))
            self.pods[name] = node, used

    def put(self, kind, key, document, *, gone):
        store = self.state.objects[kind]
        if gone:
            store.remove(key)
        else:
            store.set(key, convert(kind.type, document))

    @staticmethod
    def remember(things, name, value, *, gone):
        if gone:
            things.pop(name, None)
        else:
            things[name] = value

    def feasible(self, pod, nodes):
        profile = Profile("test", {Point.FILTER: [self.plugin]})
        verdicts = run_filter(profile, CycleState(), pod, nodes)
        assert not [status for status, _ in verdicts.counts() if status.code is not Code.UNSCHEDULABLE]
        return {nodes.name(position) for position in verdicts.feasible().tolist()}

    def plain_feasible(self, claims, without=(), on=None):
        """The nodes with room, if the pods in `without` are gone, and pods with the claims in `on` are on each node."""
        feasible = set()
        for node in self.nodes:
            on_node = [used for name, (at, used) in self.pods.items() if at == node and name not in without]
            attached = self.csi(claim for used in [*on_node, on or []] for claim in used)
            others = {
                (driver, volume)
                for driver, at, volume in self.attachments.values()
                if at == node and volume in self.volumes
            }
            count = Counter(driver for driver, _ in attached | others)
            new = Counter(driver for driver, _ in self.csi(claims) - attached)
            limits = self.limits.get(node, {})
            if all(driver not in limits or count[driver] + new[driver] <= limits[driver] for driver in new):
                feasible.add(node)
        return feasible

    def csi(self, claims):
        known = [CLAIMS[claim] for claim in claims if claim in self.claims]
        return {(self.volumes[volume], volume) for volume in known if volume in self.volumes}

    def check(self):
        claims = self.rng.sample(sorted(self.claims), min(len(self.claims), self.rng.randint(1, 2)))
        if not claims or not self.nodes:
            return
        pod, nodes = using("new", claims), self.state.nodes
        assert self.feasible(pod, nodes) == self.plain_feasible(claims)
        without = {name for name in self.pods if self.rng.random() < 0.5}
        added = self.rng.sample(list(CLAIMS), 1)
        changes = {}
        for position in range(len(nodes)):
            removed = [each for each in nodes.pods(position) if each.name in without]
            changes[position] = PodChanges(added=[using("added", added)], removed=removed)
        assert self.feasible(pod, nodes.changed(changes)) == self.plain_feasible(claims, without, added)
        some = self.rng.sample(sorted(self.nodes), self.rng.randint(1, len(self.nodes)))
        part = nodes.at(np.array([self.state.table.row_of[name] for name in some]))
        assert self.feasible(pod, part) == self.plain_feasible(claims) & set(some)


def using(name, claims, **fields):
    volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    return make_pod(name, spec={"volumes": volumes}, **fields)


@settings(max_examples=60)
@given(st.randoms(use_true_random=False))
def test_verdicts_after_events_match_a_recount(rng):
    world = World(rng)
    for _ in range(30):
        for _ in range(rng.randint(1, 4)):
            world.change()
        world.check()


def test_counts_are_dropped_with_what_they_count():
    world = World(random.Random(0))
    for _ in range(200):
        world.change()
        world.check()
    state = world.state
    for node in NODES:
        state.remove_node(node)
    for number in range(6):
        state.remove_pod(f"default-p{number}")
    for kind in (PERSISTENT_VOLUME_CLAIM, PERSISTENT_VOLUME, CSI_NODE, VOLUME_ATTACHMENT):
        for key in tuple(state.objects[kind]):
            state.objects[kind].remove(key)
    attached, csi_nodes = world.plugin._attached, world.plugin._csi_nodes
    for each in (attached, csi_nodes):
        each.refresh(state.table)
    columns = [attached._counts, csi_nodes._limits, csi_nodes._migrated]
    stores = [vars(each) for each in (attached, csi_nodes, *columns)]
    assert not [name for fields in stores for name, value in fields.items() if isinstance(value, dict | set) and value]
