"""Peaks: prefers nodes whose power grows least by the pod, as their power models tell.

Mirrors pkg/trimaran/peaks/peaks.go of scheduler-plugins.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator
from pathlib import Path

import msgspec
import numpy as np

from bayplan.plugin import (
    MAX_NODE_SCORE,
    CycleState,
    FieldError,
    Handle,
    NodeColumn,
    Nodes,
    Plugin,
    PodInfo,
    field_errors,
)
from bayplan_plugins.go_arithmetic import Scores
from bayplan_plugins.trimaran.arguments import TrimaranArgs
from bayplan_plugins.trimaran.capacity import cpu_capacity
from bayplan_plugins.trimaran.loads import PERMISSIONS, shared_loads
from bayplan_plugins.trimaran.requests import overhead_of

_FILE = "NODE_POWER_MODEL"
"""The environment variable that names a file with the power models."""
_MOST_BYTES = 64 * 2**20
_SCALE = 10.0**15
_LARGEST = 2.0**63 - 1024
"""The largest float that an int64 can hold."""


class PowerModel(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The watts of a node at a load of x percent: k0 + k1 * e ** (k2 * x)."""

    k0: float = 0.0
    k1: float = 0.0
    k2: float = 0.0


_UNKNOWN = PowerModel()


class PeaksArgs(TrimaranArgs, kw_only=True):
    """Arguments of Peaks. Upstream writes the names of these fields with capitals; both forms are read."""

    WatcherAddress: str = ""
    NodePowerModel: dict[str, PowerModel] = msgspec.field(default_factory=dict)
    nodePowerModel: dict[str, PowerModel] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        self.watcherAddress = self.watcherAddress or self.WatcherAddress

    def faults(self) -> Iterator[FieldError]:
        """Yield the validation errors."""
        yield from super().faults()
        try:
            self.models()
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            yield field_errors.required("nodePowerModel", f"the power models, or a file of them in {_FILE}: {error}")

    def models(self) -> dict[str, PowerModel]:
        """Return the power models by node. Raises OSError, ValueError or MsgspecError if their file can't be read."""
        given = {**self.NodePowerModel, **self.nodePowerModel}
        if given:
            return given
        path = os.environ.get(_FILE, "")
        if not path:
            raise ValueError(f"{_FILE} is not set")
        with Path(path).open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise ValueError(f"{path} has more than {_MOST_BYTES >> 20} MiB")
        return msgspec.json.decode(content, type=dict[str, PowerModel])


class Peaks(Plugin):
    """Scores a node by how much its power would grow. A node without a model grows by nothing."""

    name = "Peaks"
    arguments = PeaksArgs
    permissions = PERMISSIONS
    reads_pods = False

    def __init__(self, args: PeaksArgs, handle: Handle) -> None:
        self._models = args.models()
        self._loads = shared_loads(args, handle)
        self._capacity = NodeColumn(cpu_capacity, np.int64, reads_pods=False)
        self._k1 = NodeColumn(lambda node: self._models.get(node.name, _UNKNOWN).k1, np.float64, reads_pods=False)
        self._k2 = NodeColumn(lambda node: self._models.get(node.name, _UNKNOWN).k2, np.float64, reads_pods=False)

    def sign(self, pod: PodInfo) -> Hashable:
        """Return the millicores that the pod requests."""
        return _requested(pod)

    def rests_on(self, pod: PodInfo, nodes: Nodes) -> Hashable:
        """Return the version of the loads."""
        return self._loads.version

    def score_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        """Return how much the power of nodes grows, in 10**-15 W; 0 for those without a load, and for overfull ones."""
        load, capacity = self._loads.column("cpu", nodes), self._capacity.of(nodes)
        k1, k2 = self._k1.of(nodes), self._k2.of(nodes)
        used = load / 100 * capacity + _requested(pod)
        predicted = np.where(capacity != 0, 100 * used / np.maximum(capacity, 1), 0)
        with np.errstate(over="ignore", invalid="ignore"):
            growth = k1 * (np.exp(k2 * predicted) - np.exp(k2 * load)) * _SCALE
        growth = np.where(np.isnan(load) | (predicted > 100), 0.0, growth)
        found: Scores = np.clip(np.nan_to_num(growth), -_LARGEST, _LARGEST).astype(np.int64)
        return found

    def normalize_scores(self, cycle: CycleState, pod: PodInfo, scores: Scores, nodes: Nodes) -> Scores:
        """Turn the scores around: the lowest becomes 100."""
        if not scores.any():
            return scores
        above = scores.view(np.uint64) - scores.min().view(np.uint64)  # may be more than an int64 can hold
        span = above.max()
        if not span:
            return np.full_like(scores, MAX_NODE_SCORE)
        share = float(MAX_NODE_SCORE) * above.astype(np.float64) / float(span)
        turned: Scores = MAX_NODE_SCORE - np.trunc(share).astype(np.int64)
        return turned

    async def background(self) -> None:
        """Keep the loads up to date."""
        await self._loads.run()


def _requested(pod: PodInfo) -> int:
    """The millicores that a pod requests; its overhead counts only if its containers request some."""
    requested = pod.requested.get("cpu", 0)
    return 0 if requested == overhead_of(pod).get("cpu", 0) else requested
