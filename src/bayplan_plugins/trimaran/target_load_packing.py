"""TargetLoadPacking: packs nodes until their CPUs are loaded as wished, and spreads pods beyond that.

Mirrors pkg/trimaran/targetloadpacking/targetloadpacking.go of scheduler-plugins.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping

import msgspec
import numpy as np

from bayplan.plugin import (
    MAX_NODE_SCORE,
    CycleState,
    FieldError,
    Handle,
    InvalidQuantity,
    NodeColumn,
    NodeInfo,
    Nodes,
    Plugin,
    PodInfo,
    amounts_of,
    field_errors,
)
from bayplan_plugins.go_arithmetic import Scores, rounded
from bayplan_plugins.trimaran.arguments import TrimaranArgs
from bayplan_plugins.trimaran.capacity import cpu_capacity
from bayplan_plugins.trimaran.loads import PERMISSIONS, shared_loads
from bayplan_plugins.trimaran.requests import overhead_of

_REPORTING_SECONDS = 60
"""A pod that started shorter before the end of the measurements isn't in them."""


class TargetLoadPackingArgs(TrimaranArgs, kw_only=True):
    """Arguments of TargetLoadPacking. `targetUtilization`: in percent."""

    defaultRequests: dict[str, str | int | float] = msgspec.field(default_factory=lambda: {"cpu": "1000m"})
    defaultRequestsMultiplier: str = "1.5"
    targetUtilization: int = 40

    def __post_init__(self) -> None:
        self.targetUtilization = 40 if self.targetUtilization <= 0 else self.targetUtilization

    def faults(self) -> Iterator[FieldError]:
        """Yield the validation errors."""
        yield from super().faults()
        text = self.defaultRequestsMultiplier
        try:
            valid = math.isfinite(float(text))
        except ValueError:
            valid = False
        if not valid:
            problem = f'unable to parse DefaultRequestsMultiplier: strconv.ParseFloat: parsing "{text}": invalid syntax'
            yield field_errors.invalid("defaultRequestsMultiplier", text, problem)
        try:
            amounts_of(self.defaultRequests)
        except InvalidQuantity as error:
            yield field_errors.invalid("defaultRequests", self.defaultRequests, str(error))
        if self.targetUtilization > 100:
            yield field_errors.invalid("targetUtilization", self.targetUtilization, "must be a percentage up to 100")


class TargetLoadPacking(Plugin):
    """Scores a node the higher, the nearer its load comes to the target; beyond it, the lower."""

    name = "TargetLoadPacking"
    arguments = TargetLoadPackingArgs
    permissions = PERMISSIONS

    def __init__(self, args: TargetLoadPackingArgs, handle: Handle) -> None:
        self._target = args.targetUtilization
        self._multiplier = float(args.defaultRequestsMultiplier)
        self._default = amounts_of(args.defaultRequests).get("cpu", 0)
        self._loads = shared_loads(args, handle)
        self._capacity = NodeColumn(cpu_capacity, np.int64, reads_pods=False)
        self._unmeasured = NodeColumn(self._unmeasured_usage, np.int64)
        self._end = 0
        """When the measurements ended that these pods are not in."""
        self._key = (__name__, self._multiplier, self._default)

    def sign(self, pod: PodInfo) -> Hashable:
        """Return what the pod will use, as it is predicted."""
        return self._usage(pod)

    def rests_on(self, pod: PodInfo, nodes: Nodes) -> Hashable:
        """Return the version of the loads."""
        return self._loads.version

    def score_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        """Score nodes by the load that they would have with the pod. A node without a load gets 0."""
        load, capacity = self._loads.column("cpu", nodes), self._capacity.of(nodes)
        if self._loads.end != self._end:
            self._measured(self._end, self._loads.end)
        used = load / 100 * capacity + self._usage(pod) + self._unmeasured.of(nodes)
        predicted = np.where(capacity != 0, 100 * used / np.maximum(capacity, 1), 0)
        target = float(self._target)
        packed = (100 - target) * predicted / target + target
        if target < 100:
            packed = np.where(predicted > target, target * (100 - predicted) / (100 - target), packed)
        scores = np.clip(rounded(np.nan_to_num(packed)), 0, MAX_NODE_SCORE)
        return np.where(np.isnan(load) | (predicted > 100), 0, scores)

    def score(self, cycle: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Score one node: as `score_nodes`."""
        load, capacity, target = self._loads.at(node), self._capacity.at(node), self._target
        if self._loads.end != self._end:
            self._measured(self._end, self._loads.end)
        if load is None or load.cpu is None:
            return 0
        used = load.cpu / 100 * capacity + self._usage(pod) + self._unmeasured.at(node)
        predicted = 100 * used / capacity if capacity else 0.0
        if predicted > 100:
            return 0
        if predicted > target:
            packed = target * (100 - predicted) / (100 - target)
        else:
            packed = (100 - target) * predicted / target + target
        return min(max(math.floor(packed + 0.5), 0), MAX_NODE_SCORE)

    async def background(self) -> None:
        """Keep the loads up to date."""
        await self._loads.run()

    def _measured(self, before: int, end: int) -> None:
        """Count what was not in the former measurements again: it may be in the new ones."""
        self._end = end
        self._unmeasured.again((lambda usage: usage > 0) if end >= before else None)

    def _unmeasured_usage(self, node: NodeInfo) -> int:
        """The usage of the node's pods that are too new for the measurements, or have not started at all."""
        measured = self._end - _REPORTING_SECONDS
        return sum(self._usage(pod) for pod in node.pods if pod.started > measured)

    def _usage(self, pod: PodInfo) -> int:
        """Predict how many millicores a pod will use."""
        return pod.of_spec(self._key, self._predicted)

    def _predicted(self, pod: PodInfo) -> int:
        usage = overhead_of(pod).get("cpu", 0)
        for container in pod.spec.containers or ():
            resources = container.resources
            limits: Mapping[str, str] = (resources.limits if resources else None) or {}
            requests: Mapping[str, str] = (resources.requests if resources else None) or {}
            if "cpu" in limits:
                usage += amounts_of({"cpu": limits["cpu"]}).get("cpu", 0)
            elif "cpu" in requests:
                requested = amounts_of({"cpu": requests["cpu"]}).get("cpu", 0)
                usage += int(math.copysign(math.floor(abs(requested * self._multiplier) + 0.5), self._multiplier))
            else:
                usage += self._default
        return usage
