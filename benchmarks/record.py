"""Measures the memory and the CPU time of `bayplan record` beside a cluster with many nodes and events.

benchmarks/record.py --nodes 1000 --pods 10000 --rate 20 --seconds 60
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import sys
import tempfile
from pathlib import Path

from bayplan.client import HttpClient
from bayplan.core.api.kinds import POD
from bayplan.testing import make_node, make_pod
from bayplan.testing.documents import as_sent
from bayplan.testing.in_memory import load
from bayplan_devcluster.apiserver import ApiServer
from process_usage import cpu_seconds, peak_mib


async def main() -> None:
    """Run a server here and the recorder as a process, and print what that process has used."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("nodes", 1000), ("pods", 10_000), ("rate", 20), ("seconds", 60)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        async with ApiServer() as server, HttpClient(server.url) as client:
            load(server, *(make_node(f"node-{number}") for number in range(options.nodes)))
            load(
                server, *(make_pod(f"old-{n}", cpu="1m", node=f"node-{n % options.nodes}") for n in range(options.pods))
            )
            kubeconfig = Path(folder) / "kubeconfig"
            kubeconfig.write_text(server.kubeconfig())
            process = await asyncio.create_subprocess_exec(
                Path(sys.executable).with_name("bayplan"),
                *("record", f"{folder}/history", "--kubeconfig", str(kubeconfig)),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
            )
            assert process.stdout is not None
            await process.stdout.readline()
            listed = cpu_seconds(process.pid)
            await _events(client, options.nodes, options.rate, options.seconds)
            used = cpu_seconds(process.pid) - listed
            print(f"{options.nodes:,} nodes, {options.pods:,} pods, {options.rate} events/s for {options.seconds} s")
            print(f"  first lists: {listed:.1f} s of CPU")
            print(f"  then: {used / options.seconds:.1%} of a core")
            print(f"  memory: {peak_mib(process.pid):.0f} MiB until then")
            process.terminate()
            output, _ = await process.communicate()
            print(f"  memory: {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024:.0f} MiB in all")
            print(f"  {output.decode().strip()}")


async def _events(client: HttpClient, nodes: int, rate: int, seconds: int) -> None:
    """Create, bind and delete pods: three events each."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    for number in range(rate * seconds // 3):
        name = f"new-{number}"
        await client.create(POD, as_sent(make_pod(name, cpu="1m"))[1])
        await client.bind("default", name, f"node-{number % nodes}")
        await client.delete(POD, name, "default", grace_period_seconds=0)
        await asyncio.sleep(max(0.0, began + (number + 1) * 3 / rate - loop.time()))


if __name__ == "__main__":
    asyncio.run(main())
