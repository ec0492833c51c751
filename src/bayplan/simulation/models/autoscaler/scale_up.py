"""Scale-up: which group grows for the pods that wait, found by placing them on new nodes."""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.remedies import is_daemon
from bayplan.simulation.models.autoscaler.fleet import Fleet
from bayplan.simulation.models.autoscaler.trials import Growth, Trials
from bayplan.simulation.timeline import Timeline


class ScaleUp:
    """Adds nodes until every waiting pod that a group can help has one that is coming.

    The group with the lowest price for its pods grows first; where a price is unknown, the one with the least waste.
    """

    def __init__(self, timeline: Timeline, fleet: Fleet) -> None:
        self._timeline = timeline
        self._fleet = fleet
        self._tried: object = None
        """What the last trial that added nothing depended on."""

    def scan(self) -> None:
        """Look for pods that wait."""
        timeline, fleet, world = self._timeline, self._fleet, self._timeline.world
        if not timeline.any_waiting:
            return
        now = world.version, len(fleet.coming)
        pods = [pod for pod in timeline.waiting() if not is_daemon(pod)]
        if not pods or self._tried == now:
            return
        order = {pod.uid: index for index, pod in enumerate(pods)}
        pods.sort(key=lambda pod: (-pod.priority, order[pod.uid]))
        grown = False
        trials = Trials(world)
        with world.unfollowed():
            for group in fleet.coming.values():
                trials.add(group)
            left = trials.place(pods) if fleet.coming else pods
            while left and (growth := self._best(trials, left)) is not None:
                fleet.add(growth.group, growth.nodes)
                grown = True
                for _ in range(growth.nodes):
                    trials.add(growth.group)
                left = trials.place(left)
        self._tried = None if grown else (world.version, len(fleet.coming))

    def _best(self, trials: Trials, pods: Sequence[PodInfo]) -> Growth | None:
        fleet = self._fleet
        found = [
            growth
            for group in fleet.groups
            if (most := group.maximum - fleet.size(group)) > 0
            and (growth := trials.growth(group, pods, most)) is not None
        ]
        return min(found, key=self._cost, default=None)

    def _cost(self, growth: Growth) -> tuple[float, float, int, str]:
        group, prices = growth.group, [each.price for each in self._fleet.groups]
        known = all(price is not None for price in prices)
        price = (group.price or 0.0) * growth.nodes / len(growth.pods) if known else 0.0
        return price, round(growth.waste, 6), self._fleet.size(group), group.name
