"""Interruptions: nodes that the provider takes back, and nodes that fail.

Spot interruptions are drawn from the timeline's random numbers, so that a seed repeats them. Failures have given times.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from bayplan.answers.simulation.lives import DepartureReason
from bayplan.answers.simulation.models.autoscaler.trials import cordoned
from bayplan.answers.simulation.timeline import Timeline, TimelineObserver
from bayplan.core.api.kinds import NODE


class SpotInterruptions(TimelineObserver):
    """Takes nodes with a label back, each `per_hour` times an hour on average, `notice` seconds after it was said.

    The pods of such a node are evicted when the notice comes, without regard to budgets.
    """

    def __init__(self, label: str, value: str, per_hour: float, notice: float = 120.0) -> None:
        self._label = label
        self._value = value
        self._per_second = per_hour / 3600
        self._notice = notice
        self._timeline: Timeline | None = None
        self._rng = random.Random(0)

    def begin(self, timeline: Timeline) -> None:
        """Draw how long each node lasts."""
        self._timeline = timeline
        self._rng = timeline.random("spot interruptions")
        for name in list(timeline.world.state.objects[NODE]):
            self.node_added(name)

    def node_added(self, name: str) -> None:
        """Draw how long a node lasts."""
        if self._timeline is None or self._per_second <= 0:
            return
        node = self._timeline.world.state.objects[NODE][name]
        if (node.metadata.labels or {}).get(self._label) == self._value:
            lasts = round(-math.log(1.0 - self._rng.random()) / self._per_second, 3)
            self._timeline.after(lasts, self._announce, name, node.metadata.uid)

    def _announce(self, name: str, uid: str) -> None:
        assert self._timeline is not None
        node = self._timeline.world.state.objects[NODE].get(name)
        if node is None or node.metadata.uid != uid:
            return
        self._timeline.put(NODE, name, cordoned(node))
        position = self._timeline.world.state.nodes.position(name)
        assert position is not None
        for pod in self._timeline.world.state.nodes.pods(position):
            self._timeline.evict(pod, DepartureReason.INTERRUPTED)
        self._timeline.after(self._notice, self._take, name, uid)

    def _take(self, name: str, uid: str) -> None:
        assert self._timeline is not None
        node = self._timeline.world.state.objects[NODE].get(name)
        if node is not None and node.metadata.uid == uid:
            self._timeline.remove_node(name, DepartureReason.INTERRUPTED)


@dataclass(frozen=True, slots=True)
class NodeFailure:
    """A node fails `at` some seconds after the start: it and its pods are gone. `returns`: seconds until it is back."""

    node: str
    at: float
    returns: float | None = None


class NodeFailures(TimelineObserver):
    """Lets nodes fail at given times. Nodes that don't exist then are ignored."""

    def __init__(self, failures: Sequence[NodeFailure]) -> None:
        self._failures = failures
        self._timeline: Timeline | None = None

    def begin(self, timeline: Timeline) -> None:
        """Put the failures on the agenda."""
        self._timeline = timeline
        for failure in self._failures:
            timeline.after(failure.at, self._fail, failure)

    def _fail(self, failure: NodeFailure) -> None:
        assert self._timeline is not None
        node = self._timeline.world.state.objects[NODE].get(failure.node)
        if node is not None:
            self._timeline.remove_node(failure.node, DepartureReason.NODE_LOST)
            if failure.returns is not None:
                self._timeline.after(failure.returns, self._timeline.put, NODE, failure.node, node)
