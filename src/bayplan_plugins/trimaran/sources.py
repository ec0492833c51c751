"""Asks a source for the loads of all nodes: Prometheus, metrics-server, or the HTTP API of a load-watcher.

The queries, the operators and the percentages are those of github.com/paypal/load-watcher.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeVar

import aiohttp
import msgspec
from lightkube.models.core_v1 import Node

from bayplan.client import ApiError, TransportError, kind_of
from bayplan.plugin import FeedError, InvalidQuantity, amounts_of
from bayplan_plugins.trimaran.arguments import PROMETHEUS, TrimaranArgs

T = TypeVar("T")
OLD = 300
"""Seconds after which loads count no more."""
TIMEOUT = 10.0
"""Seconds that a source has for an answer."""
WINDOW = 15 * 60
"""Seconds over which averages and deviations are taken."""
MOST_BYTES = 256 * 2**20
"""Of one answer."""
_ADDRESS = "http://prometheus-k8s:9090"
_NODE_METRICS = "nodes.v1beta1.metrics.k8s.io"
_QUERIES = {"CPU": "instance:node_cpu:ratio", "Memory": "instance:node_memory_utilisation:ratio"}
_FUNCTIONS = {"AVG": "avg_over_time", "STD": "stddev_over_time"}


class SourceError(Exception):
    """A source gave no loads. The message says why."""


class Metric(msgspec.Struct, frozen=True):
    """A measurement of a node, in percent of its capacity. `operator`: AVG, STD, Latest or none."""

    type: str = ""
    operator: str = ""
    value: float | None = None

    @property
    def is_number(self) -> bool:
        """Whether it has a value, and a finite one."""
        return self.value is not None and math.isfinite(self.value)


class NodeLoad(msgspec.Struct, array_like=True, frozen=True):
    """The load of a node in percent; None for what isn't measured. A source knows the node, even if all are None.

    `cpu`: the average or latest load of its CPUs. The others are as GetResourceData of upstream reads them, which also
    takes metrics without an operator, and 0 as the average where there is only a deviation. `valid`: whether all values
    are numbers; if not, only `cpu` may be known.
    """

    cpu: float | None = None
    cpu_average: float | None = None
    cpu_deviation: float = 0.0
    memory_average: float | None = None
    memory_deviation: float = 0.0
    valid: bool = True

    @classmethod
    def of(cls, metrics: Iterable[Metric]) -> NodeLoad:
        """Read the metrics of a node."""
        metrics = [metric for metric in metrics if metric.type in _QUERIES]
        latest = [metric for metric in metrics if metric.type == "CPU" and metric.operator in {"AVG", "Latest"}]
        cpu = latest[-1].value if latest and latest[-1].is_number else None
        if not all(metric.is_number for metric in metrics):
            return cls(cpu, valid=False)
        return cls(cpu, *_data(metrics, "CPU"), *_data(metrics, "Memory"))


class LoadReport(msgspec.Struct, frozen=True):
    """The loads of all nodes. `end`: seconds since the epoch, when the measurements ended.

    `invalid`: how many nodes have values that are no numbers, and one of them.
    """

    end: int
    nodes: dict[str, NodeLoad]
    invalid: tuple[int, str] = (0, "")

    @classmethod
    def of(cls, end: int, nodes: Mapping[str, list[Metric]]) -> LoadReport:
        """Read the metrics of nodes."""
        loads = {name: NodeLoad.of(metrics) for name, metrics in nodes.items()}
        invalid = [name for name, load in loads.items() if not load.valid]
        for name in invalid:
            if loads[name].cpu is None:
                del loads[name]
        return cls(end, loads, (len(invalid), invalid[0] if invalid else ""))

    @property
    def content(self) -> dict[str, object]:
        """The report as an object of a feed."""
        return {"end": self.end, "nodes": {name: msgspec.to_builtins(load) for name, load in self.nodes.items()}}


class LoadContext(Protocol):
    """What a source is asked with: a handle has it."""

    @property
    def client(self) -> Any:
        """A client for the API server; None if there is none."""

    def objects(self, kind: str) -> Any:
        """Return the objects of a kind by name: of nodes."""

    def now(self) -> datetime:
        """Return the time."""


class LoadSource:
    """A source of loads, as the arguments of a plugin name it. `name`: for messages; `key`: for objects."""

    def __init__(self, args: TrimaranArgs, handle: LoadContext, number: int = 1) -> None:
        """`number`: of the sources that a configuration has."""
        self._handle = handle
        self._provider = args.metricProvider
        self._watcher = args.watcherAddress.rstrip("/")
        address = self._watcher
        if not address and args.provider == PROMETHEUS:
            address = (args.metricProvider.address or _ADDRESS).rstrip("/")
        kind = "load-watcher" if self._watcher else args.provider
        self._address = address
        self.name = f"{kind} at {address}" if address else kind
        self.key = kind.lower() if number == 1 else f"{kind.lower()}-{number}"
        self._ask = (
            self._ask_watcher if self._watcher else self._ask_prometheus if address else self._ask_metrics_server
        )

    @property
    def reads_nodes(self) -> bool:
        """Whether it needs the capacity of the nodes."""
        return not self._address

    def age_of(self, report: LoadReport) -> str:
        """Say how old a report is."""
        return f"its measurements ended {self._now() - report.end} s ago"

    async def report(self) -> LoadReport:
        """Ask for the loads. Raises SourceError."""
        try:
            return await self._ask()
        except (aiohttp.ClientError, OSError) as error:
            if isinstance(error, TimeoutError):
                raise SourceError(f"no answer within {TIMEOUT:.0f} s") from error
            raise SourceError(str(error) or type(error).__name__) from error
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
            raise SourceError(f"an answer that is malformed: {error}") from error

    async def _ask_watcher(self) -> LoadReport:
        found = await self._get(f"{self._watcher}/watcher", _Watcher)
        nodes = {name: node.metrics for name, node in (found.data.NodeMetricsMap or {}).items() if node.metrics}
        return LoadReport.of(found.window.end or found.timestamp, nodes)

    async def _ask_prometheus(self) -> LoadReport:
        nodes: dict[str, list[Metric]] = {}
        for operator, function in _FUNCTIONS.items():
            for resource, metric in _QUERIES.items():
                query = f"{function}({metric}[{WINDOW // 60}m])"
                found = await self._get(f"{self._address}/api/v1/query", _Answer, {"query": query})
                if found.status != "success":
                    raise SourceError(found.error or f"the status {found.status!r} of a query")
                for sample in found.data.result:
                    value = 100 * float(sample.value[1])
                    nodes.setdefault(sample.metric.instance, []).append(Metric(resource, operator, value))
        return LoadReport.of(self._now(), nodes)

    async def _ask_metrics_server(self) -> LoadReport:
        client = self._handle.client
        if client is None:
            raise SourceError("there is no connection to a cluster")
        try:
            page = await client.list(kind_of(_NODE_METRICS))
        except Exception as error:
            raise SourceError(str(error)) from error
        known = self._handle.objects("Node")
        nodes = {name: list(_usage(item, known[name])) for item in page.items if (name := item.metadata.name) in known}
        return LoadReport.of(self._now(), nodes)

    def _now(self) -> int:
        return int(self._handle.now().timestamp())

    async def _get(self, url: str, of: type[T], params: dict[str, str] | None = None) -> T:
        """Read a JSON document. Raises the errors of aiohttp and msgspec, and SourceError."""
        provider = self._provider
        headers = {"Authorization": f"Bearer {provider.token}"} if provider.token and not self._watcher else {}
        verify = self._watcher or provider.insecureSkipVerify is False
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT), trust_env=True) as session,
            session.get(url, params=params, headers=headers, ssl=bool(verify)) as reply,
        ):
            if reply.status >= 400:
                raise SourceError(f"HTTP status {reply.status} {reply.reason}")
            if (reply.content_length or 0) > MOST_BYTES:
                raise SourceError(f"an answer of more than {MOST_BYTES >> 20} MiB")
            body = bytearray()
            async for chunk in reply.content.iter_any():
                body += chunk
                if len(body) > MOST_BYTES:
                    raise SourceError(f"an answer of more than {MOST_BYTES >> 20} MiB")
        return msgspec.json.decode(bytes(body), type=of)


@dataclass(slots=True)
class _Question:
    """What a source is asked with where no scheduler runs."""

    client: Any
    time: datetime
    nodes: dict[str, Node] = field(default_factory=dict)

    def objects(self, kind: str) -> dict[str, Node]:
        """The nodes."""
        return self.nodes

    def now(self) -> datetime:
        """The time of the question."""
        return self.time


async def present_loads(
    args: TrimaranArgs, client: Any, now: datetime, *, number: int = 1
) -> tuple[str, Mapping[str, object]]:
    """Ask a source once, for a feed. `number`: as of LoadSource. Raises FeedError."""
    question = _Question(client, now)
    source = LoadSource(args, question, number)
    try:
        if source.reads_nodes:
            question.nodes = {node.metadata.name: node for node in (await client.list(kind_of("Node"))).items}
        report = await source.report()
    except (SourceError, ApiError, TransportError) as error:
        raise FeedError(f"{source.name} reports no loads of nodes: {error}") from error
    if now.timestamp() - report.end > OLD:
        raise FeedError(f"{source.name} reports no loads of nodes: {source.age_of(report)}")
    return source.key, report.content


def _data(metrics: Iterable[Metric], resource: str) -> tuple[float | None, float]:
    """The average and the deviation of a resource's load. Mirrors GetResourceData (pkg/trimaran/resourcestats.go)."""
    average: float | None = None
    deviation, from_average = 0.0, False
    for metric in metrics:
        if metric.type != resource:
            continue
        value = metric.value or 0.0
        if metric.operator == "AVG":
            average, from_average = value, True
        elif metric.operator == "STD":
            deviation = value
        elif metric.operator in {"", "Latest"} and not from_average:
            average = value
        average = average or 0.0
    return average, deviation


