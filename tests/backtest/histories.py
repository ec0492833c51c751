"""Histories for tests, recorded from simulations, so that it is known how well a replay must match."""

from datetime import timedelta

import msgspec

from bayplan.answers.history import format as columns
from bayplan.answers.history.documents import document_of
from bayplan.answers.history.format import Row
from bayplan.answers.history.writing import write_history
from bayplan.answers.simulation.happenings import NodeComes, ObjectChanges
from bayplan.answers.simulation.lives import DepartureReason
from bayplan.answers.simulation.owners import references_of
from bayplan.answers.simulation.timeline import Timeline, TimelineObserver
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import NODE, POD
from bayplan.core.api.objects import encode
from bayplan.testing.builders import CREATED, make_node

ZONE = "topology.kubernetes.io/zone"
TYPE = "node.kubernetes.io/instance-type"
REASONS = {
    DepartureReason.COMPLETED: "Succeeded",
    DepartureReason.DELETED: "Deleted",
    DepartureReason.PREEMPTED: "PreemptionByScheduler",
}


class Recorder(TimelineObserver):
    """`changes`: the rows of the history of a timeline, with their documents."""

    def __init__(self, objects):
        self.changes = []
        self._objects = objects
        self._timeline = None

    def begin(self, timeline):
        self._timeline = timeline
        self._initial = True
        for kind, key, obj in self._objects:
            namespace, _, name = key.rpartition("/")
            self._write(columns.OBJECT_ADDED, kind, namespace, name, f"uid-{key}", obj)
        for name in timeline.world.state.objects[NODE]:
            self.node_added(name)
        for life in timeline.lives.values():
            pod = timeline.world.pod(life.key)
            self.arrived(pod, life)
            if life.bound_at is not None:
                self.bound(pod, life)
        self._initial = False

    def _write(self, event, kind, namespace, name, uid, obj=None, **fields):
        document = None if obj is None else document_of(kind, msgspec.json.decode(encode(obj)))
        self.changes.append(
            (
                Row(
                    CREATED + timedelta(seconds=self._timeline.now),
                    event,
                    self._initial,
                    kind.api_version,
                    kind.kind,
                    namespace,
                    name,
                    uid,
                    document="" if document is None else document.document,
                    **fields,
                ),
                document,
            )
        )

    def arrived(self, pod, life):
        if self._timeline is not None:
            owner = next(iter(references_of(pod)), None)
            fields = {} if owner is None else {"owner_kind": owner.kind, "owner_name": owner.name}
            self._write(columns.POD_ARRIVED, POD, pod.namespace, pod.name, pod.uid, pod.object, **fields)

    def bound(self, pod, life):
        if self._timeline is not None:
            self._write(columns.POD_BOUND, POD, pod.namespace, pod.name, pod.uid, node=life.node)

    def gone(self, pod, life):
        reason = REASONS.get(life.leaving, "EvictionByEvictionAPI")
        self._write(columns.POD_ENDED, POD, pod.namespace, pod.name, pod.uid, reason=reason)

    def node_added(self, name):
        if self._timeline is not None:
            node = self._timeline.world.state.objects[NODE][name]
            self._write(columns.NODE_ADDED, NODE, "", name, f"uid-{name}", node)

    def node_removed(self, name):
        self._write(columns.NODE_REMOVED, NODE, "", name, f"uid-{name}")


def record(folder, happenings, *, seconds, nodes=(), objects=(), configuration=None, **options):
    """Write the history of a simulation of some seconds. `objects`: others at the start. Returns its folder."""
    recorder = Recorder(objects)
    timeline = Timeline(World(configuration), CREATED, (recorder,), **options)
    others = [ObjectChanges(0.0, *each) for each in objects]
    timeline.run([*(NodeComes(0.0, node) for node in nodes), *others, *happenings], seconds)
    write_history(
        folder, recorder.changes, source="the test cluster", begin=CREATED, end=CREATED + timedelta(seconds=seconds)
    )
    return folder


def pool_node(name, *, pool="pool", zone="a", cpu="4", kind="m5.xlarge"):
    return make_node(name, cpu=cpu, labels={"pool": pool, ZONE: zone, TYPE: kind})
