"""How the demo is shown: as a table that is drawn over and over in a terminal, as lines everywhere else."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Protocol, Self

from lightkube.models.core_v1 import Node
from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bayplan.cli.demo.outcome import EXPECTATIONS, Figures
from bayplan.cli.demo.show import Show
from bayplan.cli.demo.spectator import workload_of
from bayplan.clock import RunningClock
from bayplan.cluster.pod_info import PodInfo

LONGEST_LIST = 2
"""Pods that are shown waiting at a time."""

_STYLES = {"Running": "green", "Pending": "yellow", "Succeeded": "dim", "Failed": "red"}
_SIGNS = {"Running": "", "Pending": "…", "Succeeded": "✓", "Failed": "✗"}


class Screen(Protocol):
    """Shows a show, whenever it is told to."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def refresh(self) -> None:
        """Show how things are now."""


class TableScreen:
    """A table of nodes with their pods, and below it who waits and why; drawn in place."""

    def __init__(self, console: Console, picture: Callable[[], RenderableType]) -> None:
        self._picture = picture
        self._live = Live(picture(), console=console, auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.refresh()
        self._live.stop()

    def refresh(self) -> None:
        """See Screen."""
        self._live.update(self._picture(), refresh=True)


class LineScreen:
    """A line for every act, every workload that got nodes, and every reason to wait."""

    def __init__(self, console: Console, show: Show) -> None:
        self._console = console
        self._show = show
        self._began = time.monotonic()
        self._programme = ""
        self._told = 0
        self._reasons: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.refresh()

    def refresh(self) -> None:
        """See Screen."""
        if self._programme != self._show.programme:
            self._programme = self._show.programme
            self._say(self._programme)
        seen = self._show.seen
        placed, self._told = seen.placed[self._told :], len(seen.placed)
        for workload in dict.fromkeys(map(workload_of, placed)):
            nodes = Counter(pod.node_name for pod in placed if workload_of(pod) == workload)
            where = ", ".join(sorted(nodes)) if len(nodes) <= 3 else f"{nodes.total()} pods on {len(nodes)} nodes"
            self._say(f"  {workload} → {where}")
        for pod, reason in seen.waiting():
            if reason and self._reasons.get(pod.key) != reason:
                self._reasons[pod.key] = reason
                self._say(f"  {pod.key} waits: {reason}")

    def _say(self, line: str) -> None:
        self._console.print(
            f"{time.monotonic() - self._began:5.1f} s  {line}", highlight=False, markup=False, soft_wrap=True
        )


def picture(show: Show, nodes: Sequence[Node], url: str, clock: RunningClock) -> RenderableType:
    """Everything at a glance, in 23 lines of 80 columns."""
    figures = show.figures
    counts = f"{figures.bound} pods bound, {len(figures.waiting)} waiting, {show.scheduler.decisions} decisions"
    return Group(
        Text.assemble(
            ("Bayplan", "bold cyan"),
            (f"  {url}  cluster time {clock.now():%H:%M:%S} ({clock.rate:g}× as fast)", "dim"),
            overflow="ellipsis",
            no_wrap=True,
        ),
        _table(show, nodes),
        Text.assemble("▸ ", show.programme, style="bold", overflow="ellipsis", no_wrap=True),
        Text(f"  {counts}", "dim"),
        *_waiting(figures),
    )


def summary(show: Show) -> RenderableType:
    """What became of it: figures, and what was expected."""
    figures = show.figures
    table = Table.grid(padding=(0, 2))
    table.add_row("pods bound", str(figures.bound))
    table.add_row("pods waiting", str(len(figures.waiting)))
    for key, reason in figures.waiting[:LONGEST_LIST]:
        table.add_row("", Text.assemble((key, "yellow"), ": ", reason))
    if figures.decisions_per_second:
        rate = f"{figures.decisions_per_second:.0f} a second while the crowd came"
        table.add_row("decisions", f"{rate}, with the whole cluster in one process")
    table.add_row("creation to binding", f"p50 {figures.p50 * 1000:.0f} ms, p99 {figures.p99 * 1000:.0f} ms")
    checks = [
        Text.assemble(("✓ ", "green"), expectation.what)
        if expectation.met(show.seen)
        else Text(f"✗ not seen: {expectation.what}", "bold red")
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
        table.add_row(name, zone, _peculiarity(node), _pods(pods.get(name, ())))
    return table


def _peculiarity(node: Node) -> str:
    """What pods may like or dislike about a node."""
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
    """`nginx ×2  report ✓3`: pods by workload and phase, those that run first."""
    counts = Counter(sorted((pod.phase, workload_of(pod)) for pod in pods))
    text = Text()
    for phase, style in _STYLES.items():
        for (of_phase, workload), count in counts.items():
            if of_phase == phase:
                sign = _SIGNS[phase] or ("×" if count > 1 else "")
                text.append(f"{workload} {sign}{count if count > 1 else ''}".rstrip(), style).append("  ")
    return text


def _waiting(figures: Figures) -> list[RenderableType]:
    told = [(key, reason) for key, reason in figures.waiting if reason]
    return [
        Group(Text(f"{key} waits", "yellow"), Padding(Text(reason), (0, 0, 0, 2)))
        for key, reason in told[:LONGEST_LIST]
    ]
