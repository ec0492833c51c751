"""All that keeps a pod from nodes: every plugin is asked about every node, although the first rejection decides.

A blocker is one plugin's rejection of a node. The plugin tells details and remedies
(`bayplan.core.framework.remedies`), as it alone knows what it reads. Nodes that are blocked alike are one group.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayplan.answers.insight.json_values import fields_of
from bayplan.answers.simulation.world import World
from bayplan.core.cluster.nodes import NodeInfo, Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.calling import call
from bayplan.core.framework.interface import CycleState, Explain
from bayplan.core.framework.profile import Point, Profile, implements
from bayplan.core.framework.remedies import Details, Remedy
from bayplan.core.framework.runner import run_filter, run_pre_filter, status_of
from bayplan.core.framework.status import Code, PluginError, Status
from bayplan.core.framework.verdicts import Verdicts
from bayplan.core.framework.what_if import filter_nominated

LOOKED_AT = 5000
"""The most nodes to ask plugins about, one by one."""
_POINTS = (Point.PRE_FILTER, Point.FILTER)


@dataclass(frozen=True, slots=True)
class Blocker:
    """Why one plugin rejects a node.

    `reasons`: as in the event. `text`: the reasons with details, such as "Insufficient cpu: lacks 200m". `details`:
    what the plugin says of the rejection.
    """

    plugin: str
    reasons: tuple[str, ...]
    text: str
    details: Details = field(default_factory=Details, compare=False, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the rejection as in docs/insight.md."""
        return fields_of(self, "details")

    @property
    def kind(self) -> Hashable:
        """What this rejection has in common with those that the same remedies would lift."""
        return self.plugin, self.reasons, self.text if self.details.kind is None else self.details.kind

    @classmethod
    def of(cls, plugin: Any, status: Status, cycle: CycleState, pod: PodInfo, node: NodeInfo | None) -> Blocker:
        """Ask a plugin about a rejection of its own. If it fails, the reasons must do."""
        details = None
        if implements(plugin, Explain) and status.code is not Code.ERROR:
            try:
                details = call(plugin, "Explain", plugin.explain, cycle, pod, node)
            except PluginError as error:
                details = Details(f"{', '.join(status.reasons)} ({error})")
        if not isinstance(details, Details):
            details = Details()
        try:
            hash((details.kind, details.cause))
        except TypeError:
            details = Details(details.text, details.remedies)
        details = replace(details, remedies=Remedies(details.remedies))
        return cls(plugin.name, status.reasons, details.text or ", ".join(status.reasons), details)

    def remedies(self) -> Iterator[Remedy]:
        """Yield what would lift the rejection. A plugin that fails has no more remedies."""
        return iter(self.details.remedies)


class Remedies(Iterable[Remedy]):
    """What a plugin yields as remedies, asked for when it is needed, and once."""

    def __init__(self, given: Iterable[Remedy]) -> None:
        self._given = given
        self._found: list[Remedy] = []
        self._left: Iterator[Remedy] | None = None

    def __iter__(self) -> Iterator[Remedy]:
        """Yield them. A plugin that fails has no more remedies."""
        for number in itertools.count():
            if number == len(self._found):
                try:
                    self._left = iter(self._given) if self._left is None else self._left
                    self._found.append(next(self._left))
                except Exception:  # noqa: BLE001 - a plugin's own code, or there are no more
                    self._left = iter(())
                    return
            yield self._found[number]


@dataclass(frozen=True, slots=True)
class AlikeNodes:
    """Nodes that are blocked alike, those that lack the least first.

    `blockers`: those of the first node.
    """

    blockers: tuple[Blocker, ...]
    positions: tuple[int, ...]


