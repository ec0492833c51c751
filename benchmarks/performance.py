#!/usr/bin/env python3
"""Measures everything that docs/performance.md says, and writes that page.

    benchmarks/performance.py                     # measure what is missing in the results, then write the page
    benchmarks/performance.py --minutes 20        # start nothing new after 20 minutes; the next run continues
    benchmarks/performance.py --only growth,core  # some of the parts
    benchmarks/performance.py --again 'Preemption'
    benchmarks/performance.py --render            # only write the page from the results
    benchmarks/performance.py --quick             # a short form, with results of its own; it writes no page

Each measurement is a process of its own, one after the other: run it on a machine that does nothing else. Results are
saved after each one, with the machine: growth and the workloads in memory have to be from a single one. The workloads
are those of Kubernetes' scheduler_perf (BAYPLAN_SCHEDULER_PERF). Of workloads that differ only in feature gates, which
change nothing in Bayplan, the first one is measured. Workloads run on kube-apiserver, too, if KUBEBUILDER_ASSETS names
a folder with etcd and kube-apiserver.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from bayplan.benchmarking.workloads import Workload, find_configs, read_workloads
from performance_page import BASE, GROWTH, ROOT, TARGETS, write_pages

RESULTS = ROOT / "benchmarks/results/performance.json"
PARTS = ("growth", "cluster", "core", "devcluster", "apiserver", "outputs")
LABEL, SHORT = "performance", "integration-test"
ROUNDS = 3
CORE_SECONDS, CLUSTER_SECONDS, REAL_SECONDS, OTHER_SECONDS = 60, 400, 600, 300
"""How long one measurement may take."""
QUICK_NODES = 1000
FIRST = (
    "SchedulingBasic/",
    "SchedulingPodAffinity/",
    "TopologySpreading/",
    "SchedulingCSIPVs/",
    "PreemptionBasic/",
    "SchedulingWithMixedChurn/",
    "SchedulingPodAntiAffinity/",
    "SchedulingWithResourceClaimTemplate/",
)
"""The workloads that are run first on an API server, because all of them take longer than an hour."""
OUTPUTS = (
    "preemption.py",
    "preemption.py --nodes 1000",
    "waking.py",
    "device_claims.py",
    "extender.py",
    "metrics.py",
    "end_to_end.py",
    "gangs.py --cases anywhere one-zone priorities",
    "gangs.py --cases preempting",
    "worst_pods.py",
    "worst_pods.py --claims",
)
"""Other benchmarks and their arguments, with their output as it is."""

Results = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """One measurement. `read` makes its result of the output.

    `rounds`: of several runs, the results are medians. `base`: a command to compare with, which runs right before each
    run; `of_base` is the median ratio of pods/s. `of_null` is that of the schedulers of one run.
    """

    part: str
    key: str
    command: Sequence[str]
    read: Callable[[str], Any] = json.loads
    seconds: float = OTHER_SECONDS
    base: Sequence[str] = ()
    rounds: int = 1


def main() -> None:
    """Measure what is missing, and write the page."""
    options = _options()
    if options.quick:
        options.results = Path(tempfile.mkdtemp(prefix="bayplan-benchmark-")) / "performance.json"
    results: Results = json.loads(options.results.read_text(encoding="utf-8")) if options.results.exists() else {}
    if not options.render:
        results["thresholds"] = thresholds()
        _measure(results, options)
    if options.quick:
        print(json.dumps(results, indent=1))
    elif options.results == RESULTS:
        for path in write_pages(results):
            print(f"wrote {path}", file=sys.stderr)


def _measure(results: Results, options: argparse.Namespace) -> None:
    deadline, revision, machine = time.monotonic() + 60 * options.minutes, _revision(), _name_machine(results)
    steps: dict[tuple[str, str], Step] = {}
    for step in _steps(quick=options.quick):
        steps.setdefault((step.part, step.key), step)
    missing = [
        step
        for (part, key), step in steps.items()
        if part in (options.only or PARTS)
        and (key not in results.get(part, {}) or (options.again and re.search(options.again, key)))
    ]
    _check_machines(results, machine, {step.part for step in missing})
    for number, step in enumerate(missing):
        if time.monotonic() > deadline:
            print(f"the time is over: {len(missing) - number} measurements are missing", file=sys.stderr)
            break
        began = time.monotonic()
        print(f"[{number + 1}/{len(missing)}] {step.part}: {step.key} ", end="", file=sys.stderr, flush=True)
        results.setdefault(step.part, {})[step.key] = result = {**_run(step), "revision": revision, "machine": machine}
        print(f"{time.monotonic() - began:.0f} s {result.get('problem', '')}", file=sys.stderr, flush=True)
        options.results.parent.mkdir(parents=True, exist_ok=True)
        options.results.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _revision() -> str:
    """Return the last commit that changed the source."""
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%h", "--", "src"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603


def _run(step: Step) -> Results:
    """Return the result of a measurement; `problem` says why there is none."""
    if step.rounds == 1:
        return _output(step, step.command)
    rounds = []
    for _ in range(step.rounds):
        base = _output(step, step.base) if step.base else {}
        own = _output(step, step.command)
        for result in (own, base):
            if "problem" in result:
                return result
        if base:
            own["of_base"] = own["pods_per_second"] / base["pods_per_second"]
        if own.get("bayplan") and own.get("null"):
            own["of_null"] = own["bayplan"] / own["null"]
        rounds.append(own)
    values = {key: [each[key] for each in rounds if each.get(key) is not None] for key in rounds[0]}
    return {**{key: median(found) for key, found in values.items() if found}, "rounds": step.rounds}


def _output(step: Step, command: Sequence[str]) -> Results:
    """Run a command of a measurement."""
    process = subprocess.Popen(  # noqa: S603 - it runs this project's benchmarks
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        output, errors = process.communicate(timeout=step.seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return {"problem": f"stopped after {step.seconds:.0f} s"}
    if process.returncode:
        lines = (errors.strip() or output.strip() or f"exit status {process.returncode}").splitlines()
        problem = next((line for line in reversed(lines) if line.startswith("Error: ")), lines[-1])
        problem = problem.removeprefix("Error: ")[:200]
        others = step.read(output) if step.part == "devcluster" and output else {}  # schedulers that didn't fail
        return {**others, "problem": problem}
    result: Results = step.read(output)
    return result


# The measurements


def _steps(*, quick: bool) -> Iterator[Step]:
    """All measurements, some of them twice; the most important come first."""
    for nodes in GROWTH:
        if nodes <= QUICK_NODES or not quick:
            yield _script("growth", str(nodes), "scale.py", "--nodes", str(nodes), "--pods", str(10 * nodes))
    selectors = ("--selectors", "2000") if quick else ("--pods", "100000")
    yield _script("cluster", "selectors", "scale.py", "--new-selectors", *selectors)
    yield _script("cluster", "functions", "function_plugins.py", *(("--pods", "100") if quick else ()))
    small = ("--nodes", str(QUICK_NODES), "--pods", "5000", "--seconds", "5") if quick else ()
    yield _script("cluster", "start-up", "startup.py", *small)
    workloads = list(_workloads())
    important = [each for each in workloads if (SHORT if quick else LABEL) in each.labels]
    for workload in important:
        yield _workload(workload, "core", quick=quick)
    for workload in _one_of_each_case(important):
        yield _workload(workload, "devcluster", quick=quick)
    if quick:
        return
    if os.environ.get("KUBEBUILDER_ASSETS"):
        for workload in _one_of_each_case(important):
            stock = () if workload.name.startswith(FIRST) else ("--no-stock",)  # all take hours
            command = [sys.executable, _path("kube_apiserver.py"), str(_topic(workload)), workload.name, *stock]
            yield Step("apiserver", workload.name, command, seconds=REAL_SECONDS)
    for workload in workloads:
        yield _workload(workload, "core")
    for line in OUTPUTS:
        name, *arguments = line.split()
        yield Step("outputs", line, [sys.executable, _path(name), *arguments], lambda output: {"output": output})
    for workload in important:
        yield _workload(workload, "devcluster")


def _script(part: str, key: str, name: str, *arguments: str) -> Step:
    return Step(part, key, [sys.executable, _path(name), *arguments, "--json"])


def _path(name: str) -> str:
    return str(ROOT / "benchmarks" / name)


def _workload(workload: Workload, part: str, *, quick: bool = False) -> Step:
    topic = str(_topic(workload))
    if part == "core":
        paired = not quick and any(re.search(pattern, workload.name) for _, _, pattern in TARGETS)
        base = _perf("core", "misc", BASE) if paired else ()
        rounds = ROUNDS if paired else 1
        return Step(part, workload.name, _perf("core", topic, workload.name), _rates, CORE_SECONDS, base, rounds)
    command = [*_perf(part, topic, workload.name), "--compare", "null"]
    return Step(part, workload.name, command, _compared, CLUSTER_SECONDS, rounds=1 if quick else ROUNDS)


def _topic(workload: Workload) -> Path:
    return workload.operations[0].folder.relative_to(_folder())


def _perf(part: str, topic: str, name: str) -> list[str]:
    return [sys.executable, "-m", "bayplan", "perf", "--on", part, "--format", "json", topic, name]


def _rates(output: str) -> Results:
    """Return pods/s, the durations of attempts, and attempts per pod, of a workload on the core."""
    items = json.loads(output)["dataItems"]
    figures: Results = {}
    for item in items:
        labels, data = item["labels"], item["data"]
        if labels["Metric"] == "SchedulingThroughput":
            figures.setdefault("pods_per_second", data["Average"])
        elif labels["Metric"] == "SchedulerAttempts":
            figures.setdefault("attempts", data["Average"])
        elif labels.get("result") == "scheduled":
            figures.setdefault("p50_ms", data["Perc50"])
            figures.setdefault("p99_ms", data["Perc99"])
    return figures if "pods_per_second" in figures else {"problem": "schedules no pods"}


def _compared(output: str) -> Results:
    """Return pods/s of each scheduler, and Bayplan's writes per pod."""
    rates: Results = {}
    for item in json.loads(output)["dataItems"]:
        metric, average = item["labels"]["Metric"], item["data"].get("Average")
        if metric == "SchedulingThroughput":
            rates.setdefault(item["labels"].get("Scheduler", "bayplan"), average)
        elif metric == "SchedulerWrites":
            rates.setdefault("writes", average)
    return rates or {"problem": "schedules no pods"}


