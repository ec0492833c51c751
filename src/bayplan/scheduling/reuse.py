"""Reuse: verdicts and scores that pods with the same signature share, kept up to date row by row.

A signature is everything that plugins read of a pod (Profile.sign): two pods with equal signatures get the same verdict
and the same raw score on the same node. After a placement, only the rows that changed are computed again. Plugins that
do not sign a pod are not shared: they run for each pod, on the nodes that the shared plugins left feasible.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from bayplan.cluster.columns import Int64, Rows
from bayplan.cluster.nodes import Nodes
from bayplan.cluster.nominations import Nominations
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.calling import Caller
from bayplan.framework.interface import CycleState, Filter, NormalizeScores, Score
from bayplan.framework.nominated import NominatedVerdicts
from bayplan.framework.profile import Point, Profile, Signature, implements
from bayplan.framework.runner import (
    FEW_NODES,
    checked,
    filter_node,
    normalized,
    raw_scores,
    run_filter,
    run_pre_filter,
    run_pre_score,
    run_score,
    score_node,
)
from bayplan.framework.status import Code, PluginError
from bayplan.framework.verdicts import Verdicts
from bayplan.framework.what_if import filter_nominated, sign_filters

Record = Callable[[PluginError, PodInfo], None]
"""Records the failure of a plugin in the attempt of a pod."""

CAPACITY = 32
"""Templates kept per profile; with 5,000 nodes, one takes about 250 kB."""
_SEEN_CAPACITY = 1024


@dataclass(slots=True)
class RawScores:
    """The scores of all rows before normalization: int64, one per row. Values of infeasible rows are undefined.

    `fixed`: the weighted sum of the plugins that do not normalize. `to_normalize` has the others.
    """

    fixed: Int64
    unmoved: Int64
    """The part of `fixed` from plugins that read no pods; it changes only with the node."""
    to_normalize: list[tuple[Any, int, Int64]] = field(default_factory=list)
    """Plugin, weight, raw scores."""

    @classmethod
    def of(cls, profile: Profile, cycle: CycleState, pod: PodInfo, verdicts: Verdicts) -> RawScores:
        """Score the nodes of `verdicts` with every scoring plugin."""
        nodes, mask = verdicts.nodes, verdicts.feasible_mask
        feasible = int(np.count_nonzero(mask))
        scores = cls(np.zeros(len(nodes), dtype=np.int64), np.zeros(len(nodes), dtype=np.int64))
        for plugin in profile.at(Point.SCORE):
            if plugin.name in cycle.skip_score:
                continue
            raw, weight = raw_scores(plugin, cycle, pod, nodes, mask), profile.weights.get(plugin.name, 1)
            if implements(plugin, NormalizeScores):
                scores.to_normalize.append((plugin, weight, raw.copy()))  # `replace` writes to it
            else:
                checked(raw if feasible == len(nodes) else raw[mask], plugin, feasible)
                weighted = raw if weight == 1 else raw * weight
                scores.fixed += weighted
                if not plugin.reads_pods:
                    scores.unmoved += weighted
        return scores

    def replace(self, rows: Rows, others: RawScores) -> bool:
        """Replace the scores of some rows. Returns whether a score that needs normalization changed."""
        self.fixed[rows] = others.fixed
        self.unmoved[rows] = others.unmoved
        changed = False
        for (_, _, raw), (_, _, new) in zip(self.to_normalize, others.to_normalize, strict=True):
            changed = changed or bool((raw[rows] != new).any())
            raw[rows] = new
        return changed


@dataclass(frozen=True, slots=True)
class AfterPlacement:
    """The plugins to run again for a node on which only pods changed, in their per-node form.

    `settled`: the filters before the first that reads pods; their verdicts remain valid.
    """

    settled: frozenset[str]
    filters: list[Any]
    scorers: list[tuple[Any, int]]

    @classmethod
    def of(cls, profile: Profile, cycle: CycleState) -> AfterPlacement | None:
        """Return None where a plugin has no per-node form, or needs normalization."""
        filters = [plugin for plugin in profile.at(Point.FILTER) if plugin.name not in cycle.skip_filter]
        settled = set()
        while filters and not filters[0].reads_pods:
            settled.add(filters.pop(0).name)
        scorers = [
            (plugin, profile.weights.get(plugin.name, 1))
            for plugin in profile.at(Point.SCORE)
            if plugin.name not in cycle.skip_score and plugin.reads_pods
        ]
        per_node = all(implements(plugin, Filter) for plugin in filters) and all(
            implements(plugin, Score) and not implements(plugin, NormalizeScores) for plugin, _ in scorers
        )
        return cls(frozenset(settled), filters, scorers) if per_node else None


class Filtered(NamedTuple):
    """The verdicts for one pod. `verdicts` is read-only; `feasible`: positions of the feasible nodes, ascending.

    `common`: whether every pod of the template has these feasible nodes, so that sums over them can be kept.
    """

    verdicts: Verdicts
    feasible: Rows
    common: bool

    def changed_to(self, verdicts: Verdicts) -> Filtered:
        """The same with other verdicts of all rows. Raises PluginError where a filter failed on a node."""
        verdicts.raise_error()
        if np.array_equal(verdicts.feasible_mask, self.verdicts.feasible_mask):
            return Filtered(verdicts, self.feasible, self.common)
        return Filtered(verdicts, verdicts.feasible(), common=False)

    def among(self, nodes: Nodes) -> Filtered:
        """The part of the verdicts that concerns these nodes."""
        verdicts = self.verdicts.among(nodes)
        return Filtered(verdicts, verdicts.feasible(), common=False)


class Reuse(NamedTuple):
    """A template applied to one pod: `cycle` is the pod's own, after PreFilter."""

    template: Template
    pod: PodInfo
    cycle: CycleState
    signature: Signature
    """The pod's signature of the shared plugins."""
    apart: frozenset[str]
    """The names of the other plugins."""

    def filter(self, profile: Profile, nominations: Nominations) -> Filtered:
        """Filter all nodes, those with nominated pods as `filter_nominated` does. Raises PluginError."""
        filtered = self.template.filter(self.cycle, self.pod)
        if not nominations.nodes:
            return filtered
        cycle, pod, nodes = self.cycle, self.pod, filtered.verdicts.nodes
        kind = sign_filters(profile, self.apart, cycle, pod, nodes) if filtered.common else None
        if kind is not None:
            return filtered.changed_to(self.template.nominated.of(profile, nominations, cycle, pod, kind))
        verdicts = filtered.verdicts.copy()
        filter_nominated(profile, nominations, cycle, pod, verdicts)
        return filtered.changed_to(verdicts)

    def total(self, nodes: Nodes, rows: Rows, *, common: bool) -> Int64:
        """Return the weighted sum of all scores, int64, one per node.

        `nodes`: the feasible nodes. `rows`: their rows. `common`: as in `Filtered`. Raises PluginError.
        """
        each = self.template.each
        run_pre_score(each, self.cycle, self.pod, nodes)
        total = self.template.total(self.cycle, self.pod, nodes, rows, common=common)
        for scores in run_score(each, self.cycle, self.pod, nodes).values():
            total += scores
        return total


