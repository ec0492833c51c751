#!/usr/bin/env python3
"""Compares how fast the decision cores of two revisions are. They take turns of 100 pods on this machine.

    benchmarks/compare_revisions.py 787f41c4            # with HEAD
    benchmarks/compare_revisions.py 787f41c4 HEAD~3 --workload affinity SchedulingPodAffinity/5000Nodes --rounds 5

A workload is one of Kubernetes' scheduler_perf that creates objects only; BAYPLAN_SCHEDULER_PERF names its folder. The
objects are made once, by the sources that are checked out, and both revisions get the same ones.

`bayplan perf --on core` of two revisions may measure different work: since 6aadb78, it has come to include the queue,
events and binding. This script measures both revisions with the same code, decisions.py, which decodes, decides and
assumes one pod after the other. It measures CPU time. On a shared machine the CPUs themselves change their speed from
one second to the next; short turns on the same CPU let that affect both revisions alike.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from io import BytesIO
from pathlib import Path
from statistics import median
from typing import IO, NamedTuple
from zipfile import ZipFile

from bayplan.benchmarking import core_objects
from bayplan.benchmarking.measurement import Counters
from bayplan.benchmarking.place import ChangeSignal, Document
from bayplan.benchmarking.pods import SeenPod, SeenPods
from bayplan.benchmarking.selection import named
from bayplan.benchmarking.templates import BenchmarkError, Unsupported
from bayplan.benchmarking.workload_run import run_operations
from bayplan.benchmarking.workloads import Workload, find_configs, read_workloads
from bayplan.core.api.kinds import NODE, POD, Kind

REPOSITORY = Path(__file__).parents[1]
WORKLOADS = [
    ("misc", "SchedulingBasic/5000Nodes_10000Pods"),
    ("affinity", "SchedulingPodAffinity/5000Nodes"),
    ("topology_spreading", "TopologySpreading/5000Nodes"),
]


class Recorder:
    """A place that records the objects of a workload. Each pod counts as bound at once."""

    def __init__(self) -> None:
        self.changed = ChangeSignal()
        self.pods = SeenPods(self.clock, self.changed.notify)
        self.objects: list[tuple[bool, Document]] = []
        """In their order, each with whether it is a measured pod."""
        self._collecting = False

    def clock(self) -> float:
        """See Place. No time passes."""
        return 0.0

    async def create(self, kind: Kind, documents: Iterable[Document], namespace: str | None = None) -> list[str]:
        """See Place."""
        names = []
        for document in documents:
            new = core_objects.stored(kind, document, namespace, len(self.objects))
            names.append(new["metadata"]["name"])
            self.objects.append(
                (self._collecting and kind is POD, {"apiVersion": kind.api_version, "kind": kind.kind} | new)
            )
            if kind is POD:
                assert namespace is not None
                self.pods.put(SeenPod(namespace, names[-1], new["metadata"].get("labels") or {}, "any node"))
        return names

    async def replace(self, kind: Kind, document: Document, namespace: str | None, subresource: str | None) -> None:
        """See Place. Raises Unsupported."""
        raise Unsupported("objects that change")

    async def delete(self, kind: Kind, name: str, namespace: str | None = None, *, at_once: bool = False) -> None:
        """See Place. Raises Unsupported."""
        raise Unsupported("objects that are deleted")

    async def node_names(self) -> list[str]:
        """See Place."""
        return [document["metadata"]["name"] for _, document in self.objects if document["kind"] == NODE.kind]

    async def allocate_claims(self, namespace: str | None) -> None:
        """See Place. Raises Unsupported."""
        raise Unsupported("claims that are allocated")

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """See Place."""
        self._collecting = True
        try:
            yield
        finally:
            self._collecting = False

    async def counters(self) -> Counters:
        """See Place. There are none."""
        return Counters()


class Result(NamedTuple):
    """One run: pods per second, the median seconds per pod, and a hash of the chosen nodes."""

    rate: float
    p50: float
    nodes: str


def write_objects(workload: Workload, path: Path) -> None:
    """Write the objects of a workload for decisions.py. Raises Unsupported and BenchmarkError."""
    if workload.scheduler_config is not None:
        raise Unsupported("a configuration of its own")
    recorder = Recorder()
    asyncio.run(run_operations(workload, recorder))
    if not any(measured for measured, _ in recorder.objects):
        raise BenchmarkError(f"{workload.name} measures no pods")
    path.write_text("".join(f"{json.dumps(each)}\n" for each in recorder.objects), encoding="utf-8")


def check_out(revision: str, folder: Path) -> Path:
    """Extract the sources of a revision into a folder. Returns the folder to import them from."""
    command = ["git", "-C", str(REPOSITORY), "archive", "--format=zip", revision, "src"]
    archive = subprocess.run(command, capture_output=True, check=False)  # noqa: S603 - git, on this repository
    if archive.returncode:
        raise BenchmarkError(f"{revision}: {archive.stderr.decode().strip()}")
    with ZipFile(BytesIO(archive.stdout)) as files:
        files.extractall(folder)
    return folder / "src"


def run(sources: list[Path], objects: Path) -> list[Result]:
    """Run decisions.py with the sources of each revision. One runs at a time, and they take turns."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    script = str(Path(__file__).with_name("decisions.py"))
    with ExitStack() as stack:
        running = [
            stack.enter_context(
                subprocess.Popen(  # noqa: S603 - our script
                    [sys.executable, script, str(objects), str(each)],
                    env={**os.environ, "PYTHONPATH": str(each)},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    bufsize=1,
                )
            )
            for each in sources
        ]
        lines = [_output(each).readline() for each in running]
        while any(line == "next\n" for line in lines):
            for number, process in enumerate(running):
                if lines[number] == "next\n":
                    assert process.stdin is not None
                    process.stdin.write("\n")
                    lines[number] = _output(process).readline()
    return [_result(line) for line in lines]


