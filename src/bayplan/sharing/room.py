"""Sharing: the results that pods of one profile share, and the runs that use them.

PodKey: what plugins read of the pod, and what their results rest on
   |
Sharing.start ----> an equal rejection in an equal state?  it is the decision
   |
SharedRows -------> verdicts and scores of all rows for this key; what changed is computed again
   |
plugins apart ----> run for this pod, as those of a pod without shared rows do
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, TypeVar

from bayplan.cluster.columns import Int64
from bayplan.cluster.nodes import Nodes
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.state import ClusterState
from bayplan.framework.calling import Caller
from bayplan.framework.gangs import Gang
from bayplan.framework.interface import CycleState, WhatIf
from bayplan.framework.pod_run import PodRun, Record
from bayplan.framework.profile import Point, Profile
from bayplan.framework.runner import PreFilterOutcome, run_pre_filter
from bayplan.framework.status import PluginError
from bayplan.framework.verdicts import Verdicts
from bayplan.framework.what_if import ProfileWhatIf, filter_nominated
from bayplan.latest import Latest
from bayplan.sharing.keys import Keys, PodKey, of_post_filters
from bayplan.sharing.rows import Halves, SharedRows

T = TypeVar("T")

CAPACITY = 32
"""Keys for which rows are kept per profile; with 5,000 nodes, those of one take about 250 kB, and up to 200 kB more for
sums of normalized scores."""
_SEEN = 1024
_KEPT = 8
"""For how many kinds of preemptors what a PostFilter plugin makes is kept."""


class SharedRun(PodRun):
    """The run of a pod whose key is known. `rows`: what pods with this key share; None if it is the first of them."""

    def __init__(
        self, sharing: Sharing, key: PodKey, rows: SharedRows | None, cycle: CycleState | None, *arguments: Any
    ) -> None:
        super().__init__(*arguments, cycle=cycle)
        self.key = key
        self.rows = rows
        self._sharing = sharing
        self._found: Verdicts | None = None
        """The verdicts on all rows."""

    def pre_filter(self) -> PreFilterOutcome:
        """Return success: `SharedRows.begin` has run PreFilter, and pods that it narrows have no rows."""
        return super().pre_filter() if self.rows is None else _PASSED

    def filter(self, nodes: Nodes) -> Verdicts:
        """Return the verdicts on nodes. Raises PluginError."""
        if self.rows is None:
            return super().filter(nodes)
        if self._found is None:
            self._found = self._filter_all(self.rows)
        return self._found if isinstance(nodes.rows, slice) else self._found.among(nodes)

    def _filter_all(self, rows: SharedRows) -> Verdicts:
        verdicts, nominations = rows.filter(self.cycle, self.pod), self.state.nominations
        if not nominations.nodes:
            return verdicts
        if not rows.filters_apart(self.cycle):
            found = rows.nominated.of(self.profile, nominations, self.cycle, self.pod, verdicts)
        else:
            found = verdicts.copy()
            filter_nominated(self.profile, nominations, self.cycle, self.pod, found)
        found.raise_error()
        return found.freeze(verdicts)

    def score(self, nodes: Nodes) -> tuple[dict[str, Int64], Int64]:
        """Return the sum of the scores, or what the plain run returns where a plugin fails: all rows are scored here,
        also those that are infeasible for this pod.
        """
        if self.rows is not None and self._found is not None:
            found, rows = self._found, nodes.rows
            feasible = found.feasible_mask if isinstance(rows, slice) or rows is found.feasible() else None
            try:
                return {}, self.rows.total(self.cycle, self.pod, nodes, feasible)
            except PluginError:
                pass  # the plain run fails or not, as it would without sharing
        return super().score(nodes)

    def what_if(self, rng: random.Random, actual: Verdicts | None) -> WhatIf:
        """Return what PostFilter is called with."""
        return _KeepingWhatIf(self.profile, self.state.nominations, rng, actual, sharing=self._sharing, of=self.key)

    def rejected_like(self, decision: Any) -> Hashable:
        """Return a key of the pods that are rejected as this one is, while the state doesn't change; None if unknown.

        The decision is kept for them.
        """
        if self.rows is None or self.state.nominations.node_of(self.pod.uid) is not None:
            return None
        try:
            alike = self._sharing.alike(self.key, self.profile, self.pod)
        except PluginError as error:
            self.record(error, self.pod)
            return None
        if alike is not None and not decision.diagnosis.post_filter_failed:
            self.rows.rejection = decision, alike, self.state.version
        return alike


class Sharing:
    """What the pods of one profile share. `start` is a `pod_run.Start`.

    `capacity`: for how many keys rows are kept. `used` and `unused`: the runs with and without rows of earlier pods.
    """

    def __init__(self, profile: Profile, capacity: int = CAPACITY) -> None:
        self._profile = profile
        self._keys = Keys(profile)
        self._halves: dict[frozenset[str], Halves] = {}
        self._rows: Latest[Hashable, SharedRows] = Latest(capacity)
        self._seen: Latest[Hashable, bool] = Latest(_SEEN)
        self.kept: Latest[Hashable, Any] = Latest(_KEPT)
        """What PostFilter plugins keep, by plugin data's own key and that of pods."""
        self.used = 0
        self.unused = 0

    def start(
        self,
        profile: Profile,
        state: ClusterState,
        pod: PodInfo,
        call: Caller,
        record: Record,
        gang: Gang | None = None,
    ) -> PodRun:
        """Start the run of a pod.

        The first pod of a key has no rows to share, because many keys occur once. Nor has a pod with a plugin that
        fails, which then fails as it would without sharing, and one with a nominated node, which is filtered first.
        """
        run = self._start(profile, state, pod, call, record, gang)
        if isinstance(run, SharedRun) and (run.rows is not None or run.decided is not None):
            self.used += 1
        else:
            self.unused += 1
        return run

    def _start(
        self, profile: Profile, state: ClusterState, pod: PodInfo, call: Caller, record: Record, gang: Gang | None
    ) -> PodRun:
        arguments, nodes = (profile, state, pod, call, record, gang), state.nodes
        key = None if pod.nominated_node_name else self.key(pod, nodes, record)
        if key is None:
            return PodRun(*arguments)
        shared = key[:3]
        try:
            rows = self._refreshed(key, pod, nodes, call)
            if rows is None:
                return SharedRun(self, key, None, None, *arguments)
            rejection = self._rejection(rows, key, profile, state, pod) if gang is None else None
            if rejection is not None:
                decided = SharedRun(self, key, rows, rejection.cycle, *arguments)
                decided.decided = rejection
                return decided
            cycle = rows.begin(pod, nodes, gang)
        except PluginError:
            self._rows.pop(shared, None)
            return PodRun(*arguments)
        if cycle is None:
            return PodRun(*arguments)
        if next(reversed(self._rows.values())) is not rows:  # else don't hash the long key again
            self._rows.move_to_end(shared)
        return SharedRun(self, key, rows, cycle, *arguments)

    def key(self, pod: PodInfo, nodes: Nodes, record: Record) -> PodKey | None:
        """Return the key of a pod; None if a plugin declares nothing, or fails."""
        try:
            return self._keys.of(pod, nodes)
        except PluginError as error:
            record(error, pod)
            return None

    def by_node(self, pod: PodInfo, state: ClusterState) -> bool:
        """Return whether the verdict of the filters on a node depends only on that node. Raises PluginError."""
        key = self._keys.of(pod, state.nodes, recurring=False)
        if key is None or not key.apart:
            return key is not None
        each, cycle = Halves.of(self._profile, key.apart).each, CycleState()
        if run_pre_filter(each, cycle, pod, state.nodes).refusal is not None:
            return False
        return key.apart.isdisjoint({plugin.name for plugin in each.at(Point.FILTER)} - cycle.skip_filter)

    def failure_depends_on(self, pod: PodInfo, state: ClusterState, plugins: AbstractSet[str]) -> Hashable | None:
        """Return what the rejection of a pod by these plugins depends on besides the pod and single nodes.

        None if that is unknown. Raises PluginError.
        """
        key = self._keys.of(pod, state.nodes, recurring=False)
        if key is None or not plugins or not key.apart.isdisjoint(plugins) or not self._keys.filtering >= plugins:
            return None
        return tuple([each for each in key.rests_on if each[0] in plugins])

    def alike(self, key: PodKey, profile: Profile, pod: PodInfo) -> Hashable:
        """Return what all plugins read of a pod, and its priority; None if that is unknown.

        Pods with equal values are decided alike as long as the state is the same. `profile`: that of the attempt, which
        may have other PostFilter plugins. Raises PluginError.
        """
        last = None if key.now is None else of_post_filters(profile, pod)
        return None if last is None else (key.now, pod.priority, last)

    def _rejection(self, rows: SharedRows, key: PodKey, profile: Profile, state: ClusterState, pod: PodInfo) -> Any:
        """Return the decision about an equal pod that was rejected in an equal state, if there is one."""
        found = rows.rejection
        if found is None or found[2] != state.version or state.nominations.node_of(pod.uid) is not None:
            return None
        return found[0] if found[1] == self.alike(key, profile, pod) else None

    def _refreshed(self, key: PodKey, pod: PodInfo, nodes: Nodes, call: Caller) -> SharedRows | None:
        """Return the rows of a key, which are up to date; None for the first pod. Raises PluginError."""
        shared = key[:3]
        rows = self._rows.get(shared)
        if rows is not None and rows.refresh(pod, nodes, call):
            return rows
        if rows is None and key[:2] not in self._seen:
            self._seen[key[:2]] = True
            return None
        self._rows.pop(shared, None)
        if key.apart not in self._halves:
            self._halves[key.apart] = Halves.of(self._profile, key.apart)
        rows = SharedRows.build(self._halves[key.apart], pod, nodes, call)
        if rows is not None:
            self._rows[shared] = rows
        return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class _KeepingWhatIf(ProfileWhatIf):
    """What-ifs of pods with a key: plugins keep what they make for these pods."""

    sharing: Sharing
    of: PodKey

    def kept(self, key: Hashable, cycle: CycleState, make: Callable[[], T]) -> T:
        """Return what was made for an earlier pod, unless a filter is apart: it may treat each pod differently."""
        filters = {plugin.name for plugin in self.profile.at(Point.FILTER)} & self.of.apart
        if filters - cycle.skip_filter:
            return make()
        both = self.of[:3], key
        found: T | None = self.sharing.kept.use(both)
        if found is None:
            found = self.sharing.kept[both] = make()
        return found


_PASSED = PreFilterOutcome(None, None, frozenset())
