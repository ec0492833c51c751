"""The questions as types: one definition for programs, assistants and people.

A question is a value with its parameters, which msgspec reads from JSON and describes as a schema. `ask` calls the
method of Insight that answers it, and `command` is what a person would type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from bayplan.answers.insight.answers import Progress, QuestionError, silent
from bayplan.answers.insight.cluster_questions import AskDoctor, AskUpgradePreview, AskUsage
from bayplan.answers.insight.insight import Insight
from bayplan.answers.insight.limits import LARGEST_POOL, MOST_NEW_NODES
from bayplan.answers.insight.prices import Prices
from bayplan.answers.insight.question_parameters import (
    BEFORE,
    CONFIG,
    EXAMPLE,
    FILE,
    MOST,
    PRICES,
    AnyNamespace,
    ConfigurationObject,
    Name,
    Namespace,
    NodeName,
    Number,
    ObjectList,
    PodName,
    Question,
    Selector,
    configured,
    each,
    flag,
    option,
    parsed,
    pod_key,
    selecting,
)
from bayplan.answers.insight.questions.balance import Balance
from bayplan.answers.insight.questions.capacity import Capacity
from bayplan.answers.insight.questions.diff import Difference
from bayplan.answers.insight.questions.drain import Drain
from bayplan.answers.insight.questions.edits import Changes
from bayplan.answers.insight.questions.explain import Explanation
from bayplan.answers.insight.questions.fit import Fit
from bayplan.answers.insight.questions.pending import PendingPods
from bayplan.answers.insight.questions.scale_up import ScaleUp
from bayplan.answers.insight.questions.shrink import Shrink
from bayplan.answers.insight.questions.what_if import WhatIf
from bayplan.answers.insight.questions.why_not import WhyNot
from bayplan.answers.snapshots import Snapshot, SnapshotError
from bayplan.core.cluster.pod_info import PodInfo


class AskExplain(Question, frozen=True, kw_only=True):
    """Explain why a pod is pending and what would help, or why it is on its node."""

    name: ClassVar[str] = "explain"
    example: ClassVar[Mapping[str, Any]] = {"pod": "default/web-0"}
    narrowing = "ask why-not about one node"
    pod: PodName
    namespace: Namespace = "default"
    nearest: Annotated[int, Meta(ge=0, le=MOST, description="The number of nearest misses; 0 for all.")] = 10

    def ask(self, insight: Insight, progress: Progress = silent, shown: int = 20) -> Explanation:
        """Ask `Insight.explain`."""
        key = pod_key(self.pod, self.namespace)
        return insight.explain(key, shown=shown, nearest=self.nearest, progress=progress)

    def arguments(self) -> Iterator[str]:
        """Yield the arguments of `bayplan explain`."""
        yield from ("explain", pod_key(self.pod, self.namespace))


class ExplainPending(Question, frozen=True, kw_only=True):
    """Explain all pending pods, summed up by cause, with the single changes that would free the most of them."""

    name: ClassVar[str] = "explain-pending"
    narrowing = "give a namespace or a selector"
    namespace: AnyNamespace | None = None
    selector: Selector = ""

    def ask(self, insight: Insight, progress: Progress = silent, shown: int = 20) -> PendingPods:
        """Ask `Insight.explain_all`."""
        return insight.explain_all(self.namespace, selecting(self.selector), shown=shown, progress=progress)

    def arguments(self) -> Iterator[str]:
        """Yield the arguments of `bayplan explain`."""
        yield from ("explain", "--all-pending", *option("-n", self.namespace), *option("-l", self.selector))


class ExplainWorkload(Question, frozen=True, kw_only=True):
    """Explain the pods of a workload by cause: why they are pending, or why they don't exist."""

    name: ClassVar[str] = "explain-workload"
    example: ClassVar[Mapping[str, Any]] = {"workload": "deployment/web"}
    narrowing = "give a selector"
    workload: Annotated[Name, Meta(description="TYPE/NAME.", pattern="^[^/]+/[^/]+$", examples=["deployment/web"])]
    namespace: Namespace = "default"
    selector: Selector = ""

    def ask(self, insight: Insight, progress: Progress = silent, shown: int = 20) -> PendingPods:
        """Ask `Insight.explain_owner`."""
        kind, _, name = self.workload.partition("/")
        matches = selecting(self.selector)
        return insight.explain_owner(kind.lower(), name, self.namespace, matches, shown=shown, progress=progress)

    def arguments(self) -> Iterator[str]:
        """Yield the arguments of `bayplan explain`."""
        yield from ("explain", self.workload, "-n", self.namespace, *option("-l", self.selector))


