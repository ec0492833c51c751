"""The workload of `benchmarks/truth.py`: services, jobs and urgent pods for which the nodes are too few at times."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from lightkube.models import core_v1

from bayplan.core.api.kinds import DEPLOYMENT, JOB, POD, STATEFUL_SET, Kind
from bayplan_devcluster.kubelet import RUN_SECONDS, STOP_SECONDS, NodeShape, make_node

Json = dict[str, Any]
ZONES = ("zone-a", "zone-b", "zone-c")
SHAPES = (NodeShape("4", "16Gi"), NodeShape("4", "8Gi"), NodeShape("8", "32Gi"))
URGENT = "urgent"
_OFFERED = 1200 / 60
"""The pods for each node that the numbers below are made for."""


@dataclass(frozen=True, slots=True)
class Size:
    """How large the experiment is. `seconds`: how long the workload comes."""

    nodes: int = 60
    pods: int = 1200
    seconds: float = 180.0
    seed: int = 1


@dataclass(frozen=True, slots=True, order=True)
class Action:
    """Something that a user does: `create` an object, `delete` a pod, or set the `replicas` of a Deployment."""

    at: float
    what: str
    name: str
    kind: Kind = field(compare=False)
    document: Json = field(compare=False, default_factory=dict)


def nodes_of(size: Size) -> list[core_v1.Node]:
    """Nodes of three sizes in three zones."""
    return [
        make_node(f"node-{number:03}", SHAPES[number // len(ZONES) % len(SHAPES)], zone=ZONES[number % len(ZONES)])
        for number in range(size.nodes)
    ]


def workload_of(size: Size) -> list[Action]:
    """What users do, in the order of time. The same size gives the same actions."""
    return sorted(_Workload(size).actions())


class _Workload:
    def __init__(self, size: Size) -> None:
        self._size = size
        self._chance = random.Random(size.seed)
        self._share = size.pods / (60 * _OFFERED)
        self._cpu = size.nodes / 60 / self._share
        """By how much requests are larger than in the usual proportion of pods and nodes."""

    def actions(self) -> Iterator[Action]:
        yield from self._services(24)
        yield from self._stateful(4)
        yield from self._jobs(56)
        yield from self._urgent(26)
        yield from self._bare(120)

    def _number(self, usual: int) -> range:
        return range(max(round(usual * self._share), 1))

    def _time(self, first: float, last: float) -> float:
        return round(self._chance.uniform(first, last) * self._size.seconds, 3)

    def _requests(self, cpu: float, memory: float) -> Json:
        return {"cpu": f"{round(1000 * cpu * self._cpu)}m", "memory": f"{round(1024 * memory * self._cpu)}Mi"}

    def _template(self, app: str, requests: Json, **more: Any) -> Json:
        """A pod template. Containers take up to six seconds to follow SIGTERM."""
        annotations = {STOP_SECONDS: f"{self._chance.uniform(0.5, 6):.1f}", **more.pop("annotations", {})}
        container = {"name": "main", "image": "app:1", "resources": {"requests": requests}}
        return {
            "metadata": {"labels": {"app": app}, "annotations": annotations},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 10, **more},
        }

    def _services(self, number: int) -> Iterator[Action]:
        """Deployments, some spread over zones, that are scaled or rolled out later."""
        for index in self._number(number):
            name = f"web-{index}"
            cpu, memory = self._chance.choice(((0.25, 0.5), (0.5, 1), (0.5, 2), (0.75, 1.5), (1, 3)))
            more: Json = {}
            if index % 3 == 0:
                more["topologySpreadConstraints"] = [_spread(name, index % 2 == 0)]
            template = self._template(name, self._requests(cpu, memory), **more)
            replicas = self._chance.randint(6, 14)
            document = _workload("apps/v1", "Deployment", name, template, replicas=replicas)
            yield Action(self._time(0, 0.08), "create", name, DEPLOYMENT, document)
            for _ in range(self._chance.randint(0, 2)):
                replicas = max(replicas + self._chance.choice((-4, -3, 3, 4, 5)), 2)
                yield Action(self._time(0.15, 0.9), "replicas", name, DEPLOYMENT, {"spec": {"replicas": replicas}})

    def _stateful(self, number: int) -> Iterator[Action]:
        for index in self._number(number):
            name = f"db-{index}"
            template = self._template(name, self._requests(1, 3))
            document = _workload("apps/v1", "StatefulSet", name, template, replicas=4, serviceName=name)
            document["spec"]["podManagementPolicy"] = self._chance.choice(("Parallel", "OrderedReady"))
            yield Action(self._time(0, 0.1), "create", name, STATEFUL_SET, document)

    def _jobs(self, number: int) -> Iterator[Action]:
        for index in self._number(number):
            name, pods = f"train{index}", self._chance.randint(4, 10)
            runs = {RUN_SECONDS: f"{self._chance.uniform(8, 35):.1f}"}
            requests = self._requests(self._chance.choice((0.5, 0.5, 1, 1)), self._chance.choice((0.5, 1, 2)))
            template = self._template(name, requests, annotations=runs, restartPolicy="Never")
            job = {"parallelism": pods, "completions": pods, "backoffLimit": 1000, "template": template}
            document = {"metadata": {"name": name, "namespace": "default"}, "spec": job}
            yield Action(self._time(0.1, 0.85), "create", name, JOB, document)

    def _urgent(self, number: int) -> Iterator[Action]:
        """Bursts of pods that preempt."""
        for index in self._number(number):
            at = self._time(0.15, 0.9)
            cpu = self._chance.choice((1, 1, 2, 2))
            for member in range(self._chance.randint(4, 12)):
                name = f"urgent-{index}-{member}"
                yield self._pod(at, name, f"urgent-{index}", self._requests(cpu, 2), URGENT)

    def _bare(self, number: int) -> Iterator[Action]:
        """Single pods without a controller; a few run until they are deleted."""
        for index in self._number(number):
            name, at = f"task-{index}", self._time(0.1, 0.9)
            made = self._pod(at, name, f"task-{index % 6}", self._requests(self._chance.choice((0.5, 1, 2)), 1.5))
            if index % 5 == 0:
                del made.document["metadata"]["annotations"][RUN_SECONDS]
                yield Action(at + self._time(0.05, 0.2), "delete", name, POD)
            yield made

    def _pod(self, at: float, name: str, app: str, requests: Json, priority: str = "") -> Action:
        runs = {RUN_SECONDS: f"{self._chance.uniform(10, 35):.1f}"}
        template = self._template(app, requests, annotations=runs, restartPolicy="Never")
        metadata = {"name": name, "namespace": "default", **template["metadata"]}
        spec = template["spec"] | ({"priorityClassName": priority} if priority else {})
        return Action(at, "create", name, POD, {"metadata": metadata, "spec": spec})


def _workload(api_version: str, kind: str, name: str, template: Json, **spec: Any) -> Json:
    selector = {"matchLabels": template["metadata"]["labels"]}
    metadata = {"name": name, "namespace": "default"}
    whole = {"selector": selector, "template": template, **spec}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": whole}


def _spread(app: str, required: bool) -> Json:
    return {
        "maxSkew": 2,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule" if required else "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": app}},
    }
