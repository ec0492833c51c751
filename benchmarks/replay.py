#!/usr/bin/env python3
"""Measures what `bayplan run --record` costs, and how fast `bayplan replay` is.

benchmarks/replay.py --nodes 1000 --rate 300 --seconds 20 --rounds 3

Each round runs the scheduler once without and once with a recording, beside an API server in this process.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bayplan.answers.replay.policies import recorded_policy
from bayplan.client import HttpClient
from bayplan.core.api.kinds import POD
from bayplan.running.recording.files import Recording
from bayplan.testing import make_node, make_pod
from bayplan.testing.documents import as_sent
from bayplan.testing.in_memory import load
from bayplan_devcluster.apiserver import ApiServer
from process_usage import cpu_seconds, peak_mib


async def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("nodes", 1000), ("rate", 300), ("seconds", 20), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    without, recorded = [], []
    with tempfile.TemporaryDirectory() as folder:
        recording = Path(folder) / "recording"
        for _ in range(options.rounds):
            without.append(await _run(options, Path(folder), None))
            recorded.append(await _run(options, Path(folder), recording))
        pods = options.rate * options.seconds
        print(f"{options.nodes:,} nodes, {pods:,} pods at {options.rate} pods/s; {options.rounds} rounds, medians")
        plain, more = statistics.median(each[0] for each in without), statistics.median(each[0] for each in recorded)
        with_it = f"with a recording {more / pods * 1e3:.3f} ms ({more / plain - 1:+.1%})"
        print(f"  CPU a pod: {plain / pods * 1e3:.3f} ms, {with_it}")
        ratios = sorted(b[0] / a[0] - 1 for a, b in zip(without, recorded, strict=True))
        print(f"  by round: {', '.join(f'{each:+.1%}' for each in ratios)}")
        before, after = (statistics.median(each[1] for each in runs) for runs in (without, recorded))
        print(f"  memory: {before:.0f} MiB, with a recording {after:.0f} MiB")
        _replay(recording)


def _replay(recording: Path) -> None:
    for run in Recording.runs(recording):
        size = sum(each.stat().st_size for each in Path(run.source).glob("*.frames"))
        began = time.perf_counter()
        found = recorded_policy(run).replay(run).run()
        seconds = time.perf_counter() - began
        assert found.difference is None, found.difference
        happened = (found.ended - found.began).total_seconds() if found.ended and found.began else 0.0
        print(
            f"  {found.decisions:,} decisions in {happened:.0f} s, {size / max(found.decisions, 1):,.0f} bytes each; "
            f"replayed in {seconds:.1f} s: {happened / seconds:.1f} times real time, "
            f"{found.decisions / seconds:,.0f} decisions/s"
        )


async def _run(options: argparse.Namespace, folder: Path, recording: Path | None) -> tuple[float, float]:
    """Schedule pods. Returns the scheduler's CPU seconds meanwhile, and its memory in MiB."""
    async with ApiServer() as server, HttpClient(server.url) as client:
        load(server, *(make_node(f"node-{number}", cpu="64", pods="500") for number in range(options.nodes)))
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(server.kubeconfig())
        record = [] if recording is None else ["--record", str(recording)]
        process = await asyncio.create_subprocess_exec(
            Path(sys.executable).with_name("bayplan"),
            *("run", "--kubeconfig", str(kubeconfig), "--secure-port", "0", "--seed", "1", *record),
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None
        while b"ready:" not in await process.stderr.readline():
            pass
        reading = asyncio.create_task(process.stderr.read())
        listed = cpu_seconds(process.pid)
        await _create(client, options.rate, options.seconds)
        while any(not item["spec"].get("nodeName") for item in await _pods(client)):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.2)
        used, memory = cpu_seconds(process.pid) - listed, peak_mib(process.pid)
        process.send_signal(signal.SIGTERM)
        await process.wait()
        await reading
        return used, memory


async def _create(client: HttpClient, rate: int, seconds: int) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    for number in range(rate * seconds):
        pod = as_sent(make_pod(f"pod-{number}", cpu="10m", memory="16Mi", scheduler_name="bayplan-scheduler"))[1]
        await client.create(POD, pod)
        if number % 10 == 0:
            await asyncio.sleep(max(0.0, began + (number + 1) / rate - loop.time()))


async def _pods(client: HttpClient) -> list[dict[str, dict[str, str]]]:
    import msgspec

    page = await client.list(POD, decode=msgspec.json.decode)
    return list(page.items)


if __name__ == "__main__":
    asyncio.run(main())