class AskWhyNot(Question, frozen=True, kw_only=True):
    """Return everything that keeps a pod from a node, and what would help."""

    name: ClassVar[str] = "why-not"
    example: ClassVar[Mapping[str, Any]] = {"pod": "default/web-0", "node": "node-a"}
    pod: PodName
    node: NodeName
    namespace: Namespace = "default"

    def ask(self, insight: Insight, progress: Progress = silent, shown: int = 20) -> WhyNot:
        """Ask `Insight.why_not`."""
        return insight.why_not(pod_key(self.pod, self.namespace), self.node.removeprefix("node/"), progress=progress)

    def arguments(self) -> Iterator[str]:
        """Yield the arguments of `bayplan why-not`."""
        yield from ("why-not", pod_key(self.pod, self.namespace), self.node)


class AskFit(Question, frozen=True, kw_only=True):
    """Return whether all pods of manifests would be placed now, where, and which pods they would preempt."""

    name: ClassVar[str] = "fit"
    example: ClassVar[Mapping[str, Any]] = {"objects": EXAMPLE}
    narrowing = "ask about fewer objects"
    objects: ObjectList

    def ask(self, insight: Insight, progress: Progress = silent, shown: int = 20) -> Fit:
        """Ask `Insight.fit`."""
        return insight.fit(self.objects, shown=shown, progress=progress)

    def arguments(self) -> Iterator[str]:
        """Yield the arguments of `bayplan fit`."""
        yield from ("fit", "-f", FILE)


