"""The most expensive claims for devices that an API server accepts: ten nodes of 128 devices, one pod."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from lightkube.models.core_v1 import Node

from bayplan.core.scheduling import decide
from bayplan.testing import LiveCluster, make_cluster, make_node, make_pod

API, DRIVER = "resource.k8s.io/v1", "gpu.example.com"
NODES, DEVICES = 10, 128
OWN = f"device.attributes['{DRIVER}']"
Document = dict[str, Any]


NAMES = [f"n{number}" for number in range(NODES)]
REQUEST = {"resourceClaims": [{"name": "r", "resourceClaimName": "claim"}]}


def measure(only: str) -> None:
    """Print the times of the claims with this text in their names."""
    print(f"{'10 nodes of 128 devices':50} {'alone':>8} {'running':>8} {'others':>8} {'beat':>8}")
    for name, make in CLAIMS.items():
        if only in name:
            times = _alone(make()), *_running(make())
            print(f"{name:50} {' '.join(f'{each:6.2f} s' for each in times)}", flush=True)


def _alone(claim: Document) -> float:
    cluster = make_cluster(*_devices(), *_nodes(), claim)
    began = time.process_time()
    decide(cluster.profile, cluster.state, make_pod("claimed", spec=REQUEST), random.Random(0))
    return time.process_time() - began


def _running(claim: Document) -> tuple[float, float, float]:
    with LiveCluster(nodes=_nodes()) as cluster:
        cluster.create(*_devices(), claim)
        cluster.create(make_pod("first"))
        cluster.wait_until_bound("first")
        heartbeat = Heartbeat(cluster)
        cluster.create(make_pod("claimed", spec=REQUEST))
        began, longest, number = time.monotonic(), 0.0, 0
        while True:
            with suppress(AssertionError):
                cluster.wait_until_rejected("claimed", within=0.01)
                return time.monotonic() - began, longest, heartbeat.stop()
            created = time.monotonic()
            cluster.create(make_pod(f"other-{number}"))
            cluster.wait_until_bound(f"other-{number}", within=60)
            longest, number = max(longest, time.monotonic() - created), number + 1


class Heartbeat:
    """Asks the scheduler's event loop for an answer every 10 ms, as /livez does."""

    def __init__(self, cluster: LiveCluster) -> None:
        self._cluster = cluster
        self._longest = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> float:
        """The longest time until an answer, in seconds."""
        self._ended.set()
        self._thread.join()
        return self._longest

    def _run(self) -> None:
        while not self._ended.wait(0.01):
            asked = time.monotonic()
            self._cluster.until(lambda: True, within=60)
            self._longest = max(self._longest, time.monotonic() - asked)


def _nodes() -> list[Node]:
    return [make_node(name, cpu="64") for name in NAMES]


def _devices() -> list[Document]:
    """A class, and slices with devices that differ in their index and their UUID."""
    device_class = {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}
    return [device_class, *map(_slice_of, NAMES)]


def _slice_of(node: str) -> Document:
    devices = [
        {
            "name": f"d{number}",
            "attributes": {
                "index": {"int": number},
                "uuid": {"string": f"{node}-{number}"},
                "model": {"string": "model-x"},
            },
        }
        for number in range(DEVICES)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    return {"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": f"of-{node}"}, "spec": spec}


def _claim(requests: list[Document], constraints: list[Document] | None = None) -> Document:
    metadata = {"name": "claim", "namespace": "default", "uid": "claim"}
    devices = {"requests": requests, "constraints": constraints or []}
    return {"apiVersion": API, "kind": "ResourceClaim", "metadata": metadata, "spec": {"devices": devices}}


def _exactly(*expressions: str) -> Document:
    selectors = [{"cel": {"expression": each}} for each in expressions]
    return {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1, "selectors": selectors}


def _one(*expressions: str) -> Document:
    return _claim([{"name": "r", "exactly": _exactly(*expressions)}])


def _alternatives(expression: Callable[[int], str], constraints: list[Document] | None = None) -> Document:
    """A claim with 8 requests of 8 alternatives."""
    requests = [
        {
            "name": f"r{request}",
            "firstAvailable": [
                {"name": f"s{number}", **_exactly(expression(8 * request + number))} for number in range(8)
            ],
        }
        for request in range(8)
    ]
    return _claim(requests, constraints)


def _nested(body: str, *lengths: int) -> str:
    """Loops over lists of these lengths, whose variables are x, y and z."""
    for name, length in reversed([*zip("xyz", lengths, strict=False)]):
        body = f"[{', '.join(map(str, range(1, length + 1)))}].all({name}, {body})"
    return body


_PATTERN = "|".join(f"m-{number:03d}x" for number in range(1000))

CLAIMS: dict[str, Callable[[], Document]] = {
    "a loop of 60 x 60": lambda: _one(f"{_nested('x * y > 0', 60, 60)} && {OWN}.uuid == ''"),
    "a loop of 60 x 60 over each index": lambda: _one(f"{_nested(f'x * y + {OWN}.index > 0', 60, 60)} && false"),
    "a loop of 60 x 60 over each UUID": lambda: _one(f"{_nested(f'{OWN}.uuid != string(x * y)', 60, 60)} && false"),
    "a loop of 15 x 15 x 15": lambda: _one(f"{_nested('x + y + z > 0', 15, 15, 15)} && {OWN}.uuid == ''"),
    "30 selectors with loops of 30 x 30": lambda: _one(
        *(f"{_nested(f'x * y + {OWN}.index > -{number}', 30, 30)}" for number in range(29)), "false"
    ),
    "a pattern of 1,000 alternatives": lambda: _one(f"{OWN}.model.matches('^({_PATTERN})$')"),
    "8 requests of 8 alternatives": lambda: _alternatives(lambda number: f"{OWN}.index == {1000 + number}"),
    "8 requests of 8 alternatives, all the same UUID": lambda: _alternatives(
        lambda _: "true", [{"matchAttribute": f"{DRIVER}/uuid"}]
    ),
    "8 requests of 8 alternatives, no model twice": lambda: _alternatives(
        lambda _: "true", [{"distinctAttribute": f"{DRIVER}/model"}]
    ),
}
