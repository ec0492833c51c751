"""Reuse: verdicts and scores that pods with the same signature share, kept up to date row by row.

A signature is everything that plugins read of a pod (Profile.sign): two pods with equal signatures get the same verdict
and the same raw score on the same node. After a placement, only the rows that changed are computed again. Plugins that
do not sign a pod are not shared: they run for each pod, after the shared plugins.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from bayplan.cluster.columns import Int64, Rows, locked
from bayplan.cluster.nodes import Nodes
from bayplan.cluster.nominations import Nominations
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.state import ClusterState
from bayplan.framework.calling import Caller
from bayplan.framework.cycle_data import CycleData
from bayplan.framework.gangs import PLACED_WITH, Gang
from bayplan.framework.interface import CycleState, Filter
from bayplan.framework.nominated import NominatedVerdicts
from bayplan.framework.profile import Point, Profile, Sharing, implements
from bayplan.framework.raw_scores import FEW_CHANGES, LatestScores
from bayplan.framework.runner import filter_node, normalized, run_filter, run_pre_filter, run_pre_score, run_score
from bayplan.framework.status import Code, PluginError
from bayplan.framework.verdicts import Verdicts
from bayplan.framework.what_if import filter_nominated, sign_filters
from bayplan.latest import Latest
from bayplan.scheduling.decision import Decision

Record = Callable[[PluginError, PodInfo], None]
"""Records the failure of a plugin in the attempt of a pod."""

CAPACITY = 32
"""Templates kept per profile; with 5,000 nodes, one takes about 250 kB, and up to 350 kB more for `_sets`."""
_SETS_CAPACITY = 4
_SEEN_CAPACITY = 1024


@dataclass(frozen=True, slots=True)
class AfterPlacement:
    """The filters to run again for a node on which only pods changed, in their per-node form.

    `settled`: the filters before the first that reads pods; their verdicts remain valid.
    """

    settled: frozenset[str]
    filters: list[Any]

    @classmethod
    def of(cls, profile: Profile, cycle: CycleState) -> AfterPlacement | None:
        """Return None where a filter has no per-node form."""
        filters = [plugin for plugin in profile.at(Point.FILTER) if plugin.name not in cycle.skip_filter]
        settled = set()
        while filters and not filters[0].reads_pods:
            settled.add(filters.pop(0).name)
        return cls(frozenset(settled), filters) if all(implements(plugin, Filter) for plugin in filters) else None


@dataclass(slots=True, eq=False)
class FeasibleSet:
    """A set of feasible nodes. Pods of the same template often have the same set.

    `positions`: ascending, locked. `normalized`: the weighted sum of the shared plugins' normalized scores of these
    nodes; None until it is needed. `scale`: of the scores that it was computed from.
    """

    positions: Rows
    normalized: Int64 | None = None
    scale: int = 0

    def __post_init__(self) -> None:
        self.positions = locked(self.positions)


class FilteredNodes(NamedTuple):
    """The verdicts for one pod, and the nodes that they leave feasible. `verdicts` is read-only."""

    verdicts: Verdicts
    feasible_set: FeasibleSet

    def among(self, nodes: Nodes) -> FilteredNodes:
        """The part of the verdicts that concerns these nodes."""
        verdicts = self.verdicts.among(nodes)
        return FilteredNodes(verdicts, FeasibleSet(verdicts.feasible()))


class Reuse(NamedTuple):
    """A template applied to one pod: `cycle` is the pod's own, after PreFilter."""

    template: Template
    pod: PodInfo
    cycle: CycleState
    sharing: Sharing
    refused: Decision | None = None
    """The decision about an equal pod in the same state. If there is one, PreFilter was not run."""

    def filter(self, profile: Profile, nominations: Nominations) -> FilteredNodes:
        """Filter all nodes, those with nominated pods as `filter_nominated` does. Raises PluginError."""
        filtered = self.template.filter(self.cycle, self.pod)
        if not nominations.nodes:
            return filtered
        template, cycle, pod = self.template, self.cycle, self.pod
        if filtered.verdicts is template.verdicts:  # the other filters rejected no node
            kind = sign_filters(profile, self.sharing.apart, cycle, pod, filtered.verdicts.nodes)
            if kind is not None:
                return template.changed(template.nominated.of(profile, nominations, cycle, pod, kind))
        verdicts = filtered.verdicts.copy()
        filter_nominated(profile, nominations, cycle, pod, verdicts)
        return template.changed(verdicts)

    def total(self, nodes: Nodes, rows: Rows, feasible_set: FeasibleSet) -> Int64:
        """Return the weighted sum of all scores, int64, one per node. `rows`: of `nodes`. Raises PluginError."""
        each = self.template.each
        total = self.template.total(self.cycle, self.pod, nodes, rows, feasible_set)
        run_pre_score(each, self.cycle, self.pod, nodes)
        for scores in run_score(each, self.cycle, self.pod, nodes).values():
            total += scores
        return total


