"""Makes docs/performance.md, its plot and the figures in the README from the results of performance.py."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from performance_plot import GROWTH, KINDS, growth_plot

ROOT = Path(__file__).parents[1]
PAGE, PLOT, README = ROOT / "docs/performance.md", ROOT / "docs/images/growth.svg", ROOT / "README.md"
STOCK = ROOT / "benchmarks/results/kube_scheduler.tsv"
NULL_WRITES = 2
"""The writes per pod of the null scheduler: the binding and the event."""
_AGAINST_NULL = ("workload", "Bayplan, pods/s", "null", "of null", "writes per pod", "writes/s, of null")
_ATTEMPTS = ("attempt p50", "p99", "attempts per pod", "attempts/s, of SchedulingBasic")
BASE = "SchedulingBasic/5000Nodes_10000Pods"
"""The workload whose pods/s all others are compared with."""
TARGETS = (
    ("CSI, in-tree and migrated volumes, core", 1 / 5, r"Scheduling(CSI|InTree|MigratedInTree)PVs/5000"),
    (
        "affinity, spreading and inclusion policies, core",
        1 / 2,
        r"(Affinity|AffinityWithNSSelector|TopologySpreading|NodeInclusionPolicy)/5000",
    ),
    (
        "unschedulable, churn, gated, finalizers, event handling, core",
        1 / 2,
        r"(Unschedulable/5k|MixedChurn/5000|WhileGated/1Node_10000|WithFinalizers/5000)|^EventHandling.*/.*(500|1000)Pods",
    ),
    ("preemption, core", 1 / 5, r"^Preemption(Basic|Async|PVs)/(1000|5000)Nodes"),
)
"""What is compared with BASE: a title, the least share of its pods/s, and a pattern of the workloads' names."""
_MARK = "<!-- from benchmarks/performance.py -->"

Results = dict[str, Any]


def write_pages(results: Results) -> list[Path]:
    """Write the page, the plot and the README's figures, and return their paths."""
    pages = rendered(results)
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")
    return list(pages)


def rendered(results: Results) -> dict[Path, str]:
    """Return the texts of the page, the plot and the README."""
    return {PAGE: _page(results), PLOT: growth_plot(results.get("growth", {})), README: _readme(results)}


_TEMPLATE = """\
# Performance

`benchmarks/performance.py` made this page, the plot and the figures in the README. To measure again, delete
`benchmarks/results/performance.json`, and run the script on a machine that does nothing else. Machines differ:
compare ratios, not figures.

{machines}

The script measures again what you name, so measurements may be of several revisions and machines:

{revisions}

## Targets

{targets}

Ratios to SchedulingBasic are to `{base}` on the core. For workloads with a target, it was measured right before each
of three runs, and the ratio is the median of the three: this machine's speed changes from minute to minute.

## Growth

The time of a decision in memory: decode a pod, filter and score all nodes, choose one, and assume the pod there.
There are ten running pods per node. The pending pods are plain, have required affinity within a zone, or are spread
over three zones (`benchmarks/scale.py`).

![The time of a decision by the number of nodes, for three kinds of pods](images/growth.svg)

{growth}

Pauses are runs of the garbage collector during the decisions. The last column is the CPU time until the cluster is in
memory.

{cluster}## Workloads in memory

`bayplan perf --on core` runs Kubernetes' own benchmark without an API server. Pods per second count only the
scheduler's work. kube-scheduler's figures are from a full stack on a 2-core machine, one run each; Kubernetes' own
runs fail below the threshold. Of workloads that differ only in feature gates that change nothing in Bayplan, the
first one was measured. Where pods are rejected first, or where other pods are scheduled that don't count, there are
several attempts per pod; the column of attempts/s compares those of all pods per second with SchedulingBasic's.

{core}

## Workloads on an API server

`bayplan perf --on devcluster --compare null` runs `bayplan run` against the embedded API server, both on this
machine, and then a null scheduler, which only binds round robin: the ceiling that the API server sets. The null
scheduler ignores volumes, device claims and priorities, and never rejects a pod. Where Bayplan has to write claims,
conditions and evictions as well, its writes per pod are several times as many. Writes are requests that change
objects: the null scheduler sends {null_writes} per pod, a binding and an event. "writes/s, of null" compares the writes
of both per second. Events that are written after the last pod was bound are missing in Bayplan's number: in workloads
with few pods, that is most of them. {repeated}

{devcluster}
{apiserver}{outputs}"""

