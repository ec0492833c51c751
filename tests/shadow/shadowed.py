"""A cluster whose scheduler's decisions tests write by hand, and the shadow that sees them."""

from datetime import UTC, datetime, timedelta

import msgspec

from bayplan.answers.shadow.shadow import Shadow
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import NODE, POD
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.config import load_configuration
from bayplan.testing import make_node, make_pod
from bayplan.testing.documents import as_sent

BEGIN = datetime(2026, 1, 5, 8, tzinfo=UTC)
NAME = "default-scheduler"


class Shadowed:
    """The objects of a cluster, whose changes a shadow sees one second after the other, or when `at` says."""

    def __init__(self, *nodes, configuration=None, theirs=None, budget=None, plugins=()):
        self.shadow = Shadow(World(configuration, plugins), {NAME}, configuration, theirs, budget=budget)
        self.seconds = 0.0
        self.found = []
        self.documents = {}
        for node in nodes:
            self.put_node(node)
        self.wait(11)

    def _seen(self, call, *arguments, **more):
        time = BEGIN + timedelta(seconds=self.seconds)
        self.found += call(*arguments, seconds=self.seconds, time=time, **more) or []

    def put(self, kind, key, obj):
        self._seen(self.shadow.put, kind, key, obj)

    def put_node(self, node):
        self._seen(self.shadow.put, NODE, node.metadata.name, node)

    def remove_node(self, name):
        self._seen(self.shadow.removed, NODE, name)

    def create(self, name, *, started=None, **fields):
        self.documents[name] = dict(as_sent(make_pod(name, **fields))[1])
        if started is not None:
            self.documents[name]["status"] = {"startTime": f"{started:%Y-%m-%dT%H:%M:%SZ}"}
        self._put(name)

    def bind(self, name, node, **more):
        self.documents[name]["spec"]["nodeName"] = node
        self._put(name, **more)

    def place(self, name, node, *, compared=True, **fields):
        """A pod is created, and bound a moment later."""
        self.create(name, **fields)
        self.bind(name, node, compared=compared)

    def expect(self, name, node):
        """The scheduler writes the node that it will bind a pod to, because the binding takes long."""
        self.documents[name].setdefault("status", {})["nominatedNodeName"] = node
        self._put(name)

    def nominate(self, name, node):
        """A preemption has chosen a node: the pod fits none."""
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes"}
        self.documents[name]["status"] = {"nominatedNodeName": node, "conditions": [condition]}
        self._put(name)

    def fail(self, name, message="0/1 nodes are available: 1 Insufficient cpu."):
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        self.documents[name]["status"] = {"conditions": [condition]}
        self._put(name)

    def evict(self, name):
        document = self.documents.pop(name)
        condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        document["status"] = {**document.get("status", {}), "conditions": [condition]}
        self.documents[name] = document
        self._put(name)
        self.remove(name)

    def remove(self, name):
        self.documents.pop(name)
        self._seen(self.shadow.removed, POD, f"default/{name}")

    def _put(self, name, **more):
        document = self.documents[name]
        document["metadata"]["resourceVersion"] = str(int(document["metadata"].get("resourceVersion") or 0) + 1)
        document["metadata"].setdefault("uid", f"uid-{name}")
        pod = PodInfo.from_raw(msgspec.json.encode(document))
        self._seen(self.shadow.put, POD, pod.key, pod, **more)

    def wait(self, seconds=2.0):
        self.seconds += seconds
        self.found += self.shadow.settle(self.seconds)

    def only(self):
        self.wait()
        (found,) = self.found
        return found


def nodes(number, cpu="4", **more):
    return [make_node(f"node-{each}", cpu=cpu, **more) for each in range(number)]


def configured(tmp_path, text):
    file = tmp_path / "scheduler.yaml"
    file.write_text(text)
    return load_configuration(file)
