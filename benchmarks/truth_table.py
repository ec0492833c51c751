"""What `benchmarks/truth.py` shows: measured and foretold, for each figure and each candidate."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bayplan.answers.backtest.lookahead import Lookahead
from bayplan.answers.backtest.running import open_history
from bayplan.answers.insight.answers import plural
from bayplan.answers.insight.json_values import fields_of
from truth_workload import Size

Json = dict[str, Any]

AS_IT_IS = "as-it-is", "as-it-is-2", "as-it-is-3"
"""The runs of the usual scheduler. How much they differ is the noise; the first one is what forecasts are made from."""
CANDIDATES: dict[str, Any] = {
    "packing": {"NodeResourcesFit": {"scoringStrategy": {"type": "MostAllocated"}}},
    "spreading": {"PodTopologySpread": 20},
    "weights": {"NodeResourcesFit": 5, "NodeResourcesBalancedAllocation": 10},
}
"""By name: the arguments or the weights of plugins."""
MODELS = {"pods": {"startupSeconds": 0.5}}
"""What is known of the kubelets here and not in a history."""
BEGIN, END = "<!-- truth -->", "<!-- end of truth -->"
"""Between these, a page has the table."""


def configuration_of(candidate: Json) -> Json:
    """The KubeSchedulerConfiguration of a candidate."""
    weights = [{"name": name, "weight": weight} for name, weight in candidate.items() if isinstance(weight, int)]
    arguments = [{"name": name, "args": given} for name, given in candidate.items() if isinstance(given, dict)]
    profile: Json = {"schedulerName": "default-scheduler", "pluginConfig": arguments}
    if weights:
        profile["plugins"] = {"multiPoint": {"enabled": weights}}
    return {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [profile]}


@dataclass(frozen=True, slots=True)
class Measured:
    """A figure of the table. `least`: a smaller difference than this is none, whatever the noise."""

    what: str
    of: Callable[[Json], float]
    form: str
    least: float


FIGURES = (
    Measured("pods placed", lambda found: found["placed"], "{:,.0f}", 5),
    Measured("nodes without workloads", lambda found: found["emptyNodes"], "{:.1f}", 0.3),
    Measured("cpu requested", lambda found: 100 * found["utilization"]["cpu"], "{:.0f}%", 1),
    Measured("memory requested", lambda found: 100 * found["utilization"]["memory"], "{:.0f}%", 1),
    Measured("memory stranded", lambda found: 100 * found["utilization"]["strandedMemory"], "{:.0f}%", 1),
    Measured("wait p50", lambda found: found["waits"]["p50"], "{:.2f} s", 0.05),
    Measured("wait p95", lambda found: found["waits"]["p95"], "{:.1f} s", 0.5),
    Measured("wait p99", lambda found: found["waits"]["p99"], "{:.1f} s", 0.5),
    Measured("evictions", lambda found: sum(found["evictions"].values()), "{:,.0f}", 3),
    Measured("never placed", lambda found: found["neverPlaced"], "{:,.0f}", 2),
    Measured("median share in one zone", lambda found: 100 * found["medianShare"], "{:.0f}%", 1),
)


class Experiment:
    """The runs in a folder, and what the first one foretells of the others. `misses`: how many figures are wrong."""

    def __init__(self, runs: Path, size: Size, seeds: int) -> None:
        self.misses = 0
        self.figures = 0
        self._runs = runs
        self._size = size
        self._seeds = seeds
        self._compared = {name: self._foretold(name) for name in CANDIDATES if (runs / name).exists()}
        names = [*AS_IT_IS, *self._compared]
        self._measured = {name: fields_of(Lookahead(open_history(runs / name), _no_price).recorded) for name in names}

    def _foretold(self, name: str) -> Json:
        """What `bayplan compare` says about a candidate."""
        with tempfile.TemporaryDirectory() as folder:
            config, models = Path(folder) / "candidate.yaml", Path(folder) / "models.yaml"
            config.write_text(yaml.safe_dump(configuration_of(CANDIDATES[name])))
            models.write_text(yaml.safe_dump(MODELS))
            command = [Path(sys.executable).with_name("bayplan"), "compare", "--history", self._runs / AS_IT_IS[0]]
            command += ["--autoscaler", "none", "--config", config, "--models", models, "-o", "json"]
            command += ["--seeds", str(self._seeds)]
            done = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True)  # noqa: S603
        found: Json = json.loads(done.stdout)
        return found

    def table(self) -> str:
        """The table, in Markdown, with what it rests on."""
        rows = list(self._rows())
        within = self.figures - self.misses
        begin = next(iter(self._compared.values()))["begin"]
        size, seeds = self._size, plural(self._seeds, "seed")
        lead = (
            f"{begin[:10]}: {size.nodes} nodes and about {size.pods:,} pods in {size.seconds:.0f} s, kube-scheduler,\n"
            f"{os.cpu_count()} processors at a load of {os.getloadavg()[2]:.0f}, foretold with {seeds}.\n"
            f"{within} of {self.figures} figures are within twice the noise."
        )
        return "\n".join([lead, "", *rows])

    def _rows(self) -> Iterator[str]:
        header = ["", "noise", "as it is", *self._compared]
        yield f"| {' | '.join(header)} |"
        yield f"|---|{'---:|' * (len(header) - 1)}"
        now = next(iter(self._compared.values()))["now"]
        for figure in FIGURES:
            usual = [figure.of(self._measured[name]) for name in AS_IT_IS]
            noise = max(usual) - min(usual)
            known = [(sum(usual) / len(usual), figure.of(now))]
            known += [
                (figure.of(self._measured[name]), figure.of(compared["candidate"]))
                for name, compared in self._compared.items()
            ]
            cells = [self._cell(figure, noise, measured, foretold) for measured, foretold in known]
            yield f"| {figure.what} | {figure.form.format(noise)} | {' | '.join(cells)} |"

    def _cell(self, figure: Measured, noise: float, measured: float, foretold: float) -> str:
        missed = abs(measured - foretold) > 2 * max(noise, figure.least)
        self.figures += 1
        self.misses += missed
        shown = f"{figure.form.format(measured)} / {figure.form.format(foretold)}"
        return f"**{shown}**" if missed else shown


def _no_price(_: Any) -> None:
    return None


def write_between_markers(page: Path, table: str) -> None:
    """Replace what is between the markers of a page."""
    text = page.read_text(encoding="utf-8")
    before, found, rest = text.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not found or not ended:
        raise SystemExit(f"{page} has no line {BEGIN} before a line {END}: it is not changed")
    page.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")