_PARTS = {
    "growth": "growth",
    "cluster": "start-up, selectors and function plugins",
    "core": "workloads in memory",
    "devcluster": "workloads on the embedded API server",
    "apiserver": "workloads on kube-apiserver",
    "outputs": "other benchmarks",
}

_APISERVER = """
### On kube-apiserver

The same on etcd and kube-apiserver 1.36, some of it with kube-scheduler 1.36, too: the server, the scheduler and the
program that creates the pods share this machine, and each scheduler gets a new server (`benchmarks/kube_apiserver.py`).

"""

_START_UP = """\
## Start-up, memory and pauses

`bayplan run` on a cluster with 5,000 nodes and 150,000 pods of 4 kB, behind the embedded API server on the same
machine: ready after {ready_seconds:.1f} s, with a peak of {peak_mib:,.0f} MiB. Then {bound:,} pods were created, 100
per second, and bound: the garbage collector ran for at most {longest_collection_ms:.1f} ms, and another thread of the
process waited for at most {longest_stall_ms:.1f} ms (`benchmarks/startup.py`).

"""

_SELECTORS = """\
## Selectors

5,000 nodes, 100,000 pods, and 20,000 selectors of spread constraints: the first pod of a selector takes
{first_us:,.0f} µs (median). A round robin over all selectors takes {robin_us:,.0f} µs per pod, and pods of a single
one take {single_us:,.0f} µs (`benchmarks/scale.py --new-selectors`).

"""

_FUNCTIONS = """\
## Function plugins

A filter and a score function, called node by node on 5,000 nodes: {undeclared:,.0f} pods/s, and {pure:,.0f} pods/s if
both are [declared pure](plugins.md#pure-functions) (`benchmarks/function_plugins.py`).

"""

_README = """\
Measured on {cores} cores of {cpu} with Python {python}:

"""


def _page(results: Results) -> str:
    outputs = [
        f"```text\n$ benchmarks/{name}\n{each.get('output', each.get('problem', '')).strip()}\n```\n"
        for name, each in sorted(results.get("outputs", {}).items())
    ]
    return _TEMPLATE.format(
        machines=_table(("machine", "CPU", "cores", "memory", "Python", "first used"), _machines(results)),
        base=BASE,
        revisions=_table(("measurements", "how many at which revision, on which machine"), _revisions(results)),
        targets=_table(("what", "target", "measured", "met"), _targets(results)),
        growth=_table(("nodes", "pods", *KINDS, "memory", "longest pause", "to build"), _growth_rows(results)),
        cluster=_cluster(results),
        core=_table(
            ("workload", "pods/s", "of SchedulingBasic", *_ATTEMPTS, "kube-scheduler, pods/s", "threshold"),
            _core_rows(results),
        ),
        devcluster=_table((*_AGAINST_NULL, "kube-scheduler", "problem"), _cluster_rows(results)),
        null_writes=NULL_WRITES,
        repeated=_repeated(results.get("devcluster", {})),
        apiserver=_apiserver(results),
        outputs="\n".join(["\n## Other benchmarks\n\nTheir output, as it is.\n", *outputs]) if outputs else "",
    )


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _machines(results: Results) -> Iterator[Sequence[str]]:
    for name, each in sorted(results["machines"].items()):
        yield name, each["cpu"], f"{each['cores']}", f"{each['memory_gib']} GiB", each["python"], each["date"]


