"""Pods with volumes that were rejected alike are rejected alike later, unless an event concerned their own volumes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streams import first_by_name

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.api.kinds import CSI_DRIVER, CSI_NODE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from bayplan.core.api.objects import convert
from bayplan.core.cluster.state import ClusterState
from bayplan.core.config import default_profile
from bayplan.core.framework.changes import ASSIGNED_POD_ADD, ASSIGNED_POD_DELETE, object_event
from bayplan.core.framework.events import Action
from bayplan.core.framework.own_volumes import own_volumes
from bayplan.core.framework.profile import Point
from bayplan.core.scheduling import decide
from bayplan.core.sharing import Sharing
from bayplan.core.versions import VERSIONS, gates_of
from bayplan.testing.builders import make_node, make_pod

pytestmark = pytest.mark.feature("Requeueing: pods that are rejected for the same reasons")

NODES, DRIVERS, HANDLES, VOLUMES = (
    ["n0", "n1", "n2"],
    ["d0", "d1"],
    [f"h{n}" for n in range(8)],
    [f"v{n}" for n in range(8)],
)
CLAIMS = [f"c{number}" for number in range(8)]
ZONE = "topology.kubernetes.io/zone"


class World:
    """A cluster in which claims, volumes and the pods that use them come and go. Each change returns its event."""

    def __init__(self, rng):
        self.rng, self.state = rng, ClusterState()
        gates = gates_of(rng.choice(VERSIONS))
        self.profile = default_profile("default-scheduler", OfflineHandle(self.state), gates=gates)
        self.sharing = Sharing(self.profile)
        self.own = own_volumes(self.state.objects)
        self.volume_plugins = [each for each in self.profile.at(Point.FILTER) if "Volume" in each.name]
        for number, name in enumerate(NODES):
            self.state.set_node(make_node(name, labels={ZONE: f"z{number % 2}"}))
        for step in (self.claim, self.volume, self.csi_node, self.pod, self.driver):
            for _ in range(20):
                step(gone=False)

    def change(self):
        rng = self.rng
        steps = [self.claim, self.volume, self.csi_node, self.pod, self.nomination, self.driver]
        (step,) = rng.choices(steps, [1, 1, 1, 6, 1, 1])
        return step(gone=rng.random() < 0.2)

    def claim(self, *, gone):
        rng, name = self.rng, self.rng.choice(CLAIMS)
        annotations = {"pv.kubernetes.io/bind-completed": "yes"} if rng.random() < 0.95 else {}
        mode = rng.choice(["ReadWriteOnce", "ReadWriteOncePod"])
        document = {
            "metadata": {"name": name, "namespace": "default", "annotations": annotations},
            "spec": {"volumeName": rng.choice(VOLUMES), "accessModes": [mode], "storageClassName": "late"},
        }
        return self.put(PERSISTENT_VOLUME_CLAIM, f"default/{name}", document, gone=gone)

    def volume(self, *, gone):
        rng, name = self.rng, self.rng.choice(VOLUMES)
        source = {"csi": {"driver": rng.choice(DRIVERS), "volumeHandle": rng.choice(HANDLES)}}
        labels = {ZONE: rng.choice(["z0", "z1"])} if rng.random() < 0.2 else {}
        document = {"metadata": {"name": name, "labels": labels}, "spec": source}
        return self.put(PERSISTENT_VOLUME, name, document, gone=gone)

    def csi_node(self, *, gone):
        name = self.rng.choice(NODES)
        drivers = [
            {"name": driver, "nodeID": name, "topologyKeys": [], "allocatable": {"count": self.rng.randint(0, 1)}}
            for driver in self.rng.sample(DRIVERS, self.rng.choice([1, 2, 2]))
        ]
        return self.put(CSI_NODE, name, {"metadata": {"name": name}, "spec": {"drivers": drivers}}, gone=gone)

    def driver(self, *, gone):
        name, required = self.rng.choice(DRIVERS), self.rng.random() < 0.5
        document = {"metadata": {"name": name}, "spec": {"preventPodSchedulingIfMissing": required}}
        return self.put(CSI_DRIVER, name, document, gone=gone)

    def pod(self, *, gone):
        name = f"p{self.rng.randint(0, 3)}"
        old = self.state.pod(f"default-{name}")
        if old is not None:
            self.state.remove_pod(old.uid)
            if gone:
                return ASSIGNED_POD_DELETE, old, None
        new = using(name, self.rng.sample(CLAIMS, self.rng.randint(0, 1)), node=self.rng.choice(NODES))
        self.state.set_pod(new)
        return ASSIGNED_POD_ADD, old, new

    def nomination(self, *, gone):
        pod = using("nominated", self.rng.sample(CLAIMS, 1), priority=10)
        if gone:
            self.state.nominations.remove(pod.uid)
        else:
            self.state.nominations.add(pod, self.rng.choice(NODES))

    def put(self, kind, key, document, *, gone):
        store = self.state.objects[kind]
        old, new = store.get(key), None if gone else convert(kind.type, document)
        if gone:
            store.remove(key)
        else:
            store.set(key, new)
        action = Action.DELETE if gone else Action.ADD if old is None else Action.UPDATE
        return object_event(kind.kind, action), old, new

    def key(self, pod):
        key = self.sharing.key(pod, self.state.nodes, record=None)
        return self.sharing.alike(key, self.profile, pod)

    def answer(self, pod):
        decision = decide(self.profile, self.state, pod, first_by_name(self.state))
        return decision.outcome, decision.message, decision.diagnosis.unschedulable_plugins, decision.node

    def hints(self, pod, event, old, new):
        return [
            each.hint(pod, old, new)
            for plugin in self.volume_plugins
            for each in plugin.events()
            if each.hint is not None and each.event.matches(event)
        ]


def using(name, claims, **fields):
    volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    return make_pod(name, spec={"volumes": volumes}, **fields)


@settings(max_examples=60)
@given(st.randoms(use_true_random=False))
def test_pods_with_equal_keys_stay_alike_until_an_event_concerns_one_of_them(rng):
    world = World(rng)
    for _ in range(8):
        world.state.nominations.remove("default-nominated")
        pods = [using(f"w-{claim}", [claim]) for claim in CLAIMS]
        keys = {pod: world.key(pod) for pod in pods}
        topics = {pod: set(world.own.of_pod(pod)) for pod in pods if keys[pod] is not None}
        for _ in range(rng.randint(1, 3)):
            happened = world.change()
            if happened is not None:
                concerned = set(world.own.of_event(*happened[1:]))
                topics = {pod: own for pod, own in topics.items() if own.isdisjoint(concerned)}
                assert_alike({pod: world.hints(pod, *happened) for pod in topics}, keys)
        leaders = {keys[pod] for pod in topics if world.key(pod) == keys[pod]}
        assert_alike({pod: world.answer(pod) for pod in topics if keys[pod] in leaders}, keys)


def assert_alike(answers, keys):
    first = {}
    for pod, answer in answers.items():
        assert first.setdefault(keys[pod], answer) == answer