def _usage(item: Any, node: Node) -> Iterable[Metric]:
    """Yield what a node uses, in percent of its capacity. One odd object costs itself only."""
    try:
        used = amounts_of(item.get("usage") or {})
        capacity = amounts_of((node.status.capacity if node.status else None) or {})
    except (InvalidQuantity, AttributeError):
        yield Metric("CPU", "Latest", math.nan)
        return
    for resource, name in (("CPU", "cpu"), ("Memory", "memory")):
        whole = capacity.get(name, 0)
        yield Metric(resource, "Latest", 100 * used.get(name, 0) / whole if whole else math.nan)


class _Window(msgspec.Struct):
    end: int = 0


class _WatchedNode(msgspec.Struct):
    metrics: list[Metric] | None = None


class _WatchedData(msgspec.Struct):
    NodeMetricsMap: dict[str, _WatchedNode] | None = None


class _Watcher(msgspec.Struct):
    """The answer of a load-watcher."""

    timestamp: int = 0
    window: _Window = msgspec.field(default_factory=_Window)
    data: _WatchedData = msgspec.field(default_factory=_WatchedData)


class _Labels(msgspec.Struct):
    instance: str = ""


class _Sample(msgspec.Struct):
    metric: _Labels
    value: tuple[float, str]


class _Vector(msgspec.Struct):
    result: list[_Sample] = []


class _Answer(msgspec.Struct):
    """The answer of Prometheus to a query."""

    status: str = ""
    error: str = ""
    data: _Vector = msgspec.field(default_factory=_Vector)