def _revisions(results: Results) -> Iterator[Sequence[str]]:
    """Yield how many measurements of each part are from which revisions and machines."""
    for part, title in _PARTS.items():
        numbers = Counter(
            (each.get("revision", "earlier revisions"), each["machine"]) for each in results.get(part, {}).values()
        )
        if numbers:
            found = sorted(numbers.items())
            yield title, ", ".join(f"{number} at {revision} on {machine}" for (revision, machine), number in found)


# Targets


def _targets(results: Results) -> Iterator[Sequence[str]]:
    yield from (_slowest(results, *target) for target in TARGETS)
    yield _against_null(results, "devcluster", "the embedded API server")
    yield _against_null(results, "apiserver", "kube-apiserver")
    growth = results.get("growth", {})
    for kinds, most in ((("plain",), 3), (("affinity", "spreading"), 5)):
        small, large = growth.get("5000", {}), growth.get("100000", {})
        known = all(f"{kind}_us" in each for kind in kinds for each in (small, large))
        worst = max(large[f"{kind}_us"] / small[f"{kind}_us"] for kind in kinds) if known else None
        what = f"a decision at 100,000 nodes, by one at 5,000, {' and '.join(kinds)}"
        yield _target(what, f"≤ {most}", worst, lambda it, most=most: it <= most, ".1f")
    cluster = results.get("cluster", {})
    start, selectors, functions = (cluster.get(name, {}) for name in ("start-up", "selectors", "functions"))
    large = "5,000 nodes, 150,000 pods of 4 kB: "
    yield _target(f"{large}ready", "≤ 40 s", start.get("ready_seconds"), lambda it: it <= 40, ".1f", " s")
    yield _target(
        f"{large}peak memory", "≤ 1,536 MiB", start.get("peak_mib_at_end"), lambda it: it <= 1536, ",.0f", " MiB"
    )
    pause = start.get("longest_collection_ms")
    yield _target(f"{large}longest pause after that", "≤ 50 ms", pause, lambda it: it <= 50, ".1f", " ms")
    first = selectors["first_us"] / 1000 if "first_us" in selectors else None
    what = "first pod of a new selector, 5,000 nodes, 100,000 pods"
    yield _target(what, "≤ 2 ms", first, lambda it: it <= 2, ".2f", " ms")
    robin = selectors["robin_us"] / selectors["single_us"] if "robin_us" in selectors else None
    yield _target("round robin over 20,000 selectors, by a single one", "≤ 2", robin, lambda it: it <= 2, ".1f")
    for name, least in (("undeclared", 150), ("pure", 1500)):
        what = f"a filter and a score function, 5,000 nodes, {name}"
        rate = functions.get(name)
        yield _target(what, f"≥ {least:,} pods/s", rate, lambda it, least=least: it >= least, ",.0f", " pods/s")


def _slowest(results: Results, what: str, share: float, pattern: str) -> Sequence[str]:
    """The row of a target for all workloads of a pattern, by the slowest of them."""
    core = results.get("core", {})
    found = {name: each for name, each in core.items() if re.search(pattern, name)}
    target = f"≥ 1/{round(1 / share)} of SchedulingBasic"
    failed = [name for name, each in found.items() if "problem" in each]
    if failed:
        return what, target, f"{failed[0]}: {found[failed[0]]['problem']}", "no"
    ratios = {name: ratio for name, each in found.items() if (ratio := _of_base(each, core)) is not None}
    if not ratios:
        return what, target, "not measured", "-"
    name = min(ratios, key=lambda name: ratios[name])
    fast = sum(ratio >= share for ratio in ratios.values())
    lowest = math.floor(100 * ratios[name]) / 100  # rounded down: 0.197 is not 1/5
    measured = f"{fast} of {len(ratios)} workloads; the slowest {lowest:.2f} ({name})"
    return what, target, measured, "yes" if fast == len(ratios) else "no"