@dataclass(slots=True)
class Template:
    """Verdicts and scores of all rows for pods of one signature.

    `shared`: the plugins that the template covers. `each`: the plugins that run for each pod. `cycle`: the data that
    the shared plugins stored for the first such pod. `scores` is None until a node is feasible. Everything was computed
    from `version` of the node table, and with the cache keys `rests_on`. `nominated`: verdicts with nominated pods.
    """

    shared: Profile
    each: Profile
    cycle: CycleState
    verdicts: Verdicts
    scores: RawScores | None
    version: int
    rests_on: Hashable
    after_placement: AfterPlacement | None = None
    nominated: NominatedVerdicts = field(init=False)
    _feasible: Rows | None = None
    """The feasible rows; None after they changed."""
    _normalized: Int64 | None = None
    """The weighted sum of the normalized scores of the feasible rows; None after one of these changed."""

    def __post_init__(self) -> None:
        self.nominated = NominatedVerdicts(self.verdicts)

    @classmethod
    def build(
        cls, shared: Profile, each: Profile, pod: PodInfo, nodes: Nodes, rests_on: Hashable, call: Caller
    ) -> Template | None:
        """Filter and score all rows. None for a pod that PreFilter rejects or narrows to some nodes."""
        cycle = CycleState(call=call)
        outcome = run_pre_filter(shared, cycle, pod, nodes)
        if outcome.refusal is not None or outcome.names is not None:
            return None
        verdicts = run_filter(shared, cycle, pod, nodes)
        scores = None
        feasible = verdicts.feasible()
        if len(feasible):
            run_pre_score(shared, cycle, pod, nodes.at(feasible))
            scores = RawScores.of(shared, cycle, pod, verdicts)
        after_placement = AfterPlacement.of(shared, cycle)
        return cls(shared, each, cycle, verdicts, scores, nodes.table.version, rests_on, after_placement)

    def refresh(self, pod: PodInfo, nodes: Nodes, rests_on: Hashable) -> bool:
        """Compute the rows that changed since. Returns False where the template must be built again."""
        table = nodes.table
        if table.size != len(self.verdicts.codes) or rests_on != self.rests_on:
            return False
        if table.version == self.version:
            return True
        changed = table.changed_since(self.version)
        if changed is None or len(changed) > table.size // 4:
            return False
        if self.after_placement is not None and len(changed) <= FEW_NODES and table.nodes_version <= self.version:
            good = all(self._place(self.after_placement, pod, nodes, row) for row in changed.tolist())
            self.version = table.version
            return good
        verdicts = run_filter(self.shared, self.cycle, pod, nodes.at(changed))
        if verdicts.error() is not None:
            return False
        rescaled = False
        if self.scores is not None:
            rescaled = self.scores.replace(changed, RawScores.of(self.shared, self.cycle, pod, verdicts))
        elif verdicts.feasible_mask.any():
            return False
        if rescaled or (self.verdicts.feasible_mask[changed] != verdicts.feasible_mask).any():
            self._feasible = self._normalized = None
        self.verdicts.replace(changed, verdicts)
        self.version = table.version
        return True

    def _place(self, plugins: AfterPlacement, pod: PodInfo, nodes: Nodes, row: int) -> bool:
        """Compute a row on which only pods changed. Returns False where the template must be built again."""
        if not nodes.table.live[row] or self.verdicts.of(row).plugin in plugins.settled:
            return True
        node = nodes.info(row)
        status = filter_node(plugins.filters, self.cycle, pod, node)
        if status is not None and status.code is Code.ERROR:
            return False
        if self.verdicts.settle(row, status):
            self._feasible = self._normalized = None
        if status is None:
            if self.scores is None:
                return False
            self.scores.fixed[row] = self.scores.unmoved[row] + score_node(plugins.scorers, self.cycle, pod, node)
        return True

    def begin(self, pod: PodInfo, nodes: Nodes) -> CycleState | None:
        """Run PreFilter of the plugins that are not shared. None where one rejects the pod or narrows the nodes."""
        cycle = self.cycle.clone()
        outcome = run_pre_filter(self.each, cycle, pod, nodes)
        return cycle if outcome.refusal is None and outcome.names is None else None

    def filter(self, cycle: CycleState, pod: PodInfo) -> Filtered:
        """Run the filters that are not shared on the rows that the shared ones left feasible. Raises PluginError."""
        if self._feasible is None:
            self._feasible = self.verdicts.feasible()
        common = Filtered(self.verdicts, self._feasible, common=True)
        if not len(self._feasible) or all(plugin.name in cycle.skip_filter for plugin in self.each.at(Point.FILTER)):
            return common
        nodes = self.verdicts.nodes
        every = len(self._feasible) == len(nodes)
        verdicts = run_filter(self.each, cycle, pod, nodes if every else nodes.at(self._feasible))
        if verdicts.feasible_mask.all():
            return common
        if not every:
            part, verdicts = verdicts, self.verdicts.copy()
            verdicts.replace(self._feasible, part)
        return common.changed_to(verdicts)

    def total(self, cycle: CycleState, pod: PodInfo, nodes: Nodes, rows: Rows, *, common: bool) -> Int64:
        """Return the weighted sum of the shared plugins' scores of the feasible `nodes`, which have these rows."""
        assert self.scores is not None
        every = len(rows) == len(self.scores.fixed)
        normalized_sum = self._normalized if common else None
        if normalized_sum is None:
            normalized_sum = np.zeros(len(rows), dtype=np.int64)
            for plugin, weight, raw in self.scores.to_normalize:
                normalized_sum += normalized(plugin, cycle, pod, raw.copy() if every else raw[rows], nodes) * weight
            if common:
                self._normalized = normalized_sum
        return normalized_sum + (self.scores.fixed if every else self.scores.fixed[rows])


