#!/usr/bin/env python3
"""Gives the same gangs to kube-scheduler and to Bayplan, each on a control plane of its own, and compares what they do.

    KUBEBUILDER_ASSETS=DIR benchmarks/gangs_beside.py                    # 40 events: about 5 minutes
    KUBEBUILDER_ASSETS=DIR benchmarks/gangs_beside.py --seed 7 --events 100
    KUBEBUILDER_ASSETS=DIR benchmarks/gangs_beside.py --logs build/gangs # keep what both say, and a recording
    KUBEBUILDER_ASSETS=DIR benchmarks/gangs_beside.py --rates            # pods per second, end to end

DIR has etcd, kube-apiserver and kube-scheduler 1.36. Both schedulers have the feature gates GenericWorkload,
GangScheduling and TopologyAwareWorkloadScheduling, and backoffs of one second.

A random stream of gangs comes, ends and loses pods; nodes come. After each event, when nothing changes any more on
either side, how many pods of each gang have a node is compared, and in which zone those are that need one: the pods of
a gang are alike, so which of them it is doesn't matter, nor on which node. A difference is printed with what came
before; then both sides begin anew. They also do so where pods that need no zone are in others on one side, or where a
gang that needs one got another of two that are equally utilized with it: the choice among equally good nodes and zones
is random, and from then on, the sides have different room.

Nothing is left to a race between what happens and the schedulers: a gang is complete before they may place it, pods end
one at a time, each once both sides are at rest, and no gang comes while another one waits. Kube-scheduler tries each
waiting gang again after every backoff, so which of several is first when room comes free is chance.

`--rates` creates gangs of 4 and of 64 on many nodes, with and without a topology constraint, before a scheduler starts.
It compares how many pods a second are bound from the first to the last one, so that neither the creation of pods counts
nor a backoff of gangs that were not complete yet.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.support.control_plane import ASSETS, ControlPlane, ControlPlaneError

from bayplan.client import HttpClient, load_kubeconfig
from bayplan.core.api.kinds import NODE, POD, POD_GROUP_V1ALPHA2
from truth_run import complete, running_program

GATES = ",".join(f"{name}=true" for name in ("GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling"))
FLAGS = (f"--feature-gates={GATES}", "--runtime-config=scheduling.k8s.io/v1alpha2=true")
STOCK, OURS = "kube-scheduler", "bayplan"
ZONE = "topology.kubernetes.io/zone"
ZONES = {"a": 7, "b": 5, "c": 3}
"""zone -> the CPUs of each of its nodes. Since these differ, nodes of two zones are seldom equally good. So the choice
among equal ones, which is random on both sides, seldom matters to how full the zones are."""
NODES = 2
"""How many nodes each zone has at the start."""
MEMORY = 64
"""GiB of each node. Each pod requests one, and one CPU."""
_QUIET = 3.0
"""Seconds without a change after which both sides are at rest: longer than the longest backoff."""
_KNOWN = 0.5
"""Seconds after which a scheduler knows a new pod."""
_PATIENCE = 600.0


@dataclass(frozen=True, slots=True)
class Gang:
    """A gang of the stream, with pods that request one CPU each. `least`: 0 for a group without a gang policy."""

    name: str
    pods: int
    least: int
    zone: bool

    def __str__(self) -> str:
        policy = f"a gang of {self.least}" if self.least else "a group"
        return f"{self.name}: {self.pods} pods, {policy}{', in one zone' if self.zone else ''}"


@dataclass(slots=True)
class Side:
    """A control plane with a scheduler."""

    name: str
    client: HttpClient

    async def add_node(self, name: str, zone: str, cpu: int) -> None:
        """Create a node that is ready."""
        room = {"cpu": str(cpu), "memory": f"{MEMORY}Gi", "pods": "110"}
        metadata = {"name": name, "labels": {ZONE: zone, "kubernetes.io/hostname": name}}
        await self.client.create(NODE, {"metadata": metadata, "status": {"allocatable": room, "capacity": room}})
        await self.client.patch(NODE, name, {"spec": {"taints": None}})

    async def add_group(self, gang: Gang) -> None:
        """Create the PodGroup of a gang."""
        policy = {"gang": {"minCount": gang.least}} if gang.least else {"basic": {}}
        spec: dict[str, Any] = {"schedulingPolicy": policy}
        if gang.zone:
            spec["schedulingConstraints"] = {"topology": [{"key": ZONE}]}
        await self.client.create(POD_GROUP_V1ALPHA2, {"metadata": {"name": gang.name}, "spec": spec}, "default")

    async def add_pods(self, gang: Gang) -> None:
        """Create the pods of a gang."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(gang.pods):
                tasks.create_task(self.client.create(POD, _pod(gang, number), "default"))

    async def remove_group(self, gang: Gang) -> None:
        """Delete the PodGroup of a gang."""
        await self.client.delete(POD_GROUP_V1ALPHA2, gang.name, "default")

    async def remove_pod(self, name: str) -> None:
        """Delete a pod."""
        await self.client.delete(POD, name, "default")

    async def pods(self) -> list[Any]:
        """All pods of gangs."""
        return [pod async for page in self.client.pages(POD, "default") for pod in page.items]

    async def bound(self) -> dict[str, str]:
        """Pod -> node, for pods with a node."""
        return {name: node for name, node in (await self.nodes()).items() if node}

    async def nodes(self) -> dict[str, str]:
        """Pod -> node, "" for pods without one."""
        return {pod.metadata.name: pod.spec.nodeName or "" for pod in await self.pods()}


