"""The processes of a benchmark: an embedded API server, and the scheduler that is measured."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import aiohttp
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from bayplan.benchmarking.measurement import ATTEMPT_DURATION, Bucketed, Counters
from bayplan.benchmarking.profiling import profiled_bayplan
from bayplan.benchmarking.templates import BenchmarkError

_START_SECONDS = 60.0
_STOP_SECONDS = 30.0
_POLL_SECONDS = 0.05
_LOCALHOST = "127.0.0.1"
_REQUESTS = "rest_client_requests"
_WRITING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_OPEN_PATHS = "/healthz,/readyz,/livez,/metrics"


@asynccontextmanager
async def api_server(folder: Path) -> AsyncIterator[Path]:
    """An embedded API server without controllers and kubelets, as scheduler_perf has it. Yields its kubeconfig."""
    kubeconfig = folder / "kubeconfig"
    arguments = ["cluster", "--nodes", "0", "--no-controllers", "--no-kubelets", "--kubeconfig", str(kubeconfig)]
    async with _process(["-m", "bayplan", *arguments], folder / "cluster.log") as running:
        await running.until(lambda: kubeconfig.exists() and kubeconfig.stat().st_size > 0)
        yield kubeconfig


@asynccontextmanager
async def null_scheduler(kubeconfig: Path, name: str, folder: Path) -> AsyncIterator[None]:
    """The scheduler that binds round robin."""
    module = "bayplan.benchmarking.null_scheduler"
    async with _process(["-m", module, str(kubeconfig), name], folder / "null.log"):
        yield


class BayplanRun:
    """A `bayplan run`, while its context is open."""

    def __init__(
        self, kubeconfig: Path, name: str, folder: Path, config: Path | None = None, profile: Path | None = None
    ) -> None:
        self._log = folder / "scheduler.log"
        with socket.socket() as probe:
            probe.bind((_LOCALHOST, 0))
            port = probe.getsockname()[1]
        self._url = f"https://{_LOCALHOST}:{port}"
        self._arguments = [
            *(profiled_bayplan(profile) if profile is not None else ("-m", "bayplan")),
            *("run", "--kubeconfig", str(kubeconfig), "--scheduler-name", name),
            *("--leader-elect=false", "--bind-address", _LOCALHOST, "--secure-port", str(port)),
            *("--authorization-always-allow-paths", _OPEN_PATHS),
            *(["--config", str(config)] if config is not None else []),
        ]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[BayplanRun]:
        """Run it, and wait until it knows the cluster."""
        async with _process(self._arguments, self._log) as process:
            async with asyncio.timeout(_START_SECONDS):
                while await self._get("/readyz") is None:
                    process.check()
                    await asyncio.sleep(_POLL_SECONDS)
            yield self

    async def counters(self) -> Counters:
        """What it has counted so far. Raises BenchmarkError if its metrics can't be read."""
        text = await self._get("/metrics")
        if text is None:
            raise BenchmarkError("the metrics of bayplan run can't be read")
        return read_counters(text)

    async def _get(self, path: str) -> str | None:
        """The response; None where it isn't 200."""
        try:
            async with aiohttp.request("GET", f"{self._url}{path}", ssl=False) as response:
                return await response.text() if response.status == 200 else None
        except aiohttp.ClientError:
            return None


def read_counters(text: str) -> Counters:
    """The histogram of attempts by result, of all profiles together, and the number of writes in a scrape."""
    attempts: list[Sample] = []
    writes = 0.0
    for family in text_string_to_metric_families(text):
        if family.name == ATTEMPT_DURATION:
            attempts += family.samples
        elif family.name == _REQUESTS:
            writes += sum(sample.value for sample in family.samples if sample.labels["method"] in _WRITING)
    return Counters(_histograms(attempts), round(writes))


def _histograms(samples: Iterable[Sample]) -> dict[str, Bucketed]:
    cumulative: dict[str, dict[float, float]] = {}
    sums: dict[str, float] = {}
    for sample in samples:
        result = sample.labels["result"]
        if sample.name.endswith("_bucket"):
            bound, counts = float(sample.labels["le"]), cumulative.setdefault(result, {})
            counts[bound] = counts.get(bound, 0) + sample.value
        elif sample.name.endswith("_sum"):
            sums[result] = sums.get(result, 0) + sample.value
    found = {}
    for result, counts in cumulative.items():
        bounds = sorted(counts)
        below = [0.0, *(counts[bound] for bound in bounds)]
        numbers = [round(upper - lower) for lower, upper in pairwise(below)]
        found[result] = Bucketed(bounds, numbers, sums[result])
    return found


class _Process:
    """A running Python process, with its output in a file."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self._log = log

    def check(self) -> None:
        """Raise BenchmarkError if the process has ended."""
        if self._process.returncode is not None:
            last = self._log.read_text(errors="replace").strip().splitlines()[-1:]
            raise BenchmarkError(f"{self._log.stem} ended with status {self._process.returncode}: {''.join(last)}")

    async def until(self, done: Callable[[], bool]) -> None:
        """Wait until `done()`, or raise BenchmarkError if the process ends before."""
        async with asyncio.timeout(_START_SECONDS):
            while not done():
                self.check()
                await asyncio.sleep(_POLL_SECONDS)


@asynccontextmanager
async def _process(arguments: Sequence[str], log: Path) -> AsyncIterator[_Process]:
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=output, stderr=output)
    try:
        yield _Process(process, log)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(_STOP_SECONDS):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