# The workloads


def _folder() -> Path:
    folder = os.environ.get("BAYPLAN_SCHEDULER_PERF")
    if not folder:
        raise SystemExit("set BAYPLAN_SCHEDULER_PERF to Kubernetes' test/integration/scheduler_perf")
    return Path(folder)


def _workloads() -> Iterator[Workload]:
    """Distinct workloads without gates that Kubernetes disables by default. The base of all ratios comes first."""
    seen = set()
    found = [each for path in find_configs(str(_folder()), None) for each in read_workloads(path)]
    for workload in sorted(found, key=lambda each: each.name != BASE):
        content = repr((workload.operations, workload.default_pod_template, workload.scheduler_config))
        if content not in seen and not workload.unusual_gates:
            seen.add(content)
            yield workload


def _one_of_each_case(workloads: Sequence[Workload]) -> list[Workload]:
    """Return the first workload of each test case, those that are named in FIRST before the others."""
    first = {each.name.partition("/")[0]: each for each in reversed(workloads)}
    order = [each for each in workloads if first[each.name.partition("/")[0]] is each]

    def place(workload: Workload) -> int:
        return next((at for at, name in enumerate(FIRST) if workload.name.startswith(name)), len(FIRST))

    return sorted(order, key=place)


def thresholds() -> dict[str, float]:
    """Return the pods/s below which Kubernetes' own runs fail, by workload."""
    found = {}
    for path in find_configs(str(_folder()), None):
        for case in yaml.safe_load(path.read_text(encoding="utf-8")):
            for workload in case["workloads"]:
                if isinstance(workload.get("threshold"), int | float):
                    found[f"{case['name']}/{workload['name']}"] = workload["threshold"]
    return found