@dataclass(slots=True)
class Template:
    """Verdicts and scores of all rows for pods of one signature.

    `shared`: the plugins that the template covers. `each`: the plugins that run for each pod. `cycle`: the data that
    the shared plugins stored for the first such pods. The verdicts were computed from `version` of the node table, and
    with the cache keys `rests_on`. `nominated`: verdicts with nominated pods. `refusal`: the last one, the key of the
    pods that share it (see Profile.sign_rejection), and the state's version.
    """

    shared: Profile
    each: Profile
    cycle: CycleState
    verdicts: Verdicts
    version: int
    rests_on: Hashable
    after_placement: AfterPlacement | None = None
    scores: LatestScores = field(init=False)
    nominated: NominatedVerdicts = field(init=False)
    refusal: tuple[Decision, Hashable, Hashable] | None = None
    _common: FeasibleSet | None = None
    """The rows that the shared filters leave feasible; None after they changed."""
    _sets: Latest[bytes, FeasibleSet | None] = field(default_factory=lambda: Latest(_SETS_CAPACITY))
    """By mask: the sets of the latest pods whose other filters left fewer; None for one that occurred once. With
    anti-affinity by hostname, no set occurs again."""

    def __post_init__(self) -> None:
        self.scores = LatestScores(self.shared)
        self.nominated = NominatedVerdicts(self.verdicts)

    @classmethod
    def build(
        cls, shared: Profile, each: Profile, pod: PodInfo, nodes: Nodes, rests_on: Hashable, call: Caller
    ) -> Template | None:
        """Filter all rows. None for a pod that PreFilter rejects or narrows to some nodes."""
        cycle = CycleState(call=call)
        outcome = run_pre_filter(shared, cycle, pod, nodes)
        if outcome.refusal is not None or outcome.names is not None:
            return None
        verdicts = run_filter(shared, cycle, pod, nodes)
        return cls(shared, each, cycle, verdicts, nodes.table.version, rests_on, AfterPlacement.of(shared, cycle))

    def refresh(self, pod: PodInfo, nodes: Nodes, rests_on: Hashable) -> bool:
        """Filter the rows that changed since. Returns False where the template must be built again."""
        table = nodes.table
        if table.size != len(self.verdicts.feasible_mask) or rests_on != self.rests_on:
            return False
        if table.version == self.version:
            return True
        changed = table.changed_since(self.version)
        if changed is None or len(changed) > max(FEW_CHANGES, table.size // 4):
            return False
        only_pods = table.nodes_version <= self.version
        self.scores.changed(changed, only_pods=only_pods)
        if only_pods and self.after_placement is not None and len(changed) <= FEW_CHANGES:
            good = all(self._place(self.after_placement, pod, nodes, row) for row in changed.tolist())
            self.version = table.version
            return good
        verdicts = run_filter(self.shared, self.cycle, pod, nodes.at(changed))
        if verdicts.error() is not None:
            return False
        if (self.verdicts.feasible_mask[changed] != verdicts.feasible_mask).any():
            self._common = None
        self.verdicts.replace(changed, verdicts)
        self.version = table.version
        return True

    def _place(self, plugins: AfterPlacement, pod: PodInfo, nodes: Nodes, row: int) -> bool:
        """Filter a row on which only pods changed. Returns False where the template must be built again."""
        if not nodes.table.live[row] or self.verdicts.of(row).plugin in plugins.settled:
            return True
        status = filter_node(plugins.filters, self.cycle, pod, nodes.info(row))
        if status is not None and status.code is Code.ERROR:
            return False
        if self.verdicts.settle(row, status):
            self._common = None
        return True

    def begin(self, pod: PodInfo, nodes: Nodes, gang: Gang | None) -> CycleState | None:
        """Run PreFilter of the plugins that are not shared. None where one rejects the pod or narrows the nodes."""
        cycle = self.cycle.clone()
        if gang is not None:
            cycle.data[PLACED_WITH] = gang
        outcome = run_pre_filter(self.each, cycle, pod, nodes)
        return cycle if outcome.refusal is None and outcome.names is None else None

    def refused(self, pod: PodInfo, profile: Profile, apart: frozenset[str], state: ClusterState) -> Decision | None:
        """Return the decision of the last refusal, if it holds for this pod. Raises PluginError."""
        if self.refusal is None or state.nominations.node_of(pod.uid) is not None:
            return None
        decision, key, version = self.refusal
        return decision if version == state.version and key == profile.sign_rejection(pod, apart) else None

    def filter(self, cycle: CycleState, pod: PodInfo) -> FilteredNodes:
        """Run the filters that are not shared on the rows that the shared ones left feasible. Raises PluginError."""
        if self._common is None:
            self._common = FeasibleSet(self.verdicts.feasible())
        common = self._common
        if not len(common.positions) or all(plugin.name in cycle.skip_filter for plugin in self.each.at(Point.FILTER)):
            return FilteredNodes(self.verdicts, common)
        verdicts = run_filter(self.each, cycle, pod, self.verdicts.nodes, self.verdicts)
        if len(verdicts.table) == len(self.verdicts.table):  # nothing was rejected
            return FilteredNodes(self.verdicts, common)
        return self.changed(verdicts)

    def changed(self, verdicts: Verdicts) -> FilteredNodes:
        """Return other verdicts on all rows with their feasible nodes. Call `filter` for the pod first.

        Raises PluginError where a filter failed on a node.
        """
        verdicts.raise_error()
        mask = verdicts.feasible_mask.tobytes()
        if self._common is not None and mask == self.verdicts.feasible_mask.tobytes():
            return FilteredNodes(verdicts, self._common)
        found = self._sets.get(mask)
        if found is None:
            found = FeasibleSet(verdicts.feasible())
            self._sets[mask] = found if mask in self._sets else None
        return FilteredNodes(verdicts, found)

    def total(self, cycle: CycleState, pod: PodInfo, nodes: Nodes, rows: Rows, feasible_set: FeasibleSet) -> Int64:
        """Return the weighted sum of the shared plugins' scores of the feasible `nodes`, which have these rows."""
        began = self.scores.began
        scores = self.scores.of(self.cycle, pod, self.verdicts)
        if not began:  # the pod's cycle was copied before PreScore
            cycle.skip_score |= self.cycle.skip_score
            cycle.data = CycleData({**self.cycle.clone().data, **cycle.data})
        every = len(rows) == len(scores.fixed)
        if feasible_set.normalized is None or feasible_set.scale != self.scores.scale:
            total = np.zeros(len(rows), dtype=np.int64)
            for plugin, weight, raw in scores.to_normalize:
                total += normalized(plugin, self.cycle, pod, raw.copy() if every else raw.take(rows), nodes) * weight
            feasible_set.normalized, feasible_set.scale = total, self.scores.scale  # not before: a plugin may fail
        return feasible_set.normalized + (scores.fixed if every else scores.fixed.take(rows))


class Templates:
    """The templates of one profile, up to `capacity`. They save time only: decisions are the same without them."""

    def __init__(self, profile: Profile, capacity: int = CAPACITY) -> None:
        self._profile = profile
        self._halves: dict[frozenset[str], tuple[Profile, Profile]] = {}
        self._templates: Latest[Hashable, Template] = Latest(capacity)
        self._seen: Latest[Hashable, bool] = Latest(_SEEN_CAPACITY)
        self.used = 0
        """Decisions that used a template."""
        self.unused = 0
        """Decisions that could have used one, and did not."""

    def reuse(
        self,
        pod: PodInfo,
        state: ClusterState,
        call: Caller,
        record: Record,
        gang: Gang | None = None,
        *,
        refusals: bool = True,
    ) -> Reuse | None:
        """Return an up-to-date template applied to a pod; None where the pod must be decided without one.

        That is so for the first pod of a signature, because many signatures occur once, and for a pod with a plugin
        that fails, which then fails as it would without templates. `record`: called where only reuse needs what fails.
        `gang`: the gang that the pod is placed with; such a pod shares no refusal. `refusals`: whether others do.
        """
        reuse = self._reuse(pod, state, call, record, gang, refusals=refusals and gang is None)
        if reuse is None:
            self.unused += 1
        else:
            self.used += 1
        return reuse

    def _reuse(
        self, pod: PodInfo, state: ClusterState, call: Caller, record: Record, gang: Gang | None, *, refusals: bool
    ) -> Reuse | None:
        nodes = state.nodes
        try:
            sharing = self._profile.sharing(pod, nodes)
        except PluginError as error:
            record(error, pod)
            return None
        if sharing is None:
            return None
        apart = sharing.apart
        key = apart, sharing.signature
        try:
            template = self._get(key, sharing, pod, nodes, call)
            if template is None:
                return None
            refused = template.refused(pod, self._profile, apart, state) if refusals else None
            cycle = template.begin(pod, nodes, gang) if refused is None else refused.cycle
        except PluginError:
            self._templates.pop(key, None)
            return None
        if cycle is None:
            return None
        if next(reversed(self._templates.values())) is not template:  # else don't hash the long key again
            self._templates.move_to_end(key)
        return Reuse(template, pod, cycle, sharing, refused)

    def _get(self, key: Hashable, sharing: Sharing, pod: PodInfo, nodes: Nodes, call: Caller) -> Template | None:
        apart, rests_on = sharing.apart, sharing.rests_on
        template = self._templates.get(key)
        if template is not None:
            template.cycle.call = call
            if template.refresh(pod, nodes, rests_on):
                return template
        self._templates.pop(key, None)
        if key not in self._seen:
            self._seen[key] = True
            return None
        if apart not in self._halves:
            self._halves[apart] = self._profile.split(apart)
        template = Template.build(*self._halves[apart], pod, nodes, rests_on, call)
        if template is None or template.verdicts.error() is not None:
            return None
        self._templates[key] = template
        return template
