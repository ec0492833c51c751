#!/usr/bin/env python3
"""Measures placements of `bayplan serve` over HTTP: how many a second in batches, and how long a single one takes.

    benchmarks/serve.py                   # 5,000 nodes, 45,000 running pods
    benchmarks/serve.py --scale 0.1       # a tenth of everything
    benchmarks/serve.py --kinds 20        # batches of pods of 20 kinds, in runs of equal pods

The server is a process of its own, which reads a saved snapshot. All times are elapsed times of the client, with HTTP
and JSON on both sides; quote them with the machine.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bayplan.insight import Snapshot
from workload_cluster import Document, cluster, pod

BATCHES, BATCH, SINGLE = 10, 1000, 200


def main() -> None:
    """Place batches and single pods, and print the figures."""
    options = _options()
    with tempfile.TemporaryDirectory(prefix="bayplan-benchmark-") as folder:
        file, token = Path(folder) / "cluster.bayplan", Path(folder) / "token"
        Snapshot.of(cluster(options.scale)).save(file)
        with _served(file, token) as server:
            path = f"/v1/transactions/{server.call('POST', '/v1/transactions', {'seconds': 3600})['id']}"
            server.call("POST", f"{path}/place", {"objects": [_new("warm", 0)]})
            _batches(server, path, options.kinds)
            _single(server, path)


def _batches(server: Server, path: str, kinds: int) -> None:
    times = []
    for number in range(BATCHES):
        pods = [_new(f"batch-{number}-{each}", each * kinds // BATCH) for each in range(BATCH)]
        began = time.perf_counter()
        found = server.call("POST", f"{path}/place", {"objects": pods})
        times.append(time.perf_counter() - began)
        placed = sum(each["outcome"] == "placed" for each in found["pods"])
        print(f"batch {number + 1}: {placed:,} of {BATCH:,} placed in {times[-1]:.2f} s", flush=True)
    print(f"{BATCH * BATCHES / sum(times):,.0f} placements/s in batches of {BATCH:,} with {kinds} kinds of pods")


def _single(server: Server, path: str) -> None:
    times = []
    for number in range(SINGLE):
        single = _new(f"single-{number}", number % 10)
        began = time.perf_counter()
        server.call("POST", f"{path}/place", {"objects": [single]})
        times.append(1000 * (time.perf_counter() - began))
    times.sort()
    median, late = statistics.median(times), times[int(0.95 * len(times))]
    print(f"a single placement: {median:.1f} ms in the median, {late:.1f} ms for 95%")


class Server:
    """A running server, and one connection to it."""

    def __init__(self, url: str, token: str) -> None:
        self._connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=600)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def call(self, method: str, path: str, body: Document) -> Any:
        """Return the JSON of a reply."""
        self._connection.request(method, path, json.dumps(body), self._headers)
        response = self._connection.getresponse()
        found = json.loads(response.read())
        if response.status >= 400:
            raise SystemExit(f"{path}: {response.status} {found}")
        return found


@contextmanager
def _served(file: Path, token: Path) -> Iterator[Server]:
    command = [sys.executable, "-m", "bayplan", "serve", "--from", str(file), "--token-file", str(token)]
    command += ["--longest", "600"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own command
        try:
            assert process.stdout is not None
            url = process.stdout.readline().removeprefix("url: ").strip()
            yield Server(url, token.read_text(encoding="ascii").strip())
        finally:
            process.terminate()


def _new(name: str, kind: int) -> Document:
    new = pod(name, kind)
    del new["status"]
    return new


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="the part of the cluster's size; default: 1")
    parser.add_argument("--kinds", type=int, default=1, help="how many kinds of pods a batch has; default: 1")
    return parser.parse_args()


if __name__ == "__main__":
    main()