# The machine


def _name_machine(results: Results) -> str:
    """Return the name of this machine in the results, which is a letter."""
    machines: dict[str, Any] = results.setdefault("machines", {})
    this = _machine()
    known = (name for name, each in machines.items() if {**each, "date": ""} == {**this, "date": ""})
    name = next(known, chr(ord("A") + len(machines)))
    machines.setdefault(name, this)
    return name


def _check_machines(results: Results, machine: str, parts: Collection[str]) -> None:
    """Raise SystemExit for parts whose measurements would come from several machines, but are compared."""
    for part in ("growth", "core"):
        others = {each["machine"] for each in results.get(part, {}).values()} - {machine}
        if part in parts and others:
            raise SystemExit(f"{part} has results of machine {others.pop()}: delete them to measure it here")


def _machine() -> dict[str, Any]:
    cpu = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    memory = int(Path("/proc/meminfo").read_text(encoding="ascii").split()[1])
    model = re.search(r"model name\s*: (.*)", cpu)
    return {
        "cpu": model[1] if model else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 2**20),
        "python": platform.python_version(),
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
    }


def _parts(text: str) -> list[str]:
    parts = text.split(",")
    if unknown := set(parts) - set(PARTS):
        raise argparse.ArgumentTypeError(f"no such part: {', '.join(sorted(unknown))}")
    return parts


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--render", action="store_true", help="only write the page")
    parser.add_argument("--quick", action="store_true", help="small clusters and workloads")
    parser.add_argument("--minutes", type=float, default=600, help="start no measurement after this time")
    parser.add_argument("--only", type=_parts, help=f"parts: {','.join(PARTS)}")
    parser.add_argument("--again", help="measure again what matches this regular expression")
    parser.add_argument("--results", type=Path, default=RESULTS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
