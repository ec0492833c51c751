"""Loads: the measured loads of nodes as columns, and the task that keeps them up to date.

Each report of a source is one object of a feed. So decisions rest on an input that recordings and snapshots have, and
read no clock: it is the task that takes loads away when they are old.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial

import msgspec
import numpy as np
from numpy.typing import NDArray

from bayplan.plugin import CustomObject, FeedSource, Handle, NodeColumn, NodeInfo, Nodes
from bayplan_plugins.trimaran.arguments import TrimaranArgs
from bayplan_plugins.trimaran.sources import OLD, LoadReport, LoadSource, NodeLoad, SourceError, present_loads

log = logging.getLogger("bayplan.trimaran")

LOAD_REPORTS = "loadreports.v1alpha1.bayplan.dev"
INTERVAL = 30.0
"""Seconds between two reports."""
PERMISSIONS = ({"apiGroups": ["metrics.k8s.io"], "resources": ["nodes"], "verbs": ["list"]},)
"""What the plugins need where they ask metrics-server."""

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Loads:
    """The loads that a source reports. A value that isn't measured is NaN; so are all values of unknown nodes."""

    def __init__(self, args: TrimaranArgs, handle: Handle, number: int) -> None:
        """`number`: as of LoadSource."""
        self._handle = handle
        self._source = LoadSource(args, handle, number)
        self._feed = handle.feed(LOAD_REPORTS, "LoadReport")
        self._feed.sources.append(FeedSource(self._source.name, partial(present_loads, args, number=number)))
        self._read = -1
        self._nodes: dict[str, NodeLoad] = {}
        self.end = 0
        """Seconds since the epoch, when the measurements ended that columns were read of last."""
        self._columns = {field: self._column(field) for field in NodeLoad.__struct_fields__}
        self._known = NodeColumn(self.knows, np.int64, reads_pods=False)
        self._failed = False
        self._told_invalid = False
        self._turn = asyncio.Lock()

    @property
    def version(self) -> int:
        """Another number after each report: scores rest on it."""
        return self._feed.objects.version

    def column(self, field: str, nodes: Nodes) -> Floats:
        """Return a field of NodeLoad for nodes."""
        self._update()
        return self._columns[field].of(nodes)

    def at(self, node: NodeInfo) -> NodeLoad | None:
        """Return the load of one node; None if the source doesn't know it."""
        self._update()
        return self._nodes.get(node.name)

    def knows(self, node: NodeInfo) -> bool:
        """Return whether the source knows a node, and reports only numbers of it."""
        load = self.at(node)
        return load is not None and load.valid

    def known(self, nodes: Nodes) -> Bools:
        """Return which nodes the source `knows`."""
        self._update()
        known: Bools = self._known.of(nodes) != 0
        return known

    def _column(self, field: str) -> NodeColumn[np.float64]:
        def value(node: NodeInfo) -> float:
            load = self._nodes.get(node.name)
            found = None if load is None else getattr(load, field)
            return np.nan if found is None else found

        return NodeColumn(value, np.float64, reads_pods=False)

    def _update(self) -> None:
        """Read the report, if there is another one."""
        if self._read == self.version:
            return
        self._read = self.version
        self._nodes, self.end = _content(self._feed.get(self._source.key))
        self._known.again()
        for column in self._columns.values():
            column.again()

    # The task

    async def run(self) -> None:
        """Ask the source again and again. Plugins with the same source may all call this: one of them asks."""
        if self._handle.client is None:
            return
        async with self._turn:
            while True:
                await self.ask()
                await asyncio.sleep(INTERVAL)

    async def ask(self) -> None:
        """Ask the source once. Its loads count until they are old."""
        try:
            report = await self._source.report()
        except SourceError as error:
            self._tell_failure(str(error))
        else:
            if self._now() - report.end <= OLD:
                self._take(report)
            else:
                self._tell_failure(self._source.age_of(report))
        self._drop_old()

    def _take(self, report: LoadReport) -> None:
        self._feed.put(self._source.key, report.content)
        if self._failed:
            log.info("%s reports the loads of %d nodes again", self._source.name, len(report.nodes))
        self._failed = False
        self._tell_oddities(report)

    def _drop_old(self) -> None:
        _, end = _content(self._feed.get(self._source.key))
        if end and self._now() - end > OLD:
            self._feed.remove(self._source.key)
            log.warning(
                "the loads that %s reported are older than %d s: plugins have no opinion until it reports others",
                self._source.name,
                OLD,
            )

    def _tell_failure(self, reason: str) -> None:
        """Report once that the source fails, until it reports loads again."""
        if self._failed:
            return
        self._failed = True
        known = self._feed.get(self._source.key) is not None
        effect = f"its last ones count until they are {OLD} s old" if known else "plugins have no opinion without them"
        log.warning("%s reports no loads of nodes: %s; %s", self._source.name, reason, effect)

    def _tell_oddities(self, report: LoadReport) -> None:
        """Report once what keeps loads of nodes from counting."""
        (count, example), there = report.invalid, self._handle.objects("Node").keys()
        strange = bool(there and report.nodes) and there.isdisjoint(report.nodes)
        if not self._told_invalid and count:
            message = "%s reports loads of %d nodes, and of %d, such as %s, values that are no numbers"
            log.warning(message, self._source.name, len(report.nodes), count, example)
        if not self._told_invalid and strange:
            message = "%s reports loads of %s, which is no node: the label `instance` must have the name of a node"
            log.warning(message, self._source.name, min(report.nodes))
        self._told_invalid = bool(count or strange)

    def _now(self) -> float:
        return self._handle.now().timestamp()


class SharedLoads:
    """The loads of all sources: plugins with equal arguments share one Loads."""

    def __init__(self, _objects: object) -> None:
        self._loads: dict[bytes, Loads] = {}

    def of(self, args: TrimaranArgs, handle: Handle) -> Loads:
        """Return the loads of a source."""
        key = msgspec.json.encode((args.watcherAddress, args.provider, args.metricProvider))
        if key not in self._loads:
            self._loads[key] = Loads(args, handle, len(self._loads) + 1)
        return self._loads[key]


def shared_loads(args: TrimaranArgs, handle: Handle) -> Loads:
    """Return the loads of the source that the arguments name. Call it in `__init__` of a plugin."""
    return handle.feed(LOAD_REPORTS, "LoadReport").objects.view(SharedLoads).of(args, handle)


def _content(report: CustomObject | None) -> tuple[dict[str, NodeLoad], int]:
    """The loads of a report, and when its measurements ended. A report of another form has none."""
    if report is None:
        return {}, 0
    try:
        found = msgspec.convert(dict(report), _Content)
    except msgspec.ValidationError as error:
        log.warning("the report of loads %s is malformed: %s", report.metadata.name, error)
        return {}, 0
    return found.nodes, found.end


class _Content(msgspec.Struct):
    end: int
    nodes: dict[str, NodeLoad]