def _pod(gang: Gang, number: int) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    spec = {
        "containers": [container],
        "terminationGracePeriodSeconds": 0,
        "schedulingGroup": {"podGroupName": gang.name},
    }
    return {"metadata": {"name": f"{gang.name}-{number}"}, "spec": spec}


@asynccontextmanager
async def control_plane(name: str) -> AsyncIterator[tuple[ControlPlane, Side]]:
    """Start a control plane for a scheduler."""
    async with ControlPlane(api_server_flags=FLAGS) as plane, HttpClient(load_kubeconfig(plane.admin)) as client:
        yield plane, Side(name, client)


@asynccontextmanager
async def scheduler(name: str, plane: ControlPlane, folder: Path, *, verbose: bool = False) -> AsyncIterator[None]:
    """Run a scheduler. `verbose`: it says why, and Bayplan records what it decides."""
    config = plane.folder / "scheduler.yaml"
    version = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    short = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1}
    settings = complete({**version, **short}, plane.admin)
    settings["clientConnection"] |= {"qps": 5000, "burst": 5000}
    config.write_text(yaml.safe_dump(settings))
    program = Path(os.environ[ASSETS]) / STOCK if name == STOCK else Path(sys.executable).with_name("bayplan")
    command = [] if name == STOCK else ["run"]
    arguments = [*command, f"--config={config}", f"--feature-gates={GATES}", "--secure-port=0"]
    if verbose:
        arguments += ["-v=6"] if name == STOCK else ["-vv", f"--record={folder / 'recording'}"]
    async with running_program(folder / name, program, *arguments):
        yield


@asynccontextmanager
async def side(name: str, folder: Path, *, verbose: bool = False) -> AsyncIterator[Side]:
    """Start a control plane, and a scheduler on it."""
    async with control_plane(name) as (plane, one), scheduler(name, plane, folder, verbose=verbose):
        yield one