class Blockers:
    """The rejections of a pod by all plugins, each asked alone when this is first used."""

    def __init__(self, world: World, pod: PodInfo) -> None:
        self._pod = pod
        self._asked: tuple[int, list[_Rejection]] | None = None
        """How many rows the table had when the plugins were asked, and what they said."""
        self._known: dict[int, list[Blocker]] = {}
        """By position: plugins may take long to say why."""
        self._world = world

    @property
    def nodes(self) -> Nodes:
        """The nodes of the world."""
        return self._world.state.nodes

    @property
    def _rejections(self) -> list[_Rejection]:
        """What the plugins say. They are asked again once the table has more or fewer rows, as after some what-ifs."""
        rows = len(self.nodes)
        if self._asked is None or self._asked[0] != rows:
            found = _rejections(self._world, self._pod)
            self._asked = rows, [rejection for rejection in found if (rejection.verdicts.codes != 0).any()]
            self._known.clear()
        return self._asked[1]

    def of(self, position: int) -> list[Blocker]:
        """Return what blocks a node, each cause once; empty if the node is feasible."""
        known = self._known.get(position)
        if known is None:
            known = self._known[position] = self._of(position)
        return known

    def _of(self, position: int) -> list[Blocker]:
        node, found = self.nodes.info(position), dict[Hashable, Blocker]()
        for each in self._rejections:
            if each.verdicts.codes[position]:
                blocker = each.blocker(node, position)
                cause = blocker.details.cause
                found.setdefault(each.plugin.name if cause is None else ("cause", cause), blocker)
        return list(found.values())

    def alike(self, positions: Sequence[int]) -> list[AlikeNodes]:
        """Group nodes by what blocks them: few blockers first, and then large groups."""
        first: dict[Hashable, tuple[Blocker, ...]] = {}
        found: dict[Hashable, list[int]] = {}
        for position in positions:
            blockers = tuple(self.of(position))
            kind = tuple(blocker.kind for blocker in blockers)
            first.setdefault(kind, blockers)
            found.setdefault(kind, []).append(position)
        groups = [AlikeNodes(first[kind], tuple(members)) for kind, members in found.items()]
        return sorted(groups, key=lambda group: (len(group.blockers), -len(group.positions)))

    def nearest(self, limit: int, most: int | None = None) -> list[int]:
        """Return the positions of the blocked nodes with the fewest blockers, those that lack the least first.

        `most`: only nodes with up to so many blockers.
        """
        counts = self._counts()
        blocked = np.flatnonzero(
            self.nodes.live & (counts > 0) & (counts <= (counts.max(initial=0) if most is None else most))
        )
        order = np.lexsort((blocked, self._shortage()[blocked], counts[blocked]))
        return [int(position) for position in blocked[order[:limit]]]

    def _counts(self) -> NDArray[np.int64]:
        """How many blockers each node has."""
        rejections = self._rejections
        counts, kinds = np.zeros(len(self.nodes), dtype=np.int64), np.zeros(len(self.nodes), dtype=np.int64)
        for number, rejection in enumerate(rejections):
            rejected = rejection.verdicts.codes != 0
            counts += rejected
            kinds += rejected * 2 ** min(number, 62)
        several = np.flatnonzero(self.nodes.live & (counts > 1))
        _, first, kind_of = np.unique(kinds[several], return_index=True, return_inverse=True)
        for kind, example in enumerate(several[first].tolist()):
            if len(self.of(example)) < counts[example]:  # some of the plugins reject for the same cause
                for position in several[kind_of == kind].tolist():
                    counts[position] = len(self.of(position))
        return counts

    def _shortage(self) -> NDArray[np.float64]:
        """How much the nodes lack, as a sum of shares of the request."""
        shortage = np.zeros(len(self.nodes), dtype=np.float64)
        for resource, amount in self._pod.requested.items():
            if amount:
                free = self.nodes.allocatable(resource) - self.nodes.requested(resource)
                shortage += np.maximum(amount - free, 0) / amount
        return shortage


@dataclass(frozen=True, slots=True)
class _Rejection:
    """What one plugin, asked alone, decides about all nodes. `as_a_whole`: it rejects the pod, whatever the node."""

    plugin: Any
    cycle: CycleState
    pod: PodInfo
    verdicts: Verdicts
    as_a_whole: bool = False

    def blocker(self, node: NodeInfo, position: int) -> Blocker:
        about = None if self.as_a_whole else node
        return Blocker.of(self.plugin, self.verdicts.of(position), self.cycle, self.pod, about)


def _rejections(world: World, pod: PodInfo) -> Iterator[_Rejection]:
    profile, nodes = world.profiles[pod.scheduler_name].for_pod(pod), world.state.nodes
    plugins = {plugin.name: plugin for point in (Point.FILTER, Point.PRE_FILTER) for plugin in profile.at(point)}
    for name, plugin in plugins.items():
        points = {point: [plugin] for point in _POINTS if any(each is plugin for each in profile.at(point))}
        alone, cycle = Profile(profile.scheduler_name, points), CycleState()
        try:
            outcome = run_pre_filter(alone, cycle, pod, nodes)
            if outcome.refusal is not None:
                yield _Rejection(plugin, cycle, pod, _all(nodes, outcome.refusal), as_a_whole=True)
                continue
            verdicts = run_filter(alone, cycle, pod, nodes)
            filter_nominated(alone, world.state.nominations, cycle, pod, verdicts)
        except PluginError as error:
            yield _Rejection(plugin, cycle, pod, _all(nodes, Status.error(str(error)).by(name)), as_a_whole=True)
            continue
        if outcome.names is not None:
            missing = Status.unresolvable(f"node(s) didn't satisfy plugin(s) [{name}]").by(name)
            named = {nodes.position(each) for each in outcome.names}
            for position in np.flatnonzero(verdicts.feasible_mask).tolist():
                if position not in named:
                    verdicts.set(position, missing)
        yield _Rejection(plugin, cycle, pod, verdicts)


def gates_of(world: World, pod: PodInfo) -> list[Blocker]:
    """Return the PreEnqueue plugins that keep a pod out of the queue, each asked alone."""
    found, cycle = list[Blocker](), CycleState()
    for plugin in world.profiles[pod.scheduler_name].at(Point.PRE_ENQUEUE):
        try:
            status = status_of(call(plugin, "PreEnqueue", plugin.pre_enqueue, pod), plugin, "PreEnqueue")
        except PluginError as error:
            status = Status.error(str(error)).by(plugin.name)
        if status.code is not Code.SUCCESS:
            found.append(Blocker.of(plugin, status, cycle, pod, None))
    return found


def _all(nodes: Nodes, status: Status) -> Verdicts:
    verdicts = Verdicts(nodes)
    verdicts.table.append(status)
    verdicts.codes[verdicts.feasible_mask] = 1
    verdicts.feasible_mask[:] = False
    return verdicts
