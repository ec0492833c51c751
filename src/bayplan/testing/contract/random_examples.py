"""Random examples: few nodes and pods that have much to do with one another. The same seed makes the same ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from bayplan.api.kinds import NAMESPACE, NODE, POD, SERVICE, Kind
from bayplan.testing.contract.examples import Example
from bayplan.testing.documents import Document

ZONE, RACK, HOSTNAME = "topology.kubernetes.io/zone", "example.com/rack", "kubernetes.io/hostname"
REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
NODES = ("n0", "n1", "n2", "n3")
NAMESPACES = ("default", "other")
GPU = "example.com/gpu"
IMAGES = ("registry.example/web:1", "registry.example/batch:2")
NUMBERS = ("0", "7", "40", "100", "-3", "1000", "2.5", "many")
"""Values of labels and annotations that plugins may take for numbers."""


class RandomExamples:
    """Makes examples. `words`: label keys, values and the like that the plugin looks for.

    `objects` are in every example, and every other waiting pod is one of `pods`, if there are any.
    """

    def __init__(
        self,
        seed: int,
        words: Sequence[str] = (),
        objects: Sequence[tuple[Kind, Document]] = (),
        pods: Sequence[Document] = (),
    ) -> None:
        self._seed = seed
        self._words = tuple(words)
        self._objects = tuple(objects)
        self._pods = tuple(pods)
        self._begin(seed)

    @classmethod
    def like(cls, example: Example) -> RandomExamples:
        """A maker of more objects for an example, which have to do with those that it has."""
        return cls(example.number, example.words)

    def example(self, number: int) -> Example:
        """The example of a number, whichever were made before."""
        unique = self._seed * 1_000_003 + number
        rng = self._begin(unique)
        names = rng.sample(NODES, rng.randint(1, len(NODES)))
        nodes = [(NODE, self.node(name)) for name in names]
        places = [rng.choice(names if rng.random() < 0.9 else NODES) for _ in range(rng.randint(0, 7))]
        pods = [(POD, self.bound(f"p{index}", node)) for index, node in enumerate(places)]
        namespaces = [(NAMESPACE, {"metadata": {"name": name, "labels": self._team()}}) for name in NAMESPACES]
        services = [(SERVICE, self._service())] if rng.random() < 0.3 else []
        given = self._pods[number // 2 % len(self._pods)] if self._pods and number % 2 else None
        pod = given or self.pod("waiting", number)
        return Example(unique, (*namespaces, *services, *self._objects, *nodes, *pods), pod, self._words)

    def _begin(self, number: int) -> random.Random:
        """Start anew: with a number of its own, and few labels of which everything here has some."""
        self.rng = random.Random(number)
        self._favourites = [self._mark() for _ in range(4)]
        return self.rng

    def node(self, name: str) -> dict[str, Any]:
        """A node."""
        rng = self.rng
        labels = {HOSTNAME: name, ZONE: rng.choice("aab"), RACK: rng.choice("12"), **self.marks()}
        for key in (HOSTNAME, ZONE, RACK):
            if rng.random() < 0.15:
                del labels[key]
        effects = rng.choice([(), (), (), ("NoSchedule",), ("PreferNoSchedule",), ("NoExecute",)])
        taints = [{"key": self._word("dedicated"), "value": "db", "effect": effect} for effect in effects]
        image = rng.choice([None, *IMAGES])
        resources = {"cpu": rng.choice(["1", "2", "4"]), "memory": rng.choice(["2Gi", "8Gi"]), "pods": "4"}
        if rng.random() < 0.4:
            resources[rng.choice([GPU, *self._resources()])] = "2"
        return {
            "metadata": {"name": name, "uid": f"node-{name}", "labels": labels, "annotations": self.marks()},
            "spec": {"taints": taints, "unschedulable": rng.random() < 0.15},
            "status": {
                "allocatable": resources,
                "images": [{"names": [image], "sizeBytes": 500 * 2**20}] if image else [],
                "conditions": [{"type": "Ready", "status": rng.choice(["True", "True", "False"])}],
            },
        }

    def bound(self, name: str, node: str) -> dict[str, Any]:
        """A pod on a node."""
        pod = self.pod(name)
        pod["spec"] = {**pod["spec"], "nodeName": node}
        pod["spec"].pop("schedulingGates", None)
        pod["status"] = {"phase": "Running"}
        if self.rng.random() < 0.15:
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        return pod

    def pod(self, name: str, certain: int | None = None) -> dict[str, Any]:
        """A pod that waits. What it wishes for is chance, but for one wish, which is `certain` by its number."""
        rng = self.rng
        spec: dict[str, Any] = {"containers": [self._container()], "schedulerName": "default-scheduler"}
        spec["priority"] = rng.choice([0, 0, 10, 1000])
        wishes: tuple[tuple[float, str, Callable[[], Any]], ...] = (
            (0.15, "affinity", self._near_nodes),
            (0.15, "affinity", lambda: self._near_nodes(preferred=True)),
            (0.15, "affinity", self._near_pods),
            (0.15, "affinity", lambda: self._near_pods(anti=True)),
            (0.1, "affinity", lambda: self._near_pods(preferred=True)),
            (0.3, "topologySpreadConstraints", lambda: [self._spread(rng.choice(["DoNotSchedule", "ScheduleAnyway"]))]),
            (0.0, "topologySpreadConstraints", lambda: [self._spread("DoNotSchedule")]),
            (0.3, "nodeSelector", lambda: rng.choice([{ZONE: "a"}, {RACK: "2"}, self.marks()])),
            (0.4, "tolerations", lambda: [self._toleration()]),
            (0.1, "schedulingGates", lambda: [{"name": "example.com/gate"}]),
        )
        for number, (chance, field, value) in enumerate(wishes):
            if rng.random() < chance or (certain is not None and number == certain % len(wishes)):
                spec[field] = value()
        labels = {"app": rng.choice("aab"), **self.marks()}
        metadata = {
            "name": name,
            "namespace": rng.choice([NAMESPACES[0], NAMESPACES[0], *NAMESPACES]),
            "uid": f"pod-{name}",
            "labels": labels,
            "annotations": self.marks(),
            "creationTimestamp": "2026-01-01T00:00:00Z",
        }
        return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}

    def marks(self) -> dict[str, str]:
        """Labels or annotations of the words."""
        if not self._words:
            return {}
        chosen = [mark for mark in self._favourites if self.rng.random() < 0.4]
        return dict([*chosen, self._mark()] if self.rng.random() < 0.4 else chosen)

    def _mark(self) -> tuple[str, str]:
        """A key and a value, both of the words as a rule."""
        values = [word for word in self._words if "/" not in word] or ["yes"]
        return self.rng.choice(self._words or ["-"]), self.rng.choice(values if self.rng.random() < 0.7 else NUMBERS)

    def _word(self, usual: str) -> str:
        return self.rng.choice(self._words) if self._words and self.rng.random() < 0.3 else usual

    def plenty(self) -> dict[str, str]:
        """Much of every resource that the words may mean."""
        return dict.fromkeys(self._resources(), "8")

    def _resources(self) -> list[str]:
        return [word for word in self._words if "/" in word]

    def _team(self) -> dict[str, str]:
        return self.rng.choice([{}, {"team": "red"}, {"team": "blue"}])

    def _service(self) -> dict[str, Any]:
        return {
            "metadata": {"name": "s", "namespace": self.rng.choice(NAMESPACES)},
            "spec": {"selector": {"app": self.rng.choice("ab")}},
        }

    def _container(self) -> dict[str, Any]:
        rng = self.rng
        requests = {}
        if rng.random() < 0.7:
            requests["cpu"] = rng.choice(["100m", "500m", "1", "3"])
        if rng.random() < 0.6:
            requests["memory"] = rng.choice(["128Mi", "1Gi", "3Gi"])
        if rng.random() < 0.2:
            requests[rng.choice([GPU, *self._resources()])] = "1"
        container: dict[str, Any] = {"name": "main", "image": rng.choice(IMAGES), "resources": {"requests": requests}}
        if rng.random() < 0.35:
            container["ports"] = [{"containerPort": 80, "hostPort": rng.choice([80, 80, 8080]), "protocol": "TCP"}]
        return container

    def _toleration(self) -> dict[str, str]:
        return self.rng.choice(
            [
                {"operator": "Exists"},
                {"key": self._word("dedicated"), "operator": "Exists"},
                {"key": "dedicated", "operator": "Equal", "value": "db", "effect": "NoSchedule"},
            ]
        )

    def _near_nodes(self, *, preferred: bool = False) -> dict[str, Any]:
        term = {"matchExpressions": [self._node_expression()]}
        if preferred:
            return {"nodeAffinity": {PREFERRED: [{"weight": self.rng.choice([1, 7]), "preference": term}]}}
        return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}

    def _near_pods(self, *, anti: bool = False, preferred: bool = False) -> dict[str, Any]:
        kind, term = "podAntiAffinity" if anti else "podAffinity", self._pod_term()
        if preferred:
            return {kind: {PREFERRED: [{"weight": self.rng.choice([1, 7]), "podAffinityTerm": term}]}}
        return {kind: {REQUIRED: [term]}}

    def _node_expression(self) -> dict[str, Any]:
        operator = self.rng.choice(["In", "NotIn", "Exists"])
        values = {} if operator == "Exists" else {"values": ["a", "2"]}
        return {"key": self._word(self.rng.choice([ZONE, RACK])), "operator": operator, **values}

    def _pod_term(self) -> dict[str, Any]:
        selector = {"matchLabels": {"app": self.rng.choice("aab")}}
        return {"topologyKey": self.rng.choice([ZONE, RACK, HOSTNAME]), "labelSelector": selector}

    def _spread(self, unsatisfiable: str) -> dict[str, Any]:
        return {
            "topologyKey": self.rng.choice([ZONE, HOSTNAME]),
            "maxSkew": self.rng.choice([1, 1, 2]),
            "whenUnsatisfiable": unsatisfiable,
            "labelSelector": {"matchLabels": {"app": self.rng.choice("aab")}},
        }