@dataclass(slots=True)
class Stream:
    """Events that happen on both sides. `log`: what has happened since both sides began."""

    sides: list[Side]
    rng: random.Random
    gangs: dict[str, Gang] = field(default_factory=dict)
    zones: dict[str, str] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    made: int = 0

    async def begin(self) -> None:
        """Create the first nodes, and wait until both schedulers place pods."""
        for zone in ZONES:
            for _ in range(NODES):
                await self.add_node(zone)
        await self.add_gang(Gang("first", 1, 1, zone=False))
        async with asyncio.timeout(_PATIENCE):
            while not all([await each.bound() for each in self.sides]):  # noqa: ASYNC110 - the servers are asked
                await asyncio.sleep(0.5)
        await self.begin_anew()

    async def add_node(self, zone: str) -> None:
        """Create a node on both sides."""
        name = f"node-{len(self.zones)}"
        self.zones[name] = zone
        for each in self.sides:
            await each.add_node(name, zone, ZONES[zone])

    async def add_gang(self, gang: Gang) -> None:
        """Create a gang on both sides: first its pods, then its PodGroup.

        A group that needs fewer pods than it has is attempted with those that the scheduler knows, and may get a zone
        that has no room for the others. Pods are gated until their PodGroup comes: by then, both schedulers know all.
        """
        self.gangs[gang.name] = gang
        await asyncio.gather(*(each.add_pods(gang) for each in self.sides))
        await asyncio.sleep(_KNOWN)
        await asyncio.gather(*(each.add_group(gang) for each in self.sides))

    async def event(self) -> None:
        """Let something happen."""
        comes, some = 0 if await self.waits() else 5, bool(self.gangs)
        weights = [comes, 3 * some, 1 * some, 0.3]
        choice = self.rng.choices(["comes", "ends", "loses a pod", "node"], weights)[0]
        if choice == "node":
            zone = self.rng.choice(list(ZONES))
            self.log.append(f"a node comes to zone {zone}")
            await self.add_node(zone)
        elif choice == "comes":
            pods = self.rng.randint(1, 6)
            self.made += 1
            least = self.rng.choice([pods, pods, pods, self.rng.randint(1, pods), 0])
            gang = Gang(f"gang-{self.made}", pods, least, self.rng.random() < 0.4)
            self.log.append(f"comes: {gang}")
            await self.add_gang(gang)
        else:
            gang = self.rng.choice(list(self.gangs.values()))
            self.log.append(f"{choice}: {gang.name}")
            if choice == "ends":
                await self.end(gang)
            else:
                await self.lose_a_pod(gang)

    async def waits(self) -> bool:
        """Whether a pod has no node on one of the sides."""
        return not all([all((await each.nodes()).values()) for each in self.sides])

    async def end(self, gang: Gang) -> None:
        """Let a gang end on both sides, one pod after the other."""
        while await self.lose_a_pod(gang, waiting=True):
            if await self.waits():
                await self.at_rest()
        del self.gangs[gang.name]
        await asyncio.gather(*(each.remove_group(gang) for each in self.sides))

    async def lose_a_pod(self, gang: Gang, *, waiting: bool = False) -> bool:
        """Delete a pod of a gang on each side, in the same zone. Returns whether there was one.

        `waiting`: whether it may be one that waits, which is then the first.
        """
        pods = [await self._one_of(gang, each, waiting=waiting) for each in self.sides]
        if not all(pods):
            return False
        await asyncio.gather(*(each.remove_pod(pod) for each, pod in zip(self.sides, pods, strict=True)))
        return True

    async def _one_of(self, gang: Gang, one: Side, *, waiting: bool) -> str:
        zones = {"": "", **self.zones}
        nodes = (await one.nodes()).items()
        pods = [(zones[node], name) for name, node in nodes if name.rpartition("-")[0] == gang.name]
        return min([(zone, name) for zone, name in pods if zone or waiting], default=("", ""))[1]

    async def at_rest(self) -> list[Mapping[str, str]]:
        """Wait until nothing changes any more. Returns pod -> node of each side."""
        seen, since = [await each.bound() for each in self.sides], time.monotonic()
        while time.monotonic() - since < _QUIET:
            await asyncio.sleep(0.5)
            now = [await each.bound() for each in self.sides]
            if now != seen:
                seen, since = now, time.monotonic()
        return list(seen)

    def summary(self, bound: Mapping[str, str]) -> dict[str, tuple[int, tuple[str, ...]]]:
        """Of each gang, how many pods have a node, and the zones of those that need one."""
        placed: Counter[str] = Counter(pod.rpartition("-")[0] for pod in bound)
        zones: dict[str, set[str]] = {}
        for pod, node in bound.items():
            zones.setdefault(pod.rpartition("-")[0], set()).add(self.zones[node])
        return {
            name: (placed[name], tuple(sorted(zones.get(name, ()))) if gang.zone else ())
            for name, gang in self.gangs.items()
        }

    def zones_of(self, bound: Mapping[str, str]) -> Mapping[tuple[str, str], int]:
        """How many pods of each gang each zone has."""
        return Counter((pod.rpartition("-")[0], self.zones[node]) for pod, node in bound.items())

    def is_chance(self, gang: Gang, found: Sequence[Mapping[str, str]]) -> bool:
        """Whether each side put a gang that needs a zone in another of two that are equally utilized with it."""
        counts = [self.zones_of(bound) for bound in found]
        others = [{each: number for each, number in side.items() if each[0] != gang.name} for side in counts]
        chosen = [[(zone, number) for (name, zone), number in side.items() if name == gang.name] for side in counts]
        if not gang.zone or others[0] != others[1] or [len(each) for each in chosen] != [1, 1]:
            return False
        (one, pods), (other, as_many) = chosen[0][0], chosen[1][0]
        return pods == as_many and self._utilization(one, pods, others[0]) == self._utilization(other, pods, others[0])

    def _utilization(self, zone: str, pods: int, others: Mapping[tuple[str, str], int]) -> int:
        """Score a zone with these pods as kube-scheduler does: the mean of the percentages, both rounded down."""
        pods += sum(number for (_, there), number in others.items() if there == zone)
        nodes = list(self.zones.values()).count(zone)
        return (100 * pods // (nodes * ZONES[zone]) + 100 * pods // (nodes * MEMORY)) // 2

    async def begin_anew(self) -> None:
        """Let all gangs end on both sides, at once."""
        for each in self.sides:
            await asyncio.gather(*map(each.remove_pod, await each.nodes()))
            await asyncio.gather(*map(each.remove_group, self.gangs.values()))
        self.gangs.clear()
        self.log.clear()
        await self.at_rest()


async def compare(folder: Path, events: int, seed: int, *, verbose: bool) -> bool:
    """Run the stream. Returns whether both sides did the same."""
    async with AsyncExitStack() as stack:
        sides = [await stack.enter_async_context(side(name, folder, verbose=verbose)) for name in (STOCK, OURS)]
        stream = Stream(sides, random.Random(seed))
        await stream.begin()
        differences = compared = drifted = 0
        for number in range(events):
            await stream.event()
            found = await stream.at_rest()
            stock, ours = map(stream.summary, found)
            compared += len(stream.gangs)
            unlike = [gang for name, gang in stream.gangs.items() if stock[name] != ours[name]]
            if not all(stream.is_chance(gang, found) for gang in unlike):
                differences += 1
                print(f"event {number}, at {datetime.now(UTC):%H:%M:%S}: {'; '.join(stream.log)}")
                for gang in unlike:
                    print(f"  {gang}: {STOCK} {stock[gang.name]}, {OURS} {ours[gang.name]}", flush=True)
                await stream.begin_anew()
            elif stream.zones_of(found[0]) != stream.zones_of(found[1]):
                drifted += 1
                await stream.begin_anew()
        print(
            f"seed {seed}: {events} events, {compared} times a gang at rest; {differences} events with a difference, "
            f"after {drifted} the sides had chosen other ones of equally good nodes or zones"
        )
        return not differences


async def rates(folder: Path, nodes: int, pods: int) -> None:
    """Create gangs, and print how many pods per second are bound, by scheduler."""
    print("| gangs of | constraint | kube-scheduler, pods/s | bayplan, pods/s | ratio |\n|---|---|---|---|---|")
    for size in (4, 64):
        for zone in (False, True):
            found = {}
            for name in (STOCK, OURS):
                async with control_plane(name) as (plane, one):
                    gangs = await _create(one, nodes, pods, size, zone=zone)
                    async with scheduler(name, plane, folder), asyncio.timeout(_PATIENCE):
                        found[name] = await _rate(one, sum(each.pods for each in gangs))
            ratio = found[OURS] / found[STOCK]
            where = "one zone" if zone else ""
            print(f"| {size} | {where} | {found[STOCK]:,.0f} | {found[OURS]:,.0f} | {ratio:.1f} |", flush=True)


async def _create(one: Side, nodes: int, pods: int, size: int, *, zone: bool) -> list[Gang]:
    """Create nodes, and gangs with their pods."""
    for first in range(0, nodes, 50):
        names = range(first, min(first + 50, nodes))
        await asyncio.gather(*(one.add_node(f"node-{number}", f"zone-{number % 10}", 8) for number in names))
    gangs = [Gang(f"gang-{number}", size, size, zone) for number in range(pods // size)]
    for gang in gangs:
        await one.add_group(gang)
        await one.add_pods(gang)
    return gangs


async def _rate(one: Side, pods: int) -> float:
    """How many pods per second are bound, from the first to the last one."""
    bound: dict[str, float] = {}
    while len(bound) < pods:
        async with aclosing(one.client.watch(POD, "default", bookmarks=False)) as events:
            async for event in events:
                if event.object.spec.nodeName:
                    bound.setdefault(event.key, time.monotonic())
                if len(bound) == pods:
                    break
    return (pods - 1) / (max(bound.values()) - min(bound.values()))


def main() -> None:
    """Compare what both do, or how fast they are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--logs", type=Path, help="an empty folder for what both say")
    parser.add_argument("--rates", action="store_true", help="compare how fast pods of gangs are bound")
    parser.add_argument("--nodes", type=int, default=1000, help="with --rates")
    parser.add_argument("--pods", type=int, default=1024, help="with --rates, of each case")
    options = parser.parse_args()
    if options.logs is not None:
        options.logs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bayplan-gangs-") as temporary:
        folder, verbose = options.logs or Path(temporary), options.logs is not None
        try:
            if options.rates:
                asyncio.run(rates(folder, options.nodes, options.pods))
            elif not asyncio.run(compare(folder, options.events, options.seed, verbose=verbose)):
                raise SystemExit(1)
        except ControlPlaneError as error:
            raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
