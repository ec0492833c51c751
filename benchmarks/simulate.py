#!/usr/bin/env python3
"""Measures simulations: a day of 1,000 nodes and 100,000 pods, and a burst that an autoscaler has to follow.

    benchmarks/simulate.py [--days N] [--share S] [--only day|burst]

The load is made up: services of 20,000 pods that roll over, and jobs, of four priorities, on nodes of three sizes in
three zones, with preemption and a cluster autoscaler. Prints seconds, pods a second, and the memory of the process.
"""

from __future__ import annotations

import argparse
import random
import resource
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from lightkube.models.core_v1 import Node

from bayplan.answers.simulation.happenings import NodeComes, PodArrives, PodEnds
from bayplan.answers.simulation.measures import TimelineMeasures
from bayplan.answers.simulation.models.autoscaler.autoscaler import Autoscaler
from bayplan.answers.simulation.models.autoscaler.groups import ScaledGroup
from bayplan.answers.simulation.models.autoscaler.rules import PRESETS
from bayplan.answers.simulation.models.budgets import BudgetController
from bayplan.answers.simulation.timeline import Happening, Timeline, TimelineObserver
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import NODE
from bayplan.core.api.objects import convert, encode
from bayplan.core.cluster.pod_info import PodInfo

DAY = 86400.0
ZONES = ("a", "b", "c")
SIZES = {"small": ("8", "32Gi"), "medium": ("16", "64Gi"), "large": ("32", "128Gi")}


def node(name: str, size: str, zone: str) -> Node:
    """A node of a size in a zone."""
    cpu, memory = SIZES[size]
    labels = {
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/zone": zone,
        "node.kubernetes.io/instance-type": size,
    }
    amounts = {"cpu": cpu, "memory": memory, "pods": "110"}
    document = {"metadata": {"name": name, "uid": name, "labels": labels}, "status": {"allocatable": amounts}}
    return convert(Node, document)


def template(kind: str, owner: str, cpu: str, memory: str, priority: int) -> PodInfo:
    """A pod that others are replicas of."""
    requests = {"requests": {"cpu": cpu, "memory": memory}}
    document: dict[str, Any] = {
        "metadata": {
            "name": owner,
            "namespace": "default",
            "uid": owner,
            "labels": {"app": owner},
            "ownerReferences": [{"apiVersion": "v1", "kind": kind, "name": owner, "uid": owner, "controller": True}],
        },
        "spec": {"containers": [{"name": "main", "image": "app", "resources": requests}], "priority": priority},
        "status": {"phase": "Pending"},
    }
    return PodInfo.from_raw(encode(document))


def load(days: int, seed: int) -> Iterator[Happening]:
    """1,000 nodes, 15,000 pods of services at the start, and 100,000 pods a day: 70 % jobs, 30 % of services."""
    rng = random.Random(seed)
    for number in range(1000):
        yield NodeComes(0.0, node(f"n{number:04}", list(SIZES)[number % 3], ZONES[number % 3]))
    services = [
        template("ReplicaSet", f"web-{n}", rng.choice(["250m", "500m", "1"]), rng.choice(["512Mi", "2Gi"]), n % 4)
        for n in range(150)
    ]
    jobs = [template("Job", f"job-{n}", rng.choice("124"), rng.choice(["1Gi", "4Gi", "8Gi"]), 0) for n in range(50)]
    alive: list[str] = []
    for number in range(15000):
        uid = f"first-{number}"
        alive.append(uid)
        yield PodArrives(1.0 + number / 100, rng.choice(services).replica(uid, uid, ""))
    for number in range(100_000 * days):
        at = 300.0 + number * (DAY - 300) / 100_000
        uid = f"pod-{number}"
        if rng.random() < 0.7:
            yield PodArrives(at, rng.choice(jobs).replica(uid, uid, ""), runs=round(60 + rng.random() * 7200, 3))
        else:
            yield PodArrives(at, rng.choice(services).replica(uid, uid, ""))
            place = rng.randrange(len(alive))
            yield PodEnds(at, alive[place])
            alive[place] = uid


def burst(pods: int) -> Iterator[Happening]:
    """One node, and many pods at once."""
    yield NodeComes(0.0, node("n0", "large", "a"))
    kinds = [template("ReplicaSet", f"web-{n}", cpu, "1Gi", 0) for n, cpu in enumerate(("500m", "1", "2", "3"))]
    for number in range(pods):
        uid = f"pod-{number}"
        yield PodArrives(1.0, kinds[number % 4].replica(uid, uid, ""))


def groups() -> list[ScaledGroup]:
    """A group of each size in each zone."""
    return [group(size, zone) for size in SIZES for zone in ZONES]


def group(size: str, zone: str) -> ScaledGroup:
    """The nodes of a size in a zone."""

    def has(found: Node) -> bool:
        labels = (found.metadata.labels if found.metadata else None) or {}
        return labels.get("node.kubernetes.io/instance-type") == size and labels["topology.kubernetes.io/zone"] == zone

    price = 0.04 * int(SIZES[size][0])
    return ScaledGroup(f"{size}-{zone}", lambda name: [(NODE, name, node(name, size, zone))], has, price=price)


def measure(title: str, happenings: Iterator[Happening], until: float, count: int) -> None:
    """Simulate, and print how long that takes. `count`: how many pods arrive."""
    budgets = BudgetController()
    measures = TimelineMeasures(until)
    autoscaler = Autoscaler(groups(), PRESETS["cluster-autoscaler"], budgets)
    observers: list[TimelineObserver] = [measures, budgets, autoscaler]
    timeline = Timeline(World(), datetime(2026, 1, 1, tzinfo=UTC), observers)
    began = time.process_time()
    timeline.run(happenings, until)
    seconds = time.process_time() - began
    found = measures.summary()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(
        f"{title}: {seconds:.1f} s of CPU, {count / seconds:,.0f} pods/s, {timeline.attempts:,} attempts, "
        f"{found.evicted:,} evictions, {found.nodes:.0f} nodes on average, {found.most_nodes} at most, "
        f"{found.never_placed} never placed, {memory} MiB"
    )


def main() -> None:
    """Run what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=1)
    parser.add_argument("--share", type=float, default=1.0, help="simulate only the first part of that time")
    parser.add_argument("--only", choices=("day", "burst"))
    arguments = parser.parse_args()
    days = arguments.days
    if arguments.only != "burst":
        until = days * DAY * arguments.share
        measure(f"{days} day(s)", load(days, 1), until, int(100_000 * days * arguments.share) + 15_000)
    if arguments.only != "day":
        measure("burst of 10,000 pods", burst(10_000), 600.0, 10_000)


if __name__ == "__main__":
    main()