def _of_base(result: Results, core: Results) -> float | None:
    """The pods/s of a workload on the core by those of BASE; None if BASE was not measured."""
    base = core.get(BASE, {}).get("pods_per_second")
    ratio: float | None = result.get("of_base") or (result["pods_per_second"] / base if base else None)
    return ratio


def _against_null(results: Results, part: str, server: str) -> Sequence[str]:
    what, target = f"workloads on {server}, by the null scheduler", "≥ 90%"
    found = {name: each for name, each in results.get(part, {}).items() if each.get("null")}
    if not found:
        return what, target, "not measured", "-"
    ratios = {name: _of_null(each) for name, each in found.items()}
    name = min(ratios, key=lambda name: ratios[name])
    fast = sum(ratio >= 0.9 for ratio in ratios.values())
    measured = f"{fast} of {len(ratios)} workloads; the slowest {100 * ratios[name]:.0f}% ({name})"
    return what, target, measured, "yes" if fast == len(ratios) else "no"


def _target(
    what: str, target: str, measured: float | None, met: Callable[[float], bool], form: str, unit: str = ""
) -> Sequence[str]:
    if measured is None:
        return what, target, "not measured", "-"
    return what, target, f"{measured:{form}}{unit}", "yes" if met(measured) else "no"


# Tables


def _growth_rows(results: Results) -> Iterator[Sequence[str]]:
    for nodes in GROWTH:
        each = results.get("growth", {}).get(str(nodes), {})
        if "plain_us" not in each:
            yield f"{nodes:,}", f"{10 * nodes:,}", each.get("problem", "not measured"), *[""] * 5
            continue
        times = (f"{each[f'{kind}_us']:,.0f} µs" for kind in KINDS)
        memory, pause = f"{each['memory_mib']:,.0f} MiB", f"{each['longest_pause_ms']:.1f} ms"
        yield f"{nodes:,}", f"{10 * nodes:,}", *times, memory, pause, f"{each['build_seconds']:.1f} s"


def _cluster(results: Results) -> str:
    """Return the sections of single measurements, without those that are missing."""
    cluster = results.get("cluster", {})
    sections = {"start-up": _START_UP, "selectors": _SELECTORS, "functions": _FUNCTIONS}
    found = {name: cluster[name] for name in sections if "problem" not in cluster.get(name, {"problem": ""})}
    return "".join(sections[name].format(**figures) for name, figures in found.items())


def _core_rows(results: Results) -> Iterator[Sequence[str]]:
    core, thresholds, stock = results.get("core", {}), results.get("thresholds", {}), _stock()
    for name, each in sorted(core.items()):
        others = (f"{stock[name]:,.0f}" if name in stock else "", f"{thresholds[name]:,}" if name in thresholds else "")
        if "problem" in each:
            yield name, each["problem"], *[""] * 5, *others
            continue
        ratio = _of_base(each, core)
        attempts = (f"{each[key]:.2f} ms" if key in each else "" for key in ("p50_ms", "p99_ms"))
        number = each.get("attempts")
        per_pod = f"{number:.1f}" if number else "", f"{ratio * number:.2f}" if ratio and number else ""
        rate = f"{each['pods_per_second']:,.0f}"
        yield name, rate, f"{ratio:.2f}" if ratio else "", *attempts, *per_pod, *others


def _cluster_rows(results: Results) -> Iterator[Sequence[str]]:
    stock = _stock()
    for name, each in sorted(results.get("devcluster", {}).items()):
        yield name, *_against(each), f"{stock[name]:,.0f}" if name in stock else "", _problem(each)


