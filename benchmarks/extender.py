#!/usr/bin/env python3
"""Measures how long `bayplan extender` takes to filter nodes over loopback, with a plugin that rejects half of them.

    benchmarks/extender.py                      # 5,000 nodes of `bayplan cluster`, 1,000 requests of each kind
    benchmarks/extender.py --nodes 1000 --requests 200

Runs the plugin in both forms, per node and for all nodes at once, with node names (nodeCacheCapable) and with whole
nodes. The client sends prepared bytes and doesn't decode the responses. Quote results with the machine and its load,
and compare only results of one run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import quantiles

from bayplan import NodeInfo, Nodes, PodInfo, Rejections, filter_plugin
from bayplan.client import connect, kinds

BAYPLAN = Path(sys.executable).with_name("bayplan")
LABEL = "kubernetes.io/hostname"
ODD = "node is odd"
POD = {
    "metadata": {"name": "asked-for", "namespace": "default", "uid": "asked-for"},
    "spec": {"containers": [{"name": "main", "image": "pause"}], "schedulerName": "default-scheduler"},
}


@filter_plugin
def one_by_one(_pod: PodInfo, node: NodeInfo) -> str | None:
    """Reject odd nodes, one at a time."""
    return ODD if _odd(node.labels.get(LABEL)) else None


@filter_plugin
def whole_table(_pod: PodInfo, nodes: Nodes) -> Rejections:
    """Reject odd nodes, all at once."""
    return Rejections.where(nodes.label_where(LABEL, _odd), ODD)


def _odd(hostname: str | None) -> bool:
    return hostname is not None and hostname[-1] in "13579"


async def main() -> None:
    """Start a cluster and extenders, send requests, and report."""
    options = _options()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bayplan-benchmark-")))
        kubeconfig = folder / "kubeconfig"
        cluster = ["cluster", "--nodes", str(options.nodes), "--kubeconfig", str(kubeconfig)]
        await stack.enter_async_context(_running(*cluster))
        client = await stack.enter_async_context(connect(kubeconfig))
        nodes = [json.loads(raw) for raw in (await client.list(kinds.NODE, limit=0, decode=bytes)).items]
        names = [node["metadata"]["name"] for node in nodes]
        bodies = {
            "names": json.dumps({"Pod": POD, "Nodes": None, "NodeNames": names}).encode(),
            "whole nodes": json.dumps(
                {"Pod": POD, "Nodes": {"metadata": {}, "items": nodes}, "NodeNames": None}
            ).encode(),
        }
        sizes = ", ".join(f"{form}: {len(body) / 1e6:.1f} MB" for form, body in bodies.items())
        print(f"{len(nodes)} nodes ({sizes}), {options.requests} requests, {os.cpu_count()} CPUs, load {_load()}")
        for plugin in ("one_by_one", "whole_table"):
            for form, body in bodies.items():
                watch = ["--kubeconfig", str(kubeconfig)] if form == "names" else []
                async with _running("extender", "--plugin", f"{__file__}:{plugin}", "--port", "0", *watch) as output:
                    await asyncio.to_thread(_measure, f"{plugin}, {form}", output, body, options.requests, len(names))
        print(f"load at the end {_load()}")


def _measure(what: str, output: str, body: bytes, requests: int, number: int) -> None:
    """Send the same request many times over one connection. The first requests warm up and are not measured."""
    port = int(re.findall(r"http://127\.0\.0\.1:(\d+)", output)[0])
    head = f"POST /filter HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    request = head.encode() + body
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        deadline = time.monotonic() + 60
        while "Error" in (answer := json.loads(_ask(connection, request))) and answer["Error"]:
            if time.monotonic() > deadline:
                raise SystemExit(f"{what}: {answer['Error']}")
            time.sleep(0.1)
        passed = answer["NodeNames"] if answer["Nodes"] is None else answer["Nodes"]["items"]
        if not 0.4 * number <= len(passed) <= 0.6 * number or len(passed) + len(answer["FailedNodes"]) != number:
            raise SystemExit(f"{what}: {len(passed)} of {number} nodes passed, expected half of them")
        took = []
        for _ in range(requests):
            began = time.perf_counter()
            _ask(connection, request)
            took.append(1000 * (time.perf_counter() - began))
    print(f"  {what:<26} {_summary(took)}", flush=True)


def _ask(connection: socket.socket, request: bytes) -> bytes:
    connection.sendall(request)
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += connection.recv(1 << 20)
    head, _, first = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise SystemExit(answer.decode(errors="replace"))
    length = int(re.findall(rb"(?i)content-length: (\d+)", head)[0])
    pieces, missing = [first], length - len(first)
    while missing > 0:
        pieces.append(connection.recv(1 << 20))
        missing -= len(pieces[-1])
    return b"".join(pieces)


def _summary(took: Sequence[float]) -> str:
    cuts = quantiles(took, n=100)
    return f"p50 {cuts[49]:6.1f} ms  p99 {cuts[98]:6.1f} ms  max {max(took):6.1f} ms"


@asynccontextmanager
async def _running(*arguments: str) -> AsyncIterator[str]:
    """Run a bayplan command in a process until it has printed its URL. Yields the output."""
    process = await asyncio.create_subprocess_exec(str(BAYPLAN), *arguments, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        output = ""
        while "http://" not in output:
            line = await asyncio.wait_for(process.stdout.readline(), 600)
            if not line:
                raise SystemExit(f"bayplan {arguments[0]} has exited")
            output += line.decode()
        yield output
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.communicate()


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--requests", type=int, default=1000)
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main())
