"""The output of the demo: a live table in a terminal, lines elsewhere."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Self

from lightkube.models.core_v1 import Node
from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.faces.cli.demo.outcome import EXPECTATIONS, Figures
from bayplan.faces.cli.demo.pod_watcher import workload_of
from bayplan.faces.cli.demo.show import Show
from bayplan.foundations.clock import RunningClock

LONGEST_LIST = 2
"""The maximum number of pending pods that are shown."""

_STYLES = {"Running": "green", "Pending": "yellow", "Succeeded": "dim", "Failed": "red"}
_SIGNS = {"Running": "", "Pending": "…", "Succeeded": "✓", "Failed": "✗"}


class Screen(AbstractContextManager["Screen"]):
    """Shows the state of a show, for the last time at its end."""

    def __exit__(self, *_: object) -> None:
        self.refresh()

    @abstractmethod
    def refresh(self) -> None:
        """Show the current state."""


class TableScreen(Screen):
    """A live table of nodes with their pods, and below it the pending pods with their reasons."""

    def __init__(self, console: Console, picture: Callable[[], RenderableType]) -> None:
        self._picture = picture
        self._live = Live(picture(), console=console, auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._live.stop()

    def refresh(self) -> None:
        """Draw the table anew."""
        self._live.update(self._picture(), refresh=True)


class LineScreen(Screen):
    """A line for each act, each workload that was bound, and each reason why a pod is pending."""

    def __init__(self, console: Console, show: Show) -> None:
        self._console = console
        self._show = show
        self._began = time.monotonic()
        self._status = ""
        self._shown = 0
        self._reasons: dict[str, str] = {}

    def refresh(self) -> None:
        """Print a line for each thing that is new."""
        if self._status != self._show.status:
            self._status = self._show.status
            self._say(self._status)
        seen = self._show.seen
        placed, self._shown = seen.placed[self._shown :], len(seen.placed)
        for workload in dict.fromkeys(map(workload_of, placed)):
            nodes = Counter(pod.node_name for pod in placed if workload_of(pod) == workload)
            where = ", ".join(sorted(nodes)) if len(nodes) <= 3 else f"{nodes.total()} pods on {len(nodes)} nodes"
            self._say(f"  {workload} → {where}")
        for pod, reason in seen.pending():
            if reason and self._reasons.get(pod.key) != reason:
                self._reasons[pod.key] = reason
                self._say(f"  {pod.key} is pending: {reason}")

    def _say(self, line: str) -> None:
        self._console.print(
            f"{time.monotonic() - self._began:5.1f} s  {line}", highlight=False, markup=False, soft_wrap=True
        )


def picture(show: Show, nodes: Sequence[Node], url: str, clock: RunningClock) -> RenderableType:
    """The whole state in 23 lines of 80 columns."""
    figures = show.figures
    counts = f"{figures.bound} pods bound, {len(figures.pending)} pending, {show.scheduler.decisions} decisions"
    return Group(
        Text.assemble(
            ("Bayplan", "bold cyan"),
            (f"  {url}  cluster time {clock.now():%H:%M:%S} ({clock.rate:g}× real time)", "dim"),
            overflow="ellipsis",
            no_wrap=True,
        ),
        _table(show, nodes),
        Text.assemble("▸ ", show.status, style="bold", overflow="ellipsis", no_wrap=True),
        Text(f"  {counts}", "dim"),
        *_pending(figures),
    )


def summary(show: Show) -> RenderableType:
    """The summary: the figures, and whether the expectations are met."""
    figures = show.figures
    table = Table.grid(padding=(0, 2))
    table.add_row("pods bound", str(figures.bound))
    table.add_row("pods pending", str(len(figures.pending)))
    for key, reason in figures.pending[:LONGEST_LIST]:
        table.add_row("", Text.assemble((key, "yellow"), ": ", reason))
    if figures.decisions_per_second:
        rate = f"{figures.decisions_per_second:.0f} per second while the crowd was scheduled"
        table.add_row("decisions", f"{rate}, with the whole cluster in one process")
    table.add_row("creation to binding", f"p50 {figures.p50 * 1000:.0f} ms, p99 {figures.p99 * 1000:.0f} ms")
    checks = [
        Text.assemble(("✓ ", "green"), expectation.what)
        if expectation.met(show.seen)
        else Text(f"✗ not met: {expectation.what}", "bold red")
        for expectation in EXPECTATIONS
    ]
    return Padding(Group(table, "", *checks), (1, 0))


def _table(show: Show, nodes: Sequence[Node]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, expand=True, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("NODE", no_wrap=True)
    table.add_column("ZONE", no_wrap=True)
    table.add_column("", style="dim", no_wrap=True)
    table.add_column("PODS", ratio=1, no_wrap=True, overflow="ellipsis")
    pods: dict[str, list[PodInfo]] = {}
    for pod in show.seen.pods.values():
        pods.setdefault(pod.node_name, []).append(pod)
    for node in nodes:
        assert node.metadata is not None
        assert node.metadata.labels is not None
        name = node.metadata.name or ""
        zone = node.metadata.labels["topology.kubernetes.io/zone"]
        table.add_row(name, zone, _features(node), _pods(pods.get(name, ())))
    return table


def _features(node: Node) -> str:
    """The features of a node that matter to pods."""
    assert node.metadata is not None
    assert node.spec is not None
    labels = node.metadata.labels or {}
    found = [f"tier={labels['tier']}"] if "tier" in labels else []
    if labels["node.kubernetes.io/instance-type"] == "big":
        found.append("big")
    found += [f"tainted {taint.key}={taint.value}" for taint in node.spec.taints or ()]
    if node.spec.unschedulable:
        found.append("cordoned")
    if node.status and node.status.images:
        found.append("has image model")
    return ", ".join(found)


def _pods(pods: Sequence[PodInfo]) -> Text:
    """`nginx ×2  report ✓3`: pods by workload and phase, running ones first."""
    counts = Counter(sorted((pod.phase, workload_of(pod)) for pod in pods))
    text = Text()
    for phase, style in _STYLES.items():
        for (of_phase, workload), count in counts.items():
            if of_phase == phase:
                mark = _SIGNS[phase] or ("×" if count > 1 else "")
                text.append(f"{workload} {mark}{count if count > 1 else ''}".rstrip(), style).append("  ")
    return text


def _pending(figures: Figures) -> list[RenderableType]:
    known = [(key, reason) for key, reason in figures.pending if reason]
    return [
        Group(Text(f"{key} is pending", "yellow"), Padding(Text(reason), (0, 0, 0, 2)))
        for key, reason in known[:LONGEST_LIST]
    ]
