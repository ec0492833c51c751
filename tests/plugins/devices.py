"""Device objects and a cluster with the plugin, for the tests of DynamicResources."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.cluster.state import ClusterState
from bayplan.core.framework.interface import CycleState
from bayplan.core.framework.status import Status
from bayplan.core.plugins.arguments import DynamicResourcesArgs
from bayplan.core.plugins.dynamic_resources.plugin import DynamicResources
from bayplan.core.versions import DEFAULT_GATES, FeatureGates
from bayplan.testing.builders import make_node, make_pod
from bayplan.testing.documents import known, put

DRIVER = "gpu.example.com"
API = "resource.k8s.io/v1"


def device_class(name="gpu", expression=f"device.driver == '{DRIVER}'", **spec):
    selectors = [{"cel": {"expression": expression}}] if expression else []
    return {
        "apiVersion": API,
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": selectors, **spec},
    }


def device(name, capacity=None, **fields):
    """A device. Its attributes are the arguments named `a_NAME`."""
    attributes = {key[2:]: _attribute(value) for key, value in fields.items() if key.startswith("a_")}
    others = {key: value for key, value in fields.items() if not key.startswith("a_")}
    amounts = {key: value if isinstance(value, dict) else {"value": value} for key, value in (capacity or {}).items()}
    return {"name": name, "attributes": attributes, "capacity": amounts, **others}


def _attribute(value):
    kind = {bool: "bool", int: "int", str: "string"}.get(type(value))
    return {kind: value} if kind else value


def resource_slice(name, *devices, node=None, pool=None, generation=1, count=1, driver=DRIVER, **spec):
    place = {"nodeName": node} if node else {}
    return {
        "apiVersion": API,
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {
            "driver": driver,
            "pool": {"name": pool or node or name, "generation": generation, "resourceSliceCount": count},
            "devices": [device(each) if isinstance(each, str) else each for each in devices],
            **place,
            **spec,
        },
    }


def request(name="r", count=1, mode="ExactCount", expression="", class_name="gpu", **fields):
    selectors = {"selectors": [{"cel": {"expression": expression}}]} if expression else {}
    exactly = {"deviceClassName": class_name, "allocationMode": mode, **selectors, **fields}
    if mode == "ExactCount":
        exactly["count"] = count
    return {"name": name, "exactly": exactly}


def first_available(*alternatives, name="r"):
    return {"name": name, "firstAvailable": [{"name": each["name"], **each["exactly"]} for each in alternatives]}


def claim(name, *requests, namespace="default", uid=None, constraints=(), status=None, config=(), **metadata):
    devices = {"requests": list(requests), "constraints": list(constraints), "config": list(config)}
    return {
        "apiVersion": API,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace, "uid": uid or f"uid-{name}", **metadata},
        "spec": {"devices": devices},
        **({"status": status} if status else {}),
    }


def allocated(*devices, node=None, pool="n1", reserved=(), **more):
    """The status of an allocated claim. Devices are names or fields of a result."""
    results = []
    for each in devices:
        fields = {"device": each} if isinstance(each, str) else each
        results.append({"request": "r", "driver": DRIVER, "pool": pool, **fields})
    allocation = {"devices": {"results": results}, **more}
    if node:
        only = {"key": "metadata.name", "operator": "In", "values": [node]}
        allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [only]}]}
    reserved_for = [{"resource": "pods", "name": uid, "uid": uid} for uid in reserved]
    return {"allocation": allocation, **({"reservedFor": reserved_for} if reserved else {})}


def pod_with(*claims, name="p", spec=None, **fields):
    references = [{"name": each, "resourceClaimName": each} for each in claims]
    return make_pod(name, spec={"resourceClaims": references, **(spec or {})}, **fields)


class Clock:
    """A clock that advances by `sleep`, and by `steps` seconds whenever it is read."""

    def __init__(self, steps=0.0):
        self.time, self.steps = 1_800_000_000.0, steps
        self.on_sleep = []

    def __call__(self):
        self.time += self.steps
        return self.time

    def now(self):
        return datetime.fromtimestamp(self(), UTC)

    async def sleep(self, seconds):
        self.time += seconds
        for action in self.on_sleep:
            action()


@dataclass
class Devices:
    """A cluster with the plugin. The plugin writes to `client`."""

    objects: list
    client: object = None
    args: DynamicResourcesArgs = field(default_factory=DynamicResourcesArgs)
    clock: Clock = field(default_factory=Clock)
    gates: FeatureGates = DEFAULT_GATES

    def __post_init__(self):
        self.state = ClusterState()
        nodes = [each for each in self.objects if not isinstance(each, dict)]
        for each in (*(nodes or [make_node("n1")]), *(each for each in self.objects if isinstance(each, dict))):
            put(self.state, *known(each))
        self.handle = OfflineHandle(self.state)
        self.handle.client = self.client
        self.handle.now = self.clock.now
        self.handle.monotonic = self.clock
        self.plugin = DynamicResources(self.handle, self.args, self.clock.sleep, self.gates)
        self.cycle = CycleState()

    def ask(self, pod, node="n1"):
        """Run PreFilter and Filter for one node. Returns a status, or None if the node is feasible."""
        self.cycle = CycleState()
        answer = self.plugin.pre_filter(self.cycle, pod, self.state.nodes)
        return answer if isinstance(answer, Status) else self.filter(pod, node)

    def filter(self, pod, node="n1"):
        """Run Filter for one node."""
        nodes = self.state.nodes
        rejections = self.plugin.filter_nodes(self.cycle, pod, nodes.at(np.array([nodes.position(node)])))
        (index,) = rejections.index
        return rejections.statuses[index - 1] if index else None

    def gets(self, pod, node="n1"):
        """The devices of a pod on a node by claim and request, or the rejection message."""
        answer = self.ask(pod, node)
        if answer is not None:
            return answer.message
        results = self.results(pod, node)
        return " ".join(
            ",".join(f"{each.request}={each.device}" for each in result.devices.results or ()) for result in results
        )

    def results(self, pod, node="n1"):
        return self.plugin.offered(self.cycle.data["DynamicResources"], pod, node).results

    def reserve(self, pod, node="n1"):
        assert self.ask(pod, node) is None
        assert self.plugin.reserve(self.cycle, pod, node) is None


async def settled(cluster):
    """Run the started background tasks to completion."""
    while cluster.handle.started:
        _, work = cluster.handle.started.pop(0)
        await work()