def _against(result: Results) -> Sequence[str]:
    """Return the cells that compare Bayplan with the null scheduler; "" for what is unknown."""
    own, null, writes = (result.get(key) for key in ("bayplan", "null", "writes"))
    rates = (f"{rate:,.0f}" if rate else "" for rate in (own, null))
    ratio = _of_null(result) if own and null else 0.0
    writes_ratio = f"{100 * ratio * writes / NULL_WRITES:.0f}%" if ratio and writes else ""
    return *rates, f"{100 * ratio:.0f}%" if ratio else "", f"{writes:.1f}" if writes else "", writes_ratio


def _of_null(result: Results) -> float:
    """The pods/s of Bayplan by those of the null scheduler: the median ratio of all runs."""
    return float(result.get("of_null") or result.get("bayplan", 0) / result["null"])


def _repeated(part: Results) -> str:
    """Return how many workloads have medians of several runs; "" if none."""
    rounds = [each["rounds"] for each in part.values() if "rounds" in each]
    return f"{len(rounds)} of the {len(part)} workloads have medians of {min(rounds)} runs." if rounds else ""


def _problem(result: Results) -> str:
    """Return the first line of why a measurement failed, or "schedules no pods" if it has no figures; else ""."""
    if "problem" in result:
        line: str = result["problem"].splitlines()[0]
        return line[:200]
    return "" if any(result.get(name) for name in ("bayplan", "null")) else "schedules no pods"


def _apiserver(results: Results) -> str:
    """Return the section about kube-apiserver; "" if nothing was measured on it."""
    rows = []
    for name, each in sorted(results.get("apiserver", {}).items()):
        own, stock = each.get("bayplan"), each.get("kube-scheduler")
        rate, ratio = f"{stock:,.0f}" if stock else "", f"{100 * own / stock:.0f}%" if own and stock else ""
        rows.append((name, *_against(each), rate, ratio, _problem(each)))
    header = (*_AGAINST_NULL, "kube-scheduler", "of kube-scheduler", "problem")
    return f"{_APISERVER}{_table(header, rows)}\n" if rows else ""


def _stock() -> dict[str, float]:
    """Return kube-scheduler's pods/s by workload."""
    lines = STOCK.read_text(encoding="utf-8").splitlines()[1:]
    return {name: float(rate) for name, _, rate in (line.partition("\t") for line in lines)}


# The README


def _readme(results: Results) -> str:
    """Return the README with three figures between the marks."""
    base = results.get("core", {}).get(BASE, {})
    machine = base.get("machine", next(iter(results["machines"])))

    def where(result: Results) -> str:
        """Return what to add about the machine of a result."""
        return "" if result["machine"] == machine else ", on another machine"

    text = _README.format(**results["machines"][machine])
    if "p50_ms" in base:
        rate, p50 = base["pods_per_second"], 1000 * base["p50_ms"]
        text += (
            f"- In memory, on 5,000 nodes: {rate:,.0f} plain pods per second; a median attempt takes {p50:.0f} µs.\n"
        )
    large = results.get("growth", {}).get("100000", {})
    if "plain_us" in large:
        text += (
            f"- On 100,000 nodes with 1,000,000 pods{where(large)}: {large['plain_us'] / 1000:.2f} ms per decision.\n"
        )
    real, null = (results.get(part, {}).get(BASE, {}) for part in ("apiserver", "devcluster"))
    if real.get("bayplan") and real.get("kube-scheduler"):
        rate, times = real["bayplan"], real["bayplan"] / real["kube-scheduler"]
        text += (
            f"- With kube-apiserver{where(real)}: {rate:,.0f} pods per second, {times:.1f} times those of"
            " kube-scheduler.\n"
        )
    elif null.get("null"):
        rate, share = null["bayplan"], 100 * null["bayplan"] / null["null"]
        text += f"- With the embedded API server{where(null)}: {rate:,.0f} pods per second, {share:.0f}% of a null"
        text += " scheduler.\n"
    before, _, rest = README.read_text(encoding="utf-8").partition(_MARK)
    after = rest.partition(_MARK)[2]
    return f"{before}{_MARK}\n{text}{_MARK}{after}"
