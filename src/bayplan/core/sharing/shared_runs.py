"""Sharing: the results that pods of one profile share, and the runs that use them.

PodKey: what plugins read of the pod, and what their results rest on
   |
Sharing.start ----> an equal rejection in an equal state?  it is the decision
   |
SharedRows -------> verdicts and scores of all rows for this key; what changed is computed again
   |
unshared plugins ----> run for this pod, as those of a pod without shared rows do
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, TypeVar

from bayplan.core.cluster.columns import Int64
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.framework.calling import Caller
from bayplan.core.framework.capabilities import RejectsAgain
from bayplan.core.framework.gangs import Gang
from bayplan.core.framework.interface import CycleState, WhatIf
from bayplan.core.framework.pod_run import Alike, PodRun, Record, new_cycle
from bayplan.core.framework.profile import Point, Profile, implements
from bayplan.core.framework.runner import PreFilterOutcome, run_pre_filter
from bayplan.core.framework.status import PluginError
from bayplan.core.framework.verdicts import Diagnosis, Verdicts
from bayplan.core.framework.what_if import ProfileWhatIf, filter_nominated
from bayplan.core.sharing.keys import Keys, PodKey, post_filter_values
from bayplan.core.sharing.rows import LastRejection, SharedRows, SplitProfile
from bayplan.foundations.latest import LruDict

T = TypeVar("T")

CAPACITY = 32
"""Keys for which rows are kept per profile; with 5,000 nodes, those of one take about 250 kB, and up to 200 kB more for
sums of normalized scores."""
_SEEN = 1024
_KEPT = 8
"""For how many kinds of preemptors what a PostFilter plugin makes is kept."""


@dataclass(eq=False)
class KeyedRun(PodRun):
    """The run of a pod whose key is known, but not the results of its plugins."""

    sharing: Sharing
    key: PodKey

    @property
    def apart(self) -> bool:
        """Whether the plugins declare that, and no data of PreFilter has to follow changes of pods."""
        if self.sharing.rests_on_pods(self.key):
            return False
        cycle = self.cycle.clone()
        passed = run_pre_filter(self.profile, cycle, self.pod, self.nodes)
        return passed.refusal is None and cycle.skip_filter.issuperset(each.name for each in self.profile.extended)

    def what_if(self, rng: random.Random, actual: Verdicts | None) -> WhatIf:
        """Return what PostFilter is called with."""
        return _KeepingWhatIf(self.profile, self.state.nominations, rng, actual, sharing=self.sharing, of=self.key)

    def rejected_like(self, decision: Any) -> Alike | None:
        """Return what the pods have in common that are rejected as this one is; None if that is unknown."""
        nominations = self.state.nominations
        if nominations.node_of(self.pod.uid) is not None:
            return None
        try:
            key = self.sharing.alike(self.key, self.profile, self.pod, rejected=True)
        except PluginError as error:
            self.record(error, self.pod)
            return None
        if key is None:
            return None
        by_node = not nominations.nodes and self.sharing.fails_by_node(self.key, decision.diagnosis)
        return Alike(key, by_node)


@dataclass(eq=False)
class SharedRun(KeyedRun):
    """The run of a pod with the results of earlier pods that have the same key. `rows`: what they share."""

    rows: SharedRows
    _found: Verdicts | None = field(default=None, init=False)
    """The verdicts on all rows."""

    def pre_filter(self) -> PreFilterOutcome:
        """Return success: `SharedRows.begin` has run PreFilter, and pods that it narrows have no rows."""
        return _PASSED

    def filter(self, nodes: Nodes) -> Verdicts:
        """Return the verdicts on nodes. Raises PluginError."""
        if self._found is None:
            self._found = self._filter_all()
        return self._found if isinstance(nodes.rows, slice) else self._found.among(nodes)

    def _filter_all(self) -> Verdicts:
        rows, nominations = self.rows, self.state.nominations
        verdicts = rows.filter(self.cycle, self.pod)
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
        found, rows, feasible = self._found, nodes.rows, None
        if found is not None and (isinstance(rows, slice) or rows is found.feasible()):
            feasible = found.feasible_mask
        try:
            return {}, self.rows.total(self.cycle, self.pod, nodes, feasible)
        except PluginError:  # the plain run fails or not, as it would without sharing
            return super().score(nodes)

    def rejected_like(self, decision: Any) -> Alike | None:
        """Return what the pods have in common that are rejected as this one is. The decision is kept for them."""
        alike = super().rejected_like(decision)
        if alike is not None and not decision.diagnosis.post_filter_failed:
            self.rows.rejection = LastRejection(decision, alike.key, self.state.version, _others(self.state))
        return alike

    def rejected_again(self, rng: random.Random) -> Any:
        """Return the decision about the last equal pod that was rejected, if the nodes still reject this one alike.

        That is so where all verdicts are the same, and no PostFilter plugin can make room.
        """
        found, state = self.rows.rejection, self.state
        if (
            found is None
            or len(self.rows.verdicts.feasible())
            or not self.rows.verdicts.equal(found.decision.diagnosis.verdicts)
            or found.others != _others(state)
            or state.nominations.nodes
            or self.rows.filters_apart(self.cycle)
            or found.alike != self.sharing.alike(self.key, self.profile, self.pod, rejected=True)
        ):
            return None
        plugins, diagnosis = self.profile.at(Point.POST_FILTER), found.decision.diagnosis
        if not all(implements(each, RejectsAgain) for each in plugins):
            return None  # before any of them draws a random number
        if not all(each.rejects_again(self.pod, diagnosis, rng) for each in plugins):
            return None
        self.rows.rejection = found._replace(version=state.version)
        return found.decision


class Sharing:
    """What the pods of one profile share. `start` is a `pod_run.Start`.

    `capacity`: for how many keys rows are kept. `used` and `unused`: the runs with and without rows of earlier pods.
    """

    def __init__(self, profile: Profile, capacity: int = CAPACITY) -> None:
        self._profile = profile
        self._keys = Keys(profile)
        self._cache_key = object()
        """Of what PostFilter plugins read, in the caches of pods."""
        self._splits: dict[frozenset[str], SplitProfile] = {}
        self._rows: LruDict[Hashable, SharedRows] = LruDict(capacity)
        self._last: tuple[PodKey, SharedRows] | None = None
        """The rows that were used last, which are the last ones of `_rows`, and their key."""
        self._seen: LruDict[Hashable, bool] = LruDict(_SEEN)
        self.kept: LruDict[Hashable, Any] = LruDict(_KEPT)
        """(key of the pods, the plugin's own key) -> what a PostFilter plugin keeps for them."""
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
        nodes, run = state.nodes, None
        key = None if pod.nominated_node_name else self.key(pod, nodes, record)
        if key is not None:
            try:
                run = self._shared(key, profile, state, nodes, pod, call, record, gang)
            except PluginError:
                self._rows.pop(key[:3], None)
                self._last = key = None
        if run is not None:
            self.used += 1
            return run
        self.unused += 1
        plain = profile, state, nodes, pod, new_cycle(call, gang), record
        return PodRun(*plain) if key is None else KeyedRun(*plain, self, key)

    def _shared(
        self,
        key: PodKey,
        profile: Profile,
        state: ClusterState,
        nodes: Nodes,
        pod: PodInfo,
        call: Caller,
        record: Record,
        gang: Gang | None,
    ) -> PodRun | None:
        """Return a run with the results of earlier pods, if there are any. Raises PluginError."""
        rows = self._refreshed(key, pod, nodes, call)
        if rows is None:
            return None
        rejection = self._rejection(rows, key, profile, state, pod) if gang is None else None
        cycle = rows.begin(pod, nodes, gang) if rejection is None else rejection.cycle
        if cycle is None:
            return None
        return SharedRun(profile, state, nodes, pod, cycle, record, self, key, rows, decided=rejection)

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
        if key is None or not key.unshared:
            return key is not None
        each, cycle = SplitProfile.of(self._profile, key.unshared).unshared, CycleState()
        if run_pre_filter(each, cycle, pod, state.nodes).refusal is not None:
            return False
        return key.unshared.isdisjoint({plugin.name for plugin in each.at(Point.FILTER)} - cycle.skip_filter)

    def failure_depends_on(self, pod: PodInfo, state: ClusterState, plugins: AbstractSet[str]) -> Hashable | None:
        """Return what the rejection of a pod by these plugins depends on besides the pod and single nodes.

        None if that is unknown. Raises PluginError.
        """
        key = self._keys.of(pod, state.nodes, recurring=False)
        return None if key is None else self._keys.rest_of(key, plugins)

    def fails_by_node(self, key: PodKey, diagnosis: Diagnosis) -> bool:
        """Return whether a rejection is known to depend on the pod and single nodes only."""
        depends_on = self._keys.rest_of(key, diagnosis.unschedulable_plugins)
        return depends_on is not None and all(value == () for value in depends_on)

    def rests_on_pods(self, key: PodKey) -> bool:
        """Return whether the verdict or the score of a node may rest on pods on other nodes."""
        return self._keys.rests_on_pods(key)

    def alike(self, key: PodKey, profile: Profile, pod: PodInfo, *, rejected: bool = False) -> Hashable:
        """Return what all plugins read of a pod, and its priority; None if that is unknown.

        Pods with equal values are decided alike as long as the state is the same. `rejected`: whether that is needed of
        rejections only. `profile`: that of the attempt, which may have other PostFilter plugins. Raises PluginError.
        """
        deciding = key.rejecting if rejected else key.now
        preempting = None if deciding is None else self._post_filter_values(profile, pod)
        return None if preempting is None else (deciding, pod.priority, preempting)

    def _post_filter_values(self, profile: Profile, pod: PodInfo) -> Hashable:
        """What the PostFilter plugins read of a pod; None if one doesn't tell. Raises PluginError."""
        if profile is not self._profile:
            return post_filter_values(profile, pod)
        found: Hashable = pod.cache.get(self._cache_key, self)
        if found is self:
            found = pod.cache[self._cache_key] = post_filter_values(profile, pod)
        return found

    def _rejection(self, rows: SharedRows, key: PodKey, profile: Profile, state: ClusterState, pod: PodInfo) -> Any:
        """Return the decision about an equal pod that was rejected in an equal state, if there is one."""
        found = rows.rejection
        if found is None or found.version != state.version or state.nominations.node_of(pod.uid) is not None:
            return None
        return found.decision if found.alike == self.alike(key, profile, pod, rejected=True) else None

    def _refreshed(self, key: PodKey, pod: PodInfo, nodes: Nodes, call: Caller) -> SharedRows | None:
        """Return the rows of a key, which are up to date; None for the first pod. Raises PluginError."""
        last, self._last = self._last, None
        # the long key of the pods that come in a row isn't hashed again
        rows = self._rows.use(key[:3]) if last is None or last[0] is not key else last[1]
        if rows is not None and rows.refresh(pod, nodes, call):
            self._last = key, rows
            return rows
        if rows is None and key[:2] not in self._seen:
            self._seen[key[:2]] = True
            return None
        shared = key[:3]
        self._rows.pop(shared, None)
        if key.unshared not in self._splits:
            self._splits[key.unshared] = SplitProfile.of(self._profile, key.unshared)
        rows = SharedRows.build(self._splits[key.unshared], pod, nodes, call)
        if rows is not None:
            self._rows[shared] = rows
            self._last = key, rows
        return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class _KeepingWhatIf(ProfileWhatIf):
    """What-ifs of pods with a key: plugins keep what they make for these pods."""

    sharing: Sharing
    of: PodKey

    def kept(self, key: Hashable, cycle: CycleState, make: Callable[[], T]) -> T:
        """Return what was made for an earlier pod, unless a filter is unshared: it may treat each pod differently."""
        filters = {plugin.name for plugin in self.profile.at(Point.FILTER)} & self.of.unshared
        if filters - cycle.skip_filter:
            return make()
        both = self.of[:3], key
        found: T | None = self.sharing.kept.use(both)
        if found is None:
            found = self.sharing.kept[both] = make()
        return found


def _others(state: ClusterState) -> Hashable:
    return state.table.live_count, state.nominations.version, state.objects.version


_PASSED = PreFilterOutcome(None, None, frozenset())
