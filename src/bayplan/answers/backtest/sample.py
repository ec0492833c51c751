"""The sample history: a week of a small shop, for those who have no history yet.

Its arrivals are made up from the snapshot of `history/sample.py`, and a simulated default scheduler has placed them on
nodes that follow the rules of cluster-autoscaler: the history has its decisions, as a recording has those of a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID, uuid5

import msgspec

from bayplan.answers.backtest.lookahead import Lookahead
from bayplan.answers.backtest.running import CLUSTER_AUTOSCALER, FleetChoice, SimulationRun, simulate
from bayplan.answers.history import format as columns
from bayplan.answers.history.following import Following, HistoryChange, key_of
from bayplan.answers.history.format import HistoryDocument, HistoryManifest
from bayplan.answers.history.reading import History
from bayplan.answers.history.sample import generated, sample_snapshot
from bayplan.answers.history.sources.arrivals import at_begin
from bayplan.answers.history.sources.synthesis import Synthesis, synthesize
from bayplan.answers.history.writing import write_history
from bayplan.answers.simulation.lives import DepartureReason, PodLifetime
from bayplan.answers.simulation.timeline import Timeline, TimelineObserver
from bayplan.core.api.kinds import NODE, POD
from bayplan.core.api.objects import encode
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.scheduling import Plan

_UIDS = UUID("0d3c7c5e-6f0e-5d57-8f3c-2f2b5a9a4e11")
_REASONS = {
    DepartureReason.COMPLETED: "Succeeded",
    DepartureReason.DELETED: "Deleted",
    DepartureReason.PREEMPTED: "PreemptionByScheduler",
    DepartureReason.DRAINED: "EvictionByEvictionAPI",
}
_NOTE = "arrivals are made up, and a simulated scheduler has placed them: they are no measurements"


def write_sample(folder: Path, *, days: float = 7.0) -> HistoryManifest:
    """Write the sample history to a folder that is new or empty. It is the same each time. Raises HistoryError."""
    with TemporaryDirectory() as made_up:
        synthesize(sample_snapshot(), Path(made_up), Synthesis(days=days, rollout_days=3.0))
        arrivals = History.open(made_up)
        placed = _Placed(arrivals)
        run = SimulationRun(fleet=FleetChoice(CLUSTER_AUTOSCALER))
        simulate(arrivals, Lookahead(arrivals, run.prices.of), run, also=(placed,))
        workloads = list(_workloads(arrivals))
    return write_history(
        folder,
        [*placed.changes, *workloads],
        source="the sample cluster",
        begin=arrivals.begin,
        end=arrivals.end,
        synthetic=True,
        notes=[_NOTE],
    )


def _workloads(arrivals: History) -> Iterator[HistoryChange]:
    """How the workloads were scaled, which the simulation doesn't follow."""
    for row, documents in arrivals.rows_with_documents(initial=False):
        if row.event == columns.OBJECT_CHANGED:
            yield HistoryChange(row, HistoryDocument(row.document, documents[row.document]))


class _Placed(TimelineObserver):
    """Turns what happens in a simulation into a history."""

    def __init__(self, arrivals: History) -> None:
        self._following = Following()
        self.changes: list[HistoryChange] = list(at_begin(arrivals.start(), self._following, arrivals.begin))
        self._begin = arrivals.begin
        self._timeline: Timeline | None = None
        self._keys: dict[str, str] = {}
        """uid of a pod in the simulation -> its key in the history"""
        self._nodes: dict[str, Any] = {}

    def begin(self, timeline: Timeline) -> None:
        """What happens counts from now on."""
        self._timeline = timeline

    def arrived(self, pod: PodInfo, life: PodLifetime) -> None:
        """A pod was created."""
        if self._timeline is not None:
            self._put_pod(pod, "")

    def bound(self, pod: PodInfo, life: PodLifetime) -> None:
        """A pod has got its node."""
        if self._timeline is not None:
            self._put_pod(pod, life.node)

    def gone(self, pod: PodInfo, life: PodLifetime) -> None:
        """A pod is gone."""
        assert life.leaving is not None
        key = self._keys.pop(pod.uid, pod.key)
        self.changes += self._following.removed(POD, key, self._now, _REASONS[life.leaving])

    def attempted(self, plan: Plan) -> None:
        """A unit was attempted: its plan rests on the nodes as they are now. Some are being drained."""
        self._put_nodes()

    def node_added(self, name: str) -> None:
        """A node was added."""
        self._put_nodes()

    def node_removed(self, name: str) -> None:
        """A node was removed."""
        self._nodes.pop(name, None)
        self.changes += self._following.removed(NODE, name, self._now)

    @property
    def _now(self) -> Any:
        assert self._timeline is not None
        return self._begin + timedelta(microseconds=round(self._timeline.now * 1e6))

    def _put_nodes(self) -> None:
        if self._timeline is None:
            return
        for name, node in self._timeline.world.state.objects[NODE].items():
            if self._nodes.get(name) is not node:
                self._nodes[name] = node
                document: dict[str, Any] = msgspec.json.decode(encode(node))
                self.changes += self._following.put(NODE, document, self._now)

    def _put_pod(self, pod: PodInfo, node: str) -> None:
        document: dict[str, Any] = msgspec.json.decode(pod.raw)
        metadata = document["metadata"]
        owner = next((each for each in metadata.get("ownerReferences") or () if each.get("controller")), None)
        if owner is not None and owner["kind"] != "StatefulSet":
            metadata["name"] = generated(owner["name"], pod.uid)
        metadata["uid"] = str(uuid5(_UIDS, pod.uid))
        if node:
            document["spec"]["nodeName"] = node
        self._keys[pod.uid] = key_of(document)
        self.changes += self._following.put(POD, document, self._now)
