"""Autoscaler: lets the number of nodes follow what pods need, as cluster-autoscaler or Karpenter do.

It follows a timeline, and scans at intervals: `scale_up.py` adds nodes of groups for pods that wait, `scale_down.py`
removes those that can go. Whether a pod fits is asked of the real filters (`trials.py`). docs/compare.md says what the
rules leave out of the real ones.
"""

from __future__ import annotations

from collections.abc import Iterable

from bayplan.answers.simulation.models.autoscaler.fleet import Fleet
from bayplan.answers.simulation.models.autoscaler.groups import ScaledGroup
from bayplan.answers.simulation.models.autoscaler.rules import Rules
from bayplan.answers.simulation.models.autoscaler.scale_down import ScaleDown
from bayplan.answers.simulation.models.autoscaler.scale_up import ScaleUpRule
from bayplan.answers.simulation.models.budgets import BudgetController
from bayplan.answers.simulation.timeline import Timeline, TimelineObserver
from bayplan.core.api.kinds import NODE


class Autoscaler(TimelineObserver):
    """Adds nodes of groups for pods that wait, and removes those that can go. `budgets`: those of the timeline."""

    def __init__(self, groups: Iterable[ScaledGroup], rules: Rules, budgets: BudgetController) -> None:
        self._groups = list(groups)
        self._rules = rules
        self._budgets = budgets
        self._timeline: Timeline | None = None
        self._fleet: Fleet | None = None
        self._down: ScaleDown | None = None

    def begin(self, timeline: Timeline) -> None:
        """Take over the nodes of the groups."""
        self._timeline = timeline
        self._fleet = fleet = Fleet(timeline, self._groups)
        self._down = down = ScaleDown(timeline, fleet, self._rules, self._budgets)
        up = ScaleUpRule(timeline, fleet, self._rules)
        timeline.every(self._rules.scan, up.scan, up.idle_until)
        timeline.every(self._rules.scan_idle, down.scan, down.idle_until)
        for group in self._groups:
            fleet.add(group, max(group.minimum - fleet.size(group), 0))

    def node_added(self, name: str) -> None:
        """Take over a node that has come otherwise."""
        if self._timeline is not None and self._fleet is not None:
            self._fleet.adopt(name, self._timeline.world.state.objects[NODE][name])

    def node_removed(self, name: str) -> None:
        """Forget a node."""
        if self._fleet is not None and self._down is not None:
            self._fleet.forget(name)
            self._down.forget(name)