def _output(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdout is not None
    return process.stdout


def _result(line: str) -> Result:
    if not line:
        raise BenchmarkError("a run failed")
    found = json.loads(line)
    if found["scheduled"] != found["pods"]:
        raise BenchmarkError(f"{found['pods'] - found['scheduled']} of {found['pods']} pods fit on no node")
    return Result(found["pods"] / found["seconds"], found["p50"], found["nodes"])


def compare(workload: Workload, revisions: list[tuple[str, Path]], rounds: int, folder: Path) -> None:
    """Measure a workload on two revisions round by round, and print the results. `revisions`: names and sources."""
    objects = folder / "objects.jsonl"
    write_objects(workload, objects)
    print(f"\n{workload.name}")
    ratios, hashes = [], set()
    for number in range(1, rounds + 1):
        results = run([sources for _, sources in revisions], objects)
        for (revision, _), result in zip(revisions, results, strict=True):
            show(f"round {number}", revision, result.rate, result.p50)
            hashes.add(result.nodes)
        ratios.append(results[1].rate / results[0].rate)
    same = "the same" if len(hashes) == 1 else "different"
    each = ", ".join(f"{ratio:.3f}" for ratio in ratios)
    print(f"  the second is {median(ratios):.3f} times as fast ({each}); they chose {same} nodes")


def show(title: str, revision: str, rate: float, p50: float) -> None:
    """Print a line of the results."""
    print(f"  {title:10} {revision:16} {rate:8,.0f} pods/s  p50 {1000 * p50:.3f} ms", flush=True)


def main() -> None:
    """Compare, as the arguments say."""
    options = _options()
    try:
        workloads = [
            each
            for place, name in options.workload or WORKLOADS
            for path in find_configs(place, options.place)
            for each in named(read_workloads(path), [name])
        ]
        with tempfile.TemporaryDirectory() as folder:
            revisions = [
                (revision, check_out(revision, Path(folder, str(number))))
                for number, revision in enumerate((options.revision, options.other))
            ]
            for workload in workloads:
                compare(workload, revisions, options.rounds, Path(folder))
    except BenchmarkError as error:
        sys.exit(f"compare_revisions.py: {error}")
    except Unsupported as error:
        sys.exit(f"compare_revisions.py: the workload needs {error}, which this comparison does not support")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision")
    parser.add_argument("other", nargs="?", default="HEAD")
    parser.add_argument("--workload", nargs=2, action="append", metavar=("TOPIC", "NAME"))
    parser.add_argument("--place", type=Path, default=os.environ.get("BAYPLAN_SCHEDULER_PERF"), metavar="FOLDER")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    options.place = options.place and Path(options.place)
    return options


if __name__ == "__main__":
    main()
