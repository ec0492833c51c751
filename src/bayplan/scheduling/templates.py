"""Templates: what pods of one signature share, kept up to date row by row.

A signature is all that plugins read of a pod (Profile.sign), so two pods that have the same get the same verdict and
the same raw score on the same node. After a placement only the rows that changed are asked about again. Plugins whose
answers depend on where other pods are stay apart: they are asked for each pod, about what the others left standing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bayplan.cluster.columns import Int64, Rows
from bayplan.cluster.nodes import Nodes
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.calling import Caller, call
from bayplan.framework.interface import CycleState, Filter, NormalizeScores, Score
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
from bayplan.framework.status import PluginError
from bayplan.framework.verdicts import Verdicts

CAPACITY = 32
"""Templates kept of a profile; one of 5,000 nodes takes about 250 kB."""
_SEEN_CAPACITY = 1024


@dataclass(slots=True)
class RawScores:
    """The scores of all rows before normalisation: int64, one a row. Rows that are not feasible hold anything.

    `fixed` is the weighted sum of the plugins that do not normalise; the others stand in `to_normalize`.
    """

    fixed: Int64
    unmoved: Int64
    """The part of `fixed` that is due to plugins which read no pods: it stays while nodes do."""
    to_normalize: list[tuple[Any, int, Int64]] = field(default_factory=list)
    """Plugin, weight, raw scores."""

    @classmethod
    def of(cls, profile: Profile, cycle: CycleState, pod: PodInfo, verdicts: Verdicts) -> RawScores:
        """Ask every scoring plugin about the nodes that the verdicts are about."""
        nodes, standing = verdicts.nodes, verdicts.standing
        feasible = int(np.count_nonzero(standing))
        scores = cls(np.zeros(len(nodes), dtype=np.int64), np.zeros(len(nodes), dtype=np.int64))
        for plugin in profile.at(Point.SCORE):
            if plugin.name in cycle.skip_score:
                continue
            raw, weight = raw_scores(plugin, cycle, pod, nodes, standing), profile.weights.get(plugin.name, 1)
            if implements(plugin, NormalizeScores):
                scores.to_normalize.append((plugin, weight, raw))
            else:
                checked(raw if feasible == len(nodes) else raw[standing], plugin, feasible)
                weighted = raw if weight == 1 else raw * weight
                scores.fixed += weighted
                if not plugin.reads_pods:
                    scores.unmoved += weighted
        return scores

    def replace(self, rows: Rows, others: RawScores) -> bool:
        """Take over what was said anew of some rows. Returns whether that changed anything that is to be normalised."""
        self.fixed[rows] = others.fixed
        self.unmoved[rows] = others.unmoved
        changed = False
        for (_, _, raw), (_, _, new) in zip(self.to_normalize, others.to_normalize, strict=True):
            changed = changed or bool((raw[rows] != new).any())
            raw[rows] = new
        return changed


@dataclass(frozen=True, slots=True)
class AfterPlacement:
    """Whom to ask again about a node on which only pods have changed, one by one and without arrays.

    `settled` are the filters before the first that reads pods: what they said stands.
    """

    settled: frozenset[str]
    filters: list[Any]
    scorers: list[tuple[Any, int]]

    @classmethod
    def of(cls, profile: Profile, cycle: CycleState) -> AfterPlacement | None:
        """None where one of them has no per-node form, or is to be normalised."""
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


@dataclass(slots=True)
class Template:
    """What is known of all rows for pods of one signature.

    `shared` are the plugins that it covers, `each` those that are asked for each pod. `cycle` is what the shared ones
    remembered of the first such pod; `verdicts` and `scores` cover all rows. `scores` is None as long as no node was
    feasible. All of it was computed from `version` of the node table, and from `rests_on`.
    """

    shared: Profile
    each: Profile
    cycle: CycleState
    verdicts: Verdicts
    scores: RawScores | None
    version: int
    rests_on: Hashable
    after_placement: AfterPlacement | None = None
    _feasible: Rows | None = None
    """The feasible rows, as long as these do not change."""
    _normalized: Int64 | None = None
    """The weighted sum of the normalised scores of these, as long as no raw score of theirs changes.

    Normalised scores span the feasible nodes.
    """

    @classmethod
    def build(
        cls, shared: Profile, each: Profile, pod: PodInfo, nodes: Nodes, rests_on: Hashable, call: Caller
    ) -> Template | None:
        """Ask about all rows. None for a pod whose PreFilter turns it down or narrows the nodes."""
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
        """Ask again about the rows that have changed since. False where it is better to build the template anew."""
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
        rescaled = False
        if self.scores is not None:
            rescaled = self.scores.replace(changed, RawScores.of(self.shared, self.cycle, pod, verdicts))
        elif verdicts.standing.any():
            return False
        if rescaled or (self.verdicts.standing[changed] != verdicts.standing).any():
            self._feasible = self._normalized = None
        self.verdicts.replace(changed, verdicts)
        self.version = table.version
        return True

    def _place(self, plugins: AfterPlacement, pod: PodInfo, nodes: Nodes, row: int) -> bool:
        """Ask again about a node on which only pods have changed. False where scores are needed for the first time."""
        if not nodes.table.live[row] or self.verdicts.of(row).plugin in plugins.settled:
            return True
        node = nodes.info(row)
        status = filter_node(plugins.filters, self.cycle, pod, node)
        if self.verdicts.settle(row, status):
            self._feasible = self._normalized = None
        if status is None:
            if self.scores is None:
                return False
            self.scores.fixed[row] = self.scores.unmoved[row] + score_node(plugins.scorers, self.cycle, pod, node)
        return True

    def begin(self, pod: PodInfo, nodes: Nodes) -> CycleState | None:
        """What the plugins remember of this pod. None where one of those asked for each turns it down or narrows."""
        cycle = self.cycle.clone()
        outcome = run_pre_filter(self.each, cycle, pod, nodes)
        return cycle if outcome.refusal is None and outcome.names is None else None

    def filter(self, cycle: CycleState, pod: PodInfo) -> Verdicts:
        """The verdicts about this pod. They may be those of the template: copy them to change them."""
        verdicts, standing = self.verdicts, self.feasible(self.verdicts)
        if not len(standing) or all(plugin.name in cycle.skip_filter for plugin in self.each.at(Point.FILTER)):
            return verdicts
        nodes = verdicts.nodes
        every = len(standing) == len(nodes)
        said = run_filter(self.each, cycle, pod, nodes if every else nodes.at(standing))
        if said.standing.all():
            return verdicts
        if every:
            return said
        verdicts = verdicts.copy()
        verdicts.replace(standing, said)
        return verdicts

    def feasible(self, verdicts: Verdicts) -> Rows:
        """The feasible rows, where these are the verdicts."""
        if verdicts is not self.verdicts and not np.array_equal(verdicts.standing, self.verdicts.standing):
            return verdicts.feasible()
        if self._feasible is None:
            self._feasible = self.verdicts.feasible()
        return self._feasible

    def total(self, cycle: CycleState, pod: PodInfo, nodes: Nodes, feasible: Rows) -> Int64:
        """The weighted sum of all scores. `feasible`: the rows that the feasible `nodes` stand for."""
        run_pre_score(self.each, cycle, pod, nodes)
        total = self._shared_total(cycle, pod, nodes, feasible)
        for scores in run_score(self.each, cycle, pod, nodes).values():
            total += scores
        return total

    def _shared_total(self, cycle: CycleState, pod: PodInfo, nodes: Nodes, feasible: Rows) -> Int64:
        assert self.scores is not None
        every = len(feasible) == len(self.scores.fixed)
        normalized_sum = self._normalized if feasible is self._feasible else None
        if normalized_sum is None:
            normalized_sum = np.zeros(len(feasible), dtype=np.int64)
            for plugin, weight, raw in self.scores.to_normalize:
                normalized_sum += normalized(plugin, cycle, pod, raw.copy() if every else raw[feasible], nodes) * weight
            if feasible is self._feasible:
                self._normalized = normalized_sum
        return normalized_sum + (self.scores.fixed if every else self.scores.fixed[feasible])


class Templates:
    """The templates of one profile. Only ever an optimisation: with and without it, decisions are the same."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._halves: dict[frozenset[str], tuple[Profile, Profile]] = {}
        self._templates: OrderedDict[Hashable, Template] = OrderedDict()
        self._seen: OrderedDict[Hashable, None] = OrderedDict()
        self.used = 0
        """Decisions that rested on a template."""
        self.unused = 0
        """Decisions that might have, and did not."""

    def begin(self, pod: PodInfo, nodes: Nodes, call: Caller = call) -> tuple[Template, CycleState] | None:
        """An up-to-date template for a pod, and what plugins remember of it; None where it is decided on its own.

        The first pod of a signature has to be: many signatures are never seen again. So has one with a plugin that
        fails, so that it fails as it would without templates.
        """
        begun = self._begin(pod, nodes, call)
        if begun is None:
            self.unused += 1
        else:
            self.used += 1
        return begun

    def _begin(self, pod: PodInfo, nodes: Nodes, call: Caller) -> tuple[Template, CycleState] | None:
        signature = self._signature(pod)
        if signature is None:
            return None
        key: Hashable = None
        try:
            rests_on = self._profile.rests_on(pod, nodes)
            apart = frozenset([name for name, value in (*signature, *rests_on) if value is None])
            if apart:
                signature = tuple([each for each in signature if each[0] not in apart])
                rests_on = tuple([each for each in rests_on if each[0] not in apart])
            key = apart, signature
            template = self._get(key, apart, pod, nodes, rests_on, call)
            cycle = None if template is None else template.begin(pod, nodes)
        except PluginError:
            self._templates.pop(key, None)
            return None
        if template is None or cycle is None:
            return None
        self._templates.move_to_end(key)
        return template, cycle

    def _signature(self, pod: PodInfo) -> Signature | None:
        key = (Templates, id(self._profile))
        if key not in pod.cache:
            pod.cache[key] = self._profile.sign(pod)
        signature: Signature | None = pod.cache[key]
        return signature

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
            _remember(self._seen, key, None, _SEEN_CAPACITY)
            return None
        if apart not in self._halves:
            self._halves[apart] = self._profile.split(apart)
        template = Template.build(*self._halves[apart], pod, nodes, rests_on, call)
        if template is None or template.verdicts.error() is not None:
            return None
        _remember(self._templates, key, template, CAPACITY)
        return template


def _remember(values: OrderedDict[Hashable, Any], key: Hashable, value: Any, capacity: int) -> None:
    values[key] = value
    if len(values) > capacity:
        values.popitem(last=False)