class Templates:
    """The templates of one profile, up to `capacity`. They save time only: decisions are the same without them."""

    def __init__(self, profile: Profile, capacity: int = CAPACITY) -> None:
        self._profile = profile
        self._capacity = capacity
        self._halves: dict[frozenset[str], tuple[Profile, Profile]] = {}
        self._templates: OrderedDict[Hashable, Template] = OrderedDict()
        """The least recently used one first."""
        self._seen: OrderedDict[Hashable, None] = OrderedDict()
        self.used = 0
        """Decisions that used a template."""
        self.unused = 0
        """Decisions that could have used one, and did not."""

    def reuse(self, pod: PodInfo, nodes: Nodes, call: Caller, record: Record) -> Reuse | None:
        """Return an up-to-date template applied to a pod; None where the pod must be decided without one.

        That is so for the first pod of a signature, because many signatures occur once, and for a pod with a plugin
        that fails, which then fails as it would without templates. `record`: called where only reuse needs what fails.
        """
        reuse = self._reuse(pod, nodes, call, record)
        if reuse is None:
            self.unused += 1
        else:
            self.used += 1
        return reuse

    def _reuse(self, pod: PodInfo, nodes: Nodes, call: Caller, record: Record) -> Reuse | None:
        try:
            signature = self._profile.sign(pod)
            if signature is None:
                return None
            rests_on = self._profile.rests_on(pod, nodes)
        except PluginError as error:
            record(error, pod)
            return None
        unsigned = frozenset([name for name, value in signature if value is None])
        apart = unsigned.union([name for name, value in rests_on if value is None])
        if apart:
            rests_on = tuple([each for each in rests_on if each[0] not in apart])
        if apart != unsigned:
            signature = tuple([each for each in signature if each[0] not in apart])
        key = apart, signature
        try:
            template = self._get(key, apart, pod, nodes, rests_on, call)
            cycle = None if template is None else template.begin(pod, nodes)
        except PluginError:
            self._templates.pop(key, None)
            return None
        if template is None or cycle is None:
            return None
        self._templates.move_to_end(key)
        return Reuse(template, pod, cycle, signature, apart)

    def _get(
        self, key: Hashable, apart: frozenset[str], pod: PodInfo, nodes: Nodes, rests_on: Hashable, call: Caller
    ) -> Template | None:
        template = self._templates.get(key)
        if template is not None:
            template.cycle.call = call
            if template.refresh(pod, nodes, rests_on):
                return template
        self._templates.pop(key, None)
        if key not in self._seen:
            self._seen[key] = None
            if len(self._seen) > _SEEN_CAPACITY:
                self._seen.popitem(last=False)
            return None
        if apart not in self._halves:
            self._halves[apart] = self._profile.split(apart)
        template = Template.build(*self._halves[apart], pod, nodes, rests_on, call)
        if template is None or template.verdicts.error() is not None:
            return None
        if len(self._templates) >= self._capacity:
            self._templates.popitem(last=False)
        self._templates[key] = template
        return template
