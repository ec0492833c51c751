#!/usr/bin/env python3
"""Gives the same pods to Bayplan and to the compiled scheduler-plugins, each on a real control plane of its own.

    KUBEBUILDER_ASSETS=DIR SCHEDULER_PLUGINS=DIR benchmarks/scheduler_plugins_beside.py      # about 6 minutes

DIR has etcd and kube-apiserver 1.36, and kube-scheduler and controller that the Makefile of scheduler-plugins builds.

Per plugin: the scheduler is stopped (SIGSTOP) while the pods are created, so that both have the whole queue, and goes
on; the time until all pods are bound is taken, and the CPU time of the scheduler with its controllers. Prints a table
with pods per second, CPU milliseconds a pod, and ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.bayplan_plugins.live_clusters import COMPILED, OURS, THEIRS, Program, compiled, live
from tests.support.control_plane import ControlPlane, ControlPlaneError

from bayplan.client import HttpClient, kind_of, load_kubeconfig
from bayplan.core.api.kinds import NODE, POD
from bayplan_plugins.capacity_scheduling.plugin import CapacityScheduling
from bayplan_plugins.coscheduling.plugin import Coscheduling
from bayplan_plugins.node_resource_topology.plugin import NodeResourceTopologyMatch
from process_usage import cpu_seconds

PLUGINS = CapacityScheduling, Coscheduling, NodeResourceTopologyMatch
GANG = 4
GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
TOPOLOGIES = replace(kind_of("noderesourcetopologies.v1alpha2.topology.node.k8s.io"), namespaced=False)
_AT_ONCE = 50
_PATIENCE = 300.0
Objects = Iterable[tuple[Any, dict[str, Any]]]


def profile(plugin: str) -> dict[str, Any]:
    """The profile with a plugin; the default one for ""."""
    enabled = {"enabled": [{"name": plugin}]}
    alone = {**enabled, "disabled": [{"name": "*"}]}
    plugins: dict[str, Any] = {"multiPoint": enabled} if plugin else {}
    if plugin == "CapacityScheduling":
        plugins["postFilter"] = alone
    elif plugin == "Coscheduling":
        plugins["queueSort"] = alone
    # without a cache, the compiled plugin asks the API server for the topology of each node, for each pod
    args = {"cacheResyncPeriodSeconds": 5} if plugin == "NodeResourceTopologyMatch" else None
    return {"plugins": plugins, "pluginConfig": [{"name": plugin, "args": args}] if args else []}


def objects_of(plugin: str, nodes: int, pods: int) -> Objects:
    """What the plugin decides by."""
    if plugin == "CapacityScheduling":
        bounds = {"cpu": "100000", "memory": "400Ti"}
        yield custom("elasticquotas.v1alpha1.scheduling.x-k8s.io", "ElasticQuota", "quota", spec={"min": bounds})
    elif plugin == "Coscheduling":
        for number in range(pods // GANG):
            spec = {"minMember": GANG}
            yield custom("podgroups.v1alpha1.scheduling.x-k8s.io", "PodGroup", f"gang-{number}", spec=spec)
    elif plugin == "NodeResourceTopologyMatch":
        amounts = {"cpu": "16", "memory": "64Gi"}
        resources = [{"name": each, "capacity": v, "allocatable": v, "available": v} for each, v in amounts.items()]
        zones = [{"name": f"node-{zone}", "type": "Node", "resources": resources} for zone in range(2)]
        for number in range(nodes):
            policies = ["SingleNUMANodeContainerLevel"]
            _, document = custom("", "NodeResourceTopology", f"node-{number}", topologyPolicies=policies, zones=zones)
            yield TOPOLOGIES, {**document, "apiVersion": TOPOLOGIES.api_version}


def custom(reference: str, name: str, of: str, **fields: Any) -> tuple[Any, dict[str, Any]]:
    """A custom resource and its kind. `name`: of the kind; `of`: of the object."""
    kind = kind_of(reference) if reference else TOPOLOGIES
    return kind, {"apiVersion": kind.api_version, "kind": name, "metadata": {"name": of}, **fields}


def pod(number: int, plugin: str) -> dict[str, Any]:
    """A guaranteed pod."""
    labels = {GROUP_LABEL: f"gang-{number // GANG}"} if plugin == "Coscheduling" else {"app": "web"}
    amounts = {"cpu": "1", "memory": "1Gi"}
    container = {"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
    return {"metadata": {"name": f"p{number}", "labels": labels}, "spec": {"containers": [container]}}


async def measure(
    plane: ControlPlane, programs: list[Program], plugin: str, nodes: int, pods: int
) -> tuple[float, float]:
    """Return the seconds until all pods are bound, and the CPU seconds of the programs."""
    async with HttpClient(load_kubeconfig(plane.admin)) as client:

        async def node(number: int) -> None:
            room = {"cpu": "32", "memory": "128Gi", "pods": "110"}
            metadata = {"name": f"node-{number}", "labels": {"kubernetes.io/hostname": f"node-{number}"}}
            await client.create(NODE, {"metadata": metadata, "status": {"allocatable": room, "capacity": room}})
            await client.patch(NODE, f"node-{number}", {"spec": {"taints": None}})

        async def put(each: tuple[Any, dict[str, Any]]) -> None:
            await client.create(each[0], each[1], "default" if each[0].namespaced else None)

        async def waiting() -> int:
            return sum([len(page.items) async for page in client.pages(POD, field_selector="spec.nodeName=")])

        async def all_bound() -> None:
            async with asyncio.timeout(_PATIENCE):
                while await waiting():  # noqa: ASYNC110 - the server is asked
                    await asyncio.sleep(0.1)

        await _some_at_once(node, range(nodes))
        await _some_at_once(put, objects_of(plugin, nodes, pods))
        for number in range(-GANG, 0):  # until the scheduler is ready
            await put((POD, pod(number, "")))
        await all_bound()
        await asyncio.sleep(3)
        programs[0].send_signal(signal.SIGSTOP)
        await _some_at_once(put, ((POD, pod(number, plugin)) for number in range(pods)))
        used, began = _cpu(programs), time.monotonic()
        programs[0].send_signal(signal.SIGCONT)
        await all_bound()
        return time.monotonic() - began, _cpu(programs) - used


async def _some_at_once(make: Callable[[Any], Awaitable[None]], arguments: Iterable[Any]) -> None:
    """Await a function for each argument, some at a time."""
    left = iter(arguments)

    async def worker() -> None:
        for argument in left:
            await make(argument)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(_AT_ONCE):
            tasks.create_task(worker())


def _cpu(programs: Iterable[Program]) -> float:
    """The CPU seconds that programs have used."""
    return sum(cpu_seconds(each.pid) for each in programs)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=2000)
    names = ("", "Coscheduling", "NodeResourceTopologyMatch", "CapacityScheduling", "NodeResourcesAllocatable")
    parser.add_argument("--plugin", choices=names, action="append")
    options = parser.parse_args()
    if compiled() is None:
        raise SystemExit(f"{COMPILED} is not set: it names a folder with kube-scheduler and controller")
    columns = ("plugin", "compiled, pods/s", "bayplan, pods/s", "ratio", "compiled, CPU ms a pod", "bayplan", "ratio")
    print(f"| {' | '.join(columns)} |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for plugin in options.plugin or names:
        found: Mapping[str, tuple[float, float]] = {name: _run(name, plugin, options) for name in (THEIRS, OURS)}
        (their_rate, their_cpu), (rate, cpu) = found[THEIRS], found[OURS]
        rates = f"{their_rate:,.0f} | {rate:,.0f} | {rate / their_rate:.1f}"
        print(f"| {plugin} | {rates} | {their_cpu:.2f} | {cpu:.2f} | {cpu / their_cpu:.2f} |", flush=True)


def _run(name: str, plugin: str, options: argparse.Namespace) -> tuple[float, float]:
    """Return the pods per second, and the CPU milliseconds a pod."""
    with tempfile.TemporaryDirectory(prefix="bayplan-beside-") as folder:
        try:
            with live(Path(folder), name, PLUGINS, {"profiles": [profile(plugin)]}) as (plane, programs):
                seconds, cpu = asyncio.run(measure(plane, programs, plugin, options.nodes, options.pods))
        except ControlPlaneError as error:
            raise SystemExit(str(error)) from None
    return options.pods / seconds, 1000 * cpu / options.pods


if __name__ == "__main__":
    main()
