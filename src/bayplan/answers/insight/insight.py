"""Insight: asks questions about a snapshot. It keeps the world, so that only the first question waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bayplan.answers.insight.answers import Answer, Progress, QuestionError, Stopped, silent
from bayplan.answers.insight.asked_world import AskedWorld
from bayplan.answers.insight.limits import EXAMPLES, MOST_NEW_NODES, AdditionLimit
from bayplan.answers.insight.namespaces import check_namespace
from bayplan.answers.insight.owners import workload_called
from bayplan.answers.insight.question_list import LISTED
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import JOB
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.config import ExtraPlugin, KubeSchedulerConfiguration
from bayplan.core.versions import FeatureGates
from bayplan.foundations.lazy import import_named, on_use

with on_use():
    from bayplan.answers.insight import nodes as node_names
    from bayplan.answers.insight.checking import check
    from bayplan.answers.insight.questions import (
        balance,
        capacity,
        diff,
        doctor,
        documents,
        drain,
        drain_rules,
        edits,
        explain,
        fit,
        freeing,
        kueue,
        node_groups,
        node_search,
        pending,
        raised_priority,
        requests_trials,
        scale_up,
        shrink,
        starts,
        suspended,
        targets,
        upgrade_preview,
        usage,
        what_if,
        when,
        when_pending,
        why_not,
        workload,
    )


if TYPE_CHECKING:  # only the asked question is imported
    from bayplan.answers.insight.checking.check import Check
    from bayplan.answers.insight.foresight import Foresight
    from bayplan.answers.insight.questions.balance import Balance
    from bayplan.answers.insight.questions.capacity import Capacity
    from bayplan.answers.insight.questions.diff import Difference
    from bayplan.answers.insight.questions.doctor import Doctor
    from bayplan.answers.insight.questions.drain import Drain
    from bayplan.answers.insight.questions.edits import Changes
    from bayplan.answers.insight.questions.explain import Explanation
    from bayplan.answers.insight.questions.fit import Fit
    from bayplan.answers.insight.questions.pending import PendingPods
    from bayplan.answers.insight.questions.scale_up import ScaleUp
    from bayplan.answers.insight.questions.shrink import Shrink
    from bayplan.answers.insight.questions.upgrade_preview import UpgradePreview
    from bayplan.answers.insight.questions.usage import Requests
    from bayplan.answers.insight.questions.what_if import WhatIf
    from bayplan.answers.insight.questions.when import When
    from bayplan.answers.insight.questions.when_pending import PendingStarts
    from bayplan.answers.insight.questions.why_not import WhyNot


class Insight(AskedWorld):
    """Answers questions about the cluster of a snapshot, as a scheduler with this configuration would decide.

    Without a configuration, that is kube-scheduler's default profile, with `plugins` after the default ones. `seed`
    chooses among nodes with equal scores. Answers depend on nothing else. A question that adds more to the cluster than
    `limits` allow is a LimitError. `gates`: the version of Kubernetes to decide as, with its feature gates; by default,
    the snapshot's version, in which pods of PodGroups are placed together. Raises ConfigurationError or
    PluginLoadError.
    """

    # Every question takes `shown`, the most rows of a table (0 for all), and most take `progress`, which may raise
    # Stopped: the answer then has what is known so far.

    def ask(self, name: str, /, *, shown: int = 20, progress: Progress = silent, **parameters: Any) -> Answer:
        """Ask the question with a name, such as `why-not`, with the parameters of its struct. Raises QuestionError.

        So every question can be asked, also one that has no method here.
        """
        if name not in LISTED:
            raise QuestionError(f"there is no question {name}; there is {', '.join(LISTED)}")
        answer: Answer = import_named(LISTED[name].place).of(parameters).ask(self, progress, shown)
        return answer

    def explain(self, pod: str, *, shown: int = 20, nearest: int = 10, progress: Progress = silent) -> Explanation:
        """Explain why a pod is pending or on its node. `pod`: `namespace/name`. Raises QuestionError.

        `nearest`: the number of nearest misses; 0 for all.
        """
        self.world.reset()
        asked, trials = self.pod(pod), self._trials.all()
        found = explain.explain(self.world, asked, nearest=nearest, shown=shown, progress=progress, **trials)
        return replace(found, notes=(*found.notes, *kueue.gated_by_kueue(self.snapshot, asked)))

    def explain_all(
        self,
        namespace: str | None = None,
        matches: Callable[[PodInfo], bool] = lambda _: True,
        *,
        examples: int = EXAMPLES,
        free: bool = True,
        shown: int = 20,
        progress: Progress = silent,
    ) -> PendingPods:
        """Explain all pending pods, or those of a namespace and with `matches`, summed up by cause.

        `examples`: for how many of the largest causes the first pod is explained. `free`: whether to find the single
        changes that free the most of these pods. Raises QuestionError for a namespace that doesn't exist.
        """
        in_order = self._pending(namespace, matches)
        what = "the cluster" if namespace is None else f"namespace {namespace}"
        found = pending.explain_all(
            self.world, what, in_order, examples=examples, shown=shown, progress=progress, **self._trials.of_many()
        )
        if not free or found.interrupted:
            return found
        best = freeing.freeing(self.world, in_order, progress)
        return replace(found, freeing=best, interrupted=best.interrupted)

    def explain_owner(
        self,
        kind: str,
        name: str,
        namespace: str = "default",
        matches: Callable[[PodInfo], bool] = lambda _: True,
        *,
        shown: int = 20,
        progress: Progress = silent,
    ) -> PendingPods:
        """Explain the pods of a workload, such as `("deployment", "web")`, by cause. Raises QuestionError."""
        self.world.reset()
        known, pods = workload_called(self.snapshot, self._pods, kind, namespace, name)
        what = f"{known.singular} {namespace}/{name}"
        found = pending.explain_all(
            self.world, what, filter(matches, pods), shown=shown, progress=progress, **self._trials.of_many()
        )
        key = f"{namespace}/{name}"
        missing = workload.missing_pods(self.snapshot, known, key, pods, self.seed)
        if missing is not None and known is JOB:
            missing = suspended.if_not_suspended(missing, self.snapshot, self.world, key, self._manifests(progress))
        return replace(found, missing=missing)

    def why_not(self, pod: str, node: str, *, progress: Progress = silent) -> WhyNot:
        """Return everything between a pod (`namespace/name`) and a node. Raises QuestionError."""
        self.world.reset()
        return why_not.why_not(self.world, self.pod(pod), node, progress, self._trials.confirm)

    def fit(self, objects: Iterable[Mapping[str, Any]], *, shown: int = 20, progress: Progress = silent) -> Fit:
        """Return whether the pods of these objects (documents) would all be placed now. Raises QuestionError."""
        self.world.reset()
        try:
            expansion = self._manifests(progress).deploy(objects)
        except Stopped:
            return fit.Fit((), shown, interrupted=True)
        return fit.fit(self.world, expansion, shown=shown, progress=progress)

    def check(
        self,
        objects: Iterable[Mapping[str, Any]],
        *,
        fail_on: str = "error",
        shown: int = 20,
        progress: Progress = silent,
    ) -> Check:
        """Return what is wrong with objects (documents). It fails from level `fail_on` on. Raises QuestionError."""
        return check.check(self, objects, fail_on=fail_on, shown=shown, progress=progress)

    def what_if(
        self,
        changes: Changes | None = None,
        configuration: KubeSchedulerConfiguration | None = None,
        plugins: Sequence[ExtraPlugin] = (),
        *,
        price_of: Callable[[Mapping[str, str]], float | None] | None = None,
        shown: int = 20,
        progress: Progress = silent,
    ) -> WhatIf:
        """Return which pods change after changes of the cluster, and the utilization before and after.

        With a `configuration`, a scheduler with that one and `plugins` decides about the changed cluster. `price_of` is
        for what new requests save, `shown` as for `capacity`. Raises QuestionError, and Stopped if `progress` does
        before anything is known.
        """
        self.world.reset()
        same = configuration is None or (configuration, [*plugins]) == (self.configuration, [*self.plugins])
        other = self.world if same else World(configuration, plugins, self.gates, seed=self.seed)
        args = self.world, other, self.snapshot, changes or edits.Changes(), self.seed, self.limits, price_of
        return requests_trials.ChangesQuestion(*args).answer(shown, progress)

    def balance(
        self, like: str | None = None, objects: Iterable[Mapping[str, Any]] = (), *, most: int = 1000, shown: int = 20
    ) -> Balance:
        """Return how evenly the cluster is used, what is stranded, and the largest pods and the largest gang that fit.

        The members of the gang are like a pod (`namespace/name`), or like the first pod of `objects` (documents); by
        default, they have the typical requests of the cluster's pods. `most`: the largest gang that is tried.
        `shown`: as for `capacity`. Raises QuestionError.
        """
        self.world.reset()
        pod = None if like is None else documents.pod_document(documents.pending_copy(self.pod(like)))
        if like is None:
            expansion = self._manifests().expand(objects)
            pod = next(iter(expansion.pods), None)
        return balance.balance(self.world, most, pod, shown)

    def scale_up(
        self,
        objects: Iterable[Mapping[str, Any]] | None = None,
        matches: Callable[[PodInfo], bool] = lambda _: True,
        *,
        pools: Sequence[str] = (),
        most: int = MOST_NEW_NODES,
        price_of: Callable[[Mapping[str, str]], float | None] = lambda _: None,
        shown: int = 20,
        progress: Progress = silent,
    ) -> ScaleUp:
        """Return how many new nodes of which pool would be enough for the pending pods with `matches`.

        With `objects` (documents), for the pods of these. `pools`: those that may grow; by default, all. `most`: the
        most new nodes of a pool. `price_of`: the dollars for an hour of a node with some labels. `shown` and
        `progress`: as for `capacity`. Raises QuestionError.
        """
        self.world.reset()
        node_groups.check_pools(self.world, pools, self.snapshot.title)
        expansion = None if objects is None else self._manifests(progress).expand(objects)
        limits = node_search.PoolLimits(most, price_of)
        return scale_up.scale_up(
            self.world, expansion, pools=pools, matches=matches, limits=limits, shown=shown, progress=progress
        )

    def when(
        self,
        what: str = "",
        objects: Iterable[Mapping[str, Any]] | None = None,
        *,
        namespace: str = "default",
        foresight: Foresight | None = None,
        sooner: str = "auto",
        shown: int = 20,
        progress: Progress = silent,
    ) -> When:
        """Return in how long pods start, as the cluster goes on from now, and what would let them sooner.

        `what`: a pod, or `TYPE/NAME` of a workload or a PodGroup, whose pending pods are meant. `objects` (documents):
        new ones, whose pods are meant in place of `what`. `sooner`: `yes`, `no`, or `auto` for if that isn't too much
        work. `shown` and `progress`: as for `capacity`. Raises QuestionError.
        """
        self.world.reset()
        with self.world.what_if():
            new = None if objects is None else self._manifests(progress).expand(objects)
            setting, notes = starts.setting_of(self.world, self.snapshot, foresight, self.configuration, new)
            if new is not None:
                title, pods = targets.created(self.world, new)
            else:
                title, pods = targets.existing(self.world, self.snapshot, what, namespace, self.pod)
            wanted = when.WantedStarts(
                title=title,
                pods=pods,
                seed=self.seed,
                sooner=sooner,
                admission=targets.admission_asked(self.snapshot, what, namespace, pods),
                classes=raised_priority.priorities_of(self.snapshot),
                trials=self._trials.all() if objects is None else {},
            )
            return when.when(self.world, setting, wanted, notes, shown, progress)

    def when_pending(
        self,
        namespace: str | None = None,
        matches: Callable[[PodInfo], bool] = lambda _: True,
        *,
        foresight: Foresight | None = None,
        shown: int = 20,
        progress: Progress = silent,
    ) -> PendingStarts:
        """Return when each pending pod starts, or those of a namespace and with `matches`, as for `when`."""
        in_order = self._pending(namespace, matches)
        setting, notes = starts.setting_of(self.world, self.snapshot, foresight, self.configuration)
        return when_pending.when_pending(
            self.world,
            setting,
            in_order,
            notes,
            seed=self.seed,
            shown=shown,
            progress=progress,
        )

    def usage(
        self,
        namespace: str | None = None,
        matches: Callable[[PodInfo], bool] = lambda _: True,
        *,
        by: Sequence[str] = (),
        shown: int = 20,
    ) -> Requests:
        """Return what pods request, by `namespace`, `workload` and `priority`, or only `by` some of these.

        `namespace` and `matches` choose pods. Raises QuestionError for an unknown grouping or namespace.
        """
        groupings = usage.groupings_of(by)
        return usage.usage(self.world, self._chosen(namespace, matches), groupings, shown)

    def doctor(self, namespace: str | None = None, *, shown: int = 20, progress: Progress = silent) -> Doctor:
        """Return what is wrong now: schedulers, why pods wait, what holds the room, and what would place most.

        `namespace`: whose pods count; by default, all. Raises QuestionError for one that doesn't exist.
        """
        pending = self.explain_all(namespace, shown=shown, progress=progress)
        usage = self.usage(by=["workload"])
        return doctor.doctor(self.world, self._chosen(namespace), pending, usage, self.snapshot.gaps, shown)

    def upgrade_preview(
        self,
        after: FeatureGates,
        matches: Callable[[PodInfo], bool] = lambda _: True,
        *,
        settings: Sequence[str] = (),
        shown: int = 20,
        progress: Progress = silent,
    ) -> UpgradePreview:
        """Return what the version and the feature gates of `after` decide differently from those of this scheduler.

        `matches` chooses pods. `settings`: lines about what is set and `after` doesn't have. `shown`: as for
        `capacity`. Raises ConfigurationError if the configuration isn't one of that version.
        """
        both = (self.gates, after)
        return upgrade_preview.upgrade_preview(
            self.snapshot,
            upgrade_preview.schedulers(self.snapshot, self.configuration, self.plugins, both, self.seed),
            both,
            settings=settings,
            matches=matches,
            shown=shown,
            progress=progress,
        )

    def diff(self, other: Insight, names: tuple[str, str] = ("A", "B"), *, shown: int = 20) -> Difference:
        """Return what changes from this cluster and scheduler to another one's: nodes, pods and the utilization.

        Ask with two snapshots, or with two configurations for one. `names`: what the answer calls them. `shown`:
        as for `capacity`.
        """
        self.world.reset()
        other.world.reset()
        return diff.diff(self.world, other.world, (self.snapshot, other.snapshot), names, shown)

    def changed(self, changes: Changes, *, progress: Progress = silent) -> Insight:
        """Return an Insight about this cluster after changes, with their rollouts. Raises QuestionError and Stopped."""
        self.world.reset()
        other, room = self.renewed(), AdditionLimit(self.limits, progress)
        other.move(what_if.changed_snapshot(self.world, self.snapshot, changes, self.seed, room))
        return other

    def capacity(
        self,
        *kinds: Iterable[Mapping[str, Any]],
        ratio: Sequence[int] = (),
        most: int | None = None,
        preempt: bool = False,
        labels: Sequence[str] = (),
        shown: int = 20,
        progress: Progress = silent,
    ) -> Capacity:
        """Return how many more pods fit. Each of `kinds` are the manifests (documents) of one kind of pods.

        All pods of a kind's manifests are one copy of it; workloads count with one replica. `ratio`: the copies of each
        kind in a set, by default one. `most`: the number of sets after which to stop. `preempt`: whether the pods may
        evict others. `labels`: node labels to group by. `shown`: rows in tables. `progress` may raise Stopped; the
        answer then has what is known so far. Raises QuestionError.
        """
        self.world.reset()
        demands = capacity.demands_of(kinds, ratio, lambda documents: self._manifests().expand(documents))
        return capacity.capacity(
            self.world, demands, most=most, preempt=preempt, labels=labels, shown=shown, progress=progress
        )

    def drain(
        self,
        nodes: Sequence[str],
        *,
        ignore_daemonsets: bool = False,
        delete_emptydir_data: bool = False,
        force: bool = False,
        at_once: bool = False,
        shown: int = 20,
        progress: Progress = silent,
    ) -> Drain:
        """Return what `kubectl drain` of nodes with these flags leads to. Raises QuestionError for an unknown node.

        All nodes are cordoned first. Then they are drained one after the other, as kubectl does, or all `at_once`.
        `shown` and `progress`: as for `capacity`.
        """
        for name in nodes:
            if self.world.state.nodes.position(name) is None:
                raise QuestionError(node_names.no_node(name, self.nodes(), f" in {self.snapshot.title}"))
        self.world.reset()
        rules = drain_rules.DrainRules(
            ignore_daemonsets, delete_emptydir_data, force, self.snapshot.may_have_daemon_set
        )
        names = list(dict.fromkeys(nodes))
        return drain.drain(self.world, names, rules, at_once=at_once, shown=shown, progress=progress)

    def shrink(
        self,
        matches: Callable[[Mapping[str, str]], bool] = lambda _: True,
        *,
        delete_emptydir_data: bool = False,
        force: bool = False,
        shown: int = 20,
        progress: Progress = silent,
    ) -> Shrink:
        """Return the largest set of nodes found that can go with every pod still placed, and what holds the others.

        `matches`: which nodes may go, by their labels. The flags are those of `kubectl drain`; pods of DaemonSets are
        always ignored. `shown` and `progress`: as for `capacity`.
        """
        self.world.reset()
        rules = drain_rules.DrainRules(True, delete_emptydir_data, force, self.snapshot.may_have_daemon_set)
        return shrink.shrink(self.world, rules, matches=matches, shown=shown, progress=progress)

    def _chosen(self, namespace: str | None, matches: Callable[[PodInfo], bool] = lambda _: True) -> Sequence[PodInfo]:
        """The pods of a namespace, or of all, that match, in a world that nothing has touched."""
        self.world.reset()
        check_namespace(self.world, self.snapshot, namespace, self.snapshot.title)
        return [pod for pod in self._pods.values() if namespace in {None, pod.namespace} and matches(pod)]

    def _pending(self, namespace: str | None, matches: Callable[[PodInfo], bool]) -> Sequence[PodInfo]:
        """The pending pods of a namespace, or of all, that match, in the order of their names."""
        pending = (pod for pod in self._chosen(namespace, matches) if not pod.node_name)
        return sorted(pending, key=lambda pod: pod.key)
