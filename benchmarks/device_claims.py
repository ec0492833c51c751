#!/usr/bin/env python3
"""Measures how many pods with device claims the decision core places per second.

    benchmarks/device_claims.py                       # 200 nodes with 8 devices, 2,000 pods with one claim each
    benchmarks/device_claims.py --nodes 50 --claims 500

Every claim requests one device, with a CEL selector that half of the devices match. Each pod is decided and assumed,
and its devices are reserved, in memory; nothing is written. Quote results with the machine and its load.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time

from bayplan.core.framework.binding_runner import run_reserve
from bayplan.core.scheduling import decide
from bayplan.core.sharing import Sharing
from bayplan.foundations.heap import keep_heap
from bayplan.testing import make_cluster, make_node, make_pod

DRIVER = "gpu.example.com"
API = "resource.k8s.io/v1"


def slice_of(node: str, devices: int) -> dict[str, object]:
    """The ResourceSlice of a node, with devices of two models."""
    names = [
        {"name": f"d{number}", "attributes": {"model": {"string": "a" if number % 2 else "b"}}}
        for number in range(devices)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": names}
    return {"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": f"of-{node}"}, "spec": spec}


def claim(name: str, model: str) -> dict[str, object]:
    """A claim for one device of a model."""
    expression = f'device.attributes["{DRIVER}"].model == "{model}"'
    exactly = {
        "deviceClassName": "gpu",
        "allocationMode": "ExactCount",
        "count": 1,
        "selectors": [{"cel": {"expression": expression}}],
    }
    metadata = {"name": name, "namespace": "default", "uid": name}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    return {"apiVersion": API, "kind": "ResourceClaim", "metadata": metadata, "spec": spec}


def main() -> None:
    """Run the benchmark and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--claims", type=int, default=2000)
    options = parser.parse_args()
    keep_heap()
    names = [f"n{number}" for number in range(options.nodes)]
    cluster = make_cluster(
        {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}},
        *(make_node(name, cpu="64") for name in names),
        *(slice_of(name, options.devices) for name in names),
        *(claim(f"c{number}", "ab"[number % 2]) for number in range(options.claims)),
    )
    pods = [
        make_pod(f"p{number}", cpu="100m", spec={"resourceClaims": [{"name": "r", "resourceClaimName": f"c{number}"}]})
        for number in range(options.claims)
    ]
    sharing, rng, seconds, placed = Sharing(cluster.profile), random.Random(0), [], 0
    for pod in pods:
        began = time.perf_counter()
        decision = decide(cluster.profile, cluster.state, pod, rng, start=sharing.start)
        if decision.node:
            assumed = cluster.state.assume(pod, decision.node)
            run_reserve(cluster.profile, decision.cycle, assumed, decision.node)
            placed += 1
        seconds.append(time.perf_counter() - began)
    print(f"{options.nodes} nodes, {options.devices} devices per node, {options.claims} claims")
    print(f"  decided  {len(pods) / sum(seconds):,.0f} pods/s, placed {placed}")
    print(f"  p50 {statistics.median(seconds) * 1e3:.2f} ms, worst {max(seconds) * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