class PodKind(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Manifests whose pods are one copy of a kind of pods. A workload counts with one replica."""

    objects: ObjectList
    copies: Annotated[int, Meta(ge=1, le=10_000, description="The copies of the kind in a set.")] = 1


class AskCapacity(Question, frozen=True, kw_only=True):
    """Return how many more pods of manifests fit, what stops the next one, and on which nodes they are."""

    name: ClassVar[str] = "capacity"
    example: ClassVar[Mapping[str, Any]] = {"kinds": [{"objects": EXAMPLE}]}
    narrowing = "ask about fewer kinds"
    kinds: Annotated[list[PodKind], Meta(min_length=1, max_length=100, description="They are placed set by set.")]
    most: Annotated[Number, Meta(description="The number of sets after which to stop.")] | None = None
    preempt: Annotated[bool, Meta(description="Whether the pods may evict pods of lower priority.")] = False
    labels: Annotated[list[Name], Meta(max_length=20, description="Labels of nodes to group by.")] = []

    def ask(self, insight: Insight, progress: Progress = silent, shown: int = 20) -> Capacity:
        """Ask `Insight.capacity`."""
        return insight.capacity(
            *(kind.objects for kind in self.kinds),
            ratio=[kind.copies for kind in self.kinds],
            most=self.most,
            preempt=self.preempt,
            labels=self.labels,
            shown=shown,
            progress=progress,
        )

    def arguments(self) -> Iterator[str]:
        """Yield the arguments of `bayplan capacity`."""
        yield "capacity"
        for number, kind in enumerate(self.kinds, start=1):
            file = FILE if len(self.kinds) == 1 else f"objects-{number}.yaml"
            yield from ("-f", f"{file}={kind.copies}" if kind.copies > 1 else file)
        yield from (*option("--most", self.most), *flag("--preempt", self.preempt), *each("--by", self.labels))


class AskDrain(Question, frozen=True, kw_only=True):
    """Return what `kubectl drain` of nodes would lead to: where pods go, and what blocks the drain."""

    name: ClassVar[str] = "drain"
    example: ClassVar[Mapping[str, Any]] = {"nodes": ["node-a"], "ignoreDaemonsets": True}
    narrowing = "drain fewer nodes"
    nodes: Annotated[list[NodeName], Meta(max_length=10_000)] = []
    selector: Annotated[Selector, Meta(description="The nodes with these labels, in place of names.")] = ""
    ignore_daemonsets: Annotated[bool, Meta(description="Ignore pods of DaemonSets.")] = False
    delete_emptydir_data: Annotated[bool, Meta(description="Continue even if there are pods using emptyDir.")] = False
    force: Annotated[bool, Meta(description="Continue even if there are pods without a controller.")] = False
    at_once: Annotated[bool, Meta(description="Drain all nodes at the same time, not one after the other.")] = False

    def ask(self, insight: Insight, progress: Progress = silent, shown: int = 20) -> Drain:
        """Ask `Insight.drain`."""
        if bool(self.nodes) is bool(self.selector):
            raise QuestionError("expected the names of nodes, or a selector")
        names = [name.removeprefix("node/") for name in self.nodes]
        if self.selector:
            names = insight.nodes(parsed(self.selector).matches)
        if not names:
            raise QuestionError(f"no node has the labels {self.selector}")
        return insight.drain(
            names,
            ignore_daemonsets=self.ignore_daemonsets,
            delete_emptydir_data=self.delete_emptydir_data,
            force=self.force,
            at_once=self.at_once,
            shown=shown,
            progress=progress,
        )

    def arguments(self) -> Iterator[str]:
        """Yield the arguments of `bayplan drain`."""
        yield from ("drain", *self.nodes, *option("-l", self.selector))
        yield from flag("--ignore-daemonsets", self.ignore_daemonsets)
        yield from flag("--delete-emptydir-data", self.delete_emptydir_data)
        yield from (*flag("--force", self.force), *flag("--at-once", self.at_once))


class AskShrink(Question, frozen=True, kw_only=True):
    """Return the largest set of nodes found that can go with every pod still placed, and what holds the others."""

    name: ClassVar[str] = "shrink"
    narrowing = "give a selector"
    selector: Annotated[Selector, Meta(description="Only nodes with these labels may go.")] = ""
    delete_emptydir_data: Annotated[bool, Meta(description="Let nodes go even if pods use emptyDir.")] = False
    force: Annotated[bool, Meta(description="Let nodes go even if pods have no controller.")] = False

    def ask(self, insight: Insight, progress: Progress = silent, shown: int = 20) -> Shrink:
        """Ask `Insight.shrink`."""
        selector = parsed(self.selector)
        return insight.shrink(
            selector.matches,
            delete_emptydir_data=self.delete_emptydir_data,
            force=self.force,
            shown=shown,
            progress=progress,
        )

    def arguments(self) -> Iterator[str]:
        """Yield the arguments of `bayplan shrink`."""
        yield from ("shrink", *option("-l", self.selector))
        yield from (*flag("--delete-emptydir-data", self.delete_emptydir_data), *flag("--force", self.force))


class AskScaleUp(Question, frozen=True, kw_only=True):
    """Return how many new nodes of which pool would be enough for what is pending, or for the pods of manifests."""

    name: ClassVar[str] = "scale-up"
    narrowing = "give a namespace, a selector or pools"
    objects: Annotated[ObjectList, Meta(description="Manifests, in place of the pending pods.")] | None = None
    namespace: AnyNamespace | None = None
    selector: Selector = ""
    pools: Annotated[list[Name], Meta(max_length=1000, description="The pools that may grow; by default, all.")] = []
    most: Annotated[int, Meta(ge=1, le=LARGEST_POOL, description="The most new nodes of a pool.")] = MOST_NEW_NODES
    prices: Annotated[
        dict[str, float],
        Meta(description="Dollars for an hour by instance type or pool: of equal pools, the cheapest counts."),
    ] = {}

    def ask(self, insight: Insight, progress: Progress = silent, shown: int = 20) -> ScaleUp:
        """Ask `Insight.scale_up`."""
        selects = selecting(self.selector)
        prices = Prices.of_document(self.prices, "prices") if self.prices else Prices({})

        def matches(pod: PodInfo) -> bool:
            return self.namespace in {None, pod.namespace} and selects(pod)

        return insight.scale_up(
            self.objects,
            matches,
            pools=self.pools,
            most=self.most,
            price_of=prices.of,
            shown=shown,
            progress=progress,
        )

    def arguments(self) -> Iterator[str]:
        """Yield the arguments of `bayplan scale-up`."""
        yield from ("scale-up", *option("-f", None if self.objects is None else FILE))
        yield from (*option("-n", self.namespace), *option("-l", self.selector), *each("--pool", self.pools))
        yield from option("--max-nodes", None if self.most == MOST_NEW_NODES else self.most)
        yield from option("--prices", PRICES if self.prices else None)


class CommonChanges(Question, frozen=True, kw_only=True):
    """Changes of a cluster, made in this order."""

    remove_nodes: Annotated[list[Name], Meta(description="Nodes: names, or label selectors such as pool=web.")] = []
    add_nodes: Annotated[list[Name], Meta(description="New nodes like another one.", examples=[["3xlike:node-a"]])] = []
    uncordon: Annotated[list[Name], Meta(description="Nodes.")] = []
    cordon: Annotated[list[Name], Meta(description="Nodes.")] = []
    labels: Annotated[list[tuple[Name, Name]], Meta(description="A node, and key=value, or key- to remove it.")] = []
    taints: Annotated[
        list[tuple[Name, Name]], Meta(description="A node, and key=value:Effect; with - at the end to remove it.")
    ] = []
    delete_pods: Annotated[list[PodName], Meta(description="Pods. Their controllers create them again.")] = []
    scale: Annotated[list[Name], Meta(description="Workloads.", examples=[["deployment/web=40"]])] = []
    objects: Annotated[ObjectList, Meta(description="New objects, with the pods of workloads.")] = []
    namespace: Namespace = "default"

    def changes(self, *, replace_all: bool = False) -> Changes:
        """Return the changes for Insight."""
        return Changes(
            remove_nodes=self.remove_nodes,
            add_nodes=self.add_nodes,
            uncordon=self.uncordon,
            cordon=self.cordon,
            labels=self.labels,
            taints=self.taints,
            delete_pods=self.delete_pods,
            scale=self.scale,
            objects=self.objects,
            replace_all=replace_all,
            namespace=self.namespace,
        )

    def arguments(self) -> Iterator[str]:
        """Yield the arguments of `bayplan what-if`."""
        yield "what-if"
        for field, name in _OPTIONS.items():
            yield from each(name, getattr(self, field))
        for name, pairs in (("--label", self.labels), ("--taint", self.taints)):
            for node, text in pairs:
                yield from (name, node, text)
        yield from (*each("--delete-pod", self.delete_pods), *each("--scale", self.scale))
        yield from option("-f", FILE if self.objects else None)
        if self.scale or self.delete_pods or self.objects:
            yield from ("-n", self.namespace)


_OPTIONS = {
    "remove_nodes": "--remove-node",
    "add_nodes": "--add-nodes",
    "uncordon": "--uncordon",
    "cordon": "--cordon",
}


class AskWhatIf(CommonChanges, frozen=True, kw_only=True):
    """Return which pods change after changes of the cluster or the scheduler, and the utilization before and after."""

    name: ClassVar[str] = "what-if"
    example: ClassVar[Mapping[str, Any]] = {"addNodes": ["3xlike:node-a"]}
    narrowing = "make fewer changes"
    replace_all: Annotated[bool, Meta(description="Whether placed pods are placed anew.")] = False
    configuration: Annotated[ConfigurationObject, Meta(description="That of the scheduler afterwards.")] | None = None

    def ask(self, insight: Insight, progress: Progress = silent, shown: int = 20) -> WhatIf:
        """Ask `Insight.what_if`."""
        changes = self.changes(replace_all=self.replace_all)
        if not changes and self.configuration is None:
            raise QuestionError("expected at least one change")
        with configured(self.configuration) as configuration:
            return insight.what_if(changes, configuration, shown=shown, progress=progress)

    def arguments(self) -> Iterator[str]:
        """Yield the arguments, and those that only a command has."""
        yield from super().arguments()
        yield from flag("--replace-all", self.replace_all)
        yield from option("--config", None if self.configuration is None else CONFIG)


class AskBalance(Question, frozen=True, kw_only=True):
    """Return how evenly the cluster is used, what is stranded, and the largest pods and the largest gang that fit."""

    name: ClassVar[str] = "balance"
    like: Annotated[PodName, Meta(description="A pod that the members of the gang are like.")] | None = None
    namespace: Namespace = "default"
    objects: Annotated[ObjectList, Meta(description="The members are like the first pod of these.")] = []
    most: Annotated[int, Meta(ge=1, le=50_000, description="The largest gang that is tried.")] = 1000

    def ask(self, insight: Insight, progress: Progress = silent, shown: int = 20) -> Balance:
        """Ask `Insight.balance`."""
        if self.like is not None and self.objects:
            raise QuestionError("like and objects: expected one of them")
        key = None if self.like is None else pod_key(self.like, self.namespace)
        return insight.balance(key, self.objects, most=self.most, shown=shown)

    def arguments(self) -> Iterator[str]:
        """Yield the arguments of `bayplan balance`."""
        yield from ("balance", *option("--like", self.like and pod_key(self.like, self.namespace)))
        yield from (*option("-f", FILE if self.objects else None),)
        yield from option("--most", None if self.most == 1000 else self.most)


class AskDiff(Question, frozen=True, kw_only=True):
    """Return what changes to this cluster from an earlier one, or from its scheduler to another configuration."""

    name: ClassVar[str] = "diff"
    example: ClassVar[Mapping[str, Any]] = {"before": EXAMPLE}
    before: Annotated[ObjectList, Meta(description="All objects of the earlier cluster.")] | None = None
    configuration: Annotated[ConfigurationObject, Meta(description="That of the other scheduler.")] | None = None

    def ask(self, insight: Insight, progress: Progress = silent, shown: int = 20) -> Difference:
        """Ask `Insight.diff`."""
        if (self.before is None) is (self.configuration is None):
            raise QuestionError("before and configuration: expected one of them")
        progress("reading")
        if self.before is not None:
            try:
                snapshot = Snapshot.of(self.before, source="the objects", taken=insight.snapshot.taken)
            except SnapshotError as error:
                raise QuestionError(f"before: {error}") from None
            first = Insight(snapshot, seed=insight.seed, limits=insight.limits)
            return first.diff(insight, (BEFORE, insight.snapshot.source), shown=shown)
        with configured(self.configuration) as configuration:
            other = Insight(insight.snapshot, configuration, seed=insight.seed, limits=insight.limits)
        return insight.diff(other, ("the present configuration", CONFIG), shown=shown)

    def arguments(self) -> Iterator[str]:
        """Yield the arguments of `bayplan diff`."""
        yield from ("diff", *([] if self.before is None else [BEFORE]))
        yield from option("--config", None if self.configuration is None else CONFIG)


QUESTIONS: Mapping[str, type[Question]] = {
    question.name: question
    for question in (
        AskExplain,
        ExplainPending,
        ExplainWorkload,
        AskWhyNot,
        AskFit,
        AskCapacity,
        AskDrain,
        AskShrink,
        AskScaleUp,
        AskWhatIf,
        AskBalance,
        AskUsage,
        AskDiff,
        AskUpgradePreview,
        AskDoctor,
    )
}
"""name -> the question"""
