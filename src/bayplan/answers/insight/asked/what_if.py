"""what-if as a question, and the changes that it shares with transactions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from bayplan.answers.insight.answers import Progress, QuestionError, silent
from bayplan.answers.insight.question_parameters import (
    FILE,
    PRICES,
    ConfigurationObject,
    Name,
    Namespace,
    ObjectList,
    Option,
    PodName,
    Question,
    RecommendationList,
    ScaledRequestList,
    configured,
)
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.insight import insight, prices
    from bayplan.answers.insight.questions import edits, what_if


class CommonChanges(Question, frozen=True, kw_only=True):
    """Changes of a cluster, made in this order."""

    remove_nodes: Annotated[
        list[Name],
        Meta(description="Nodes: names, or label selectors such as pool=web."),
        Option("--remove-node", metavar="NODE", help="Remove a node; the controllers of its pods create them again."),
    ] = []
    add_nodes: Annotated[
        list[Name],
        Meta(description="New nodes like another one.", examples=[["3xlike:node-a"]]),
        Option("--add-nodes", metavar="[Nx]like:NODE", help="Add nodes like another one, as in 3xlike:node-a."),
    ] = []
    uncordon: Annotated[
        list[Name], Meta(description="Nodes."), Option("--uncordon", metavar="NODE", help="Uncordon a node.")
    ] = []
    cordon: Annotated[
        list[Name], Meta(description="Nodes."), Option("--cordon", metavar="NODE", help="Cordon a node.")
    ] = []
    labels: Annotated[
        list[tuple[Name, Name]],
        Meta(description="A node, and key=value, or key- to remove it."),
        Option(
            "--label",
            metavar="NODE KEY=VALUE",
            help="Label a node, as in node-a disk=ssd; disk- removes the label.",
        ),
    ] = []
    taints: Annotated[
        list[tuple[Name, Name]],
        Meta(description="A node, and key=value:Effect; with - at the end to remove it."),
        Option(
            "--taint",
            metavar="NODE KEY=VALUE:EFFECT",
            help="Taint a node, as in node-a gpu=yes:NoSchedule; gpu:NoSchedule- or gpu- removes the taint.",
        ),
    ] = []
    delete_pods: Annotated[
        list[PodName],
        Meta(description="Pods. Their controllers create them again."),
        Option("--delete-pod", metavar="POD", help="Delete a pod; its controller creates it again."),
    ] = []
    scale: Annotated[
        list[Name],
        Meta(description="Workloads.", examples=[["deployment/web=40"]]),
        Option("--scale", metavar="TYPE/NAME=N", help="Scale a workload, as in deployment/web=40."),
    ] = []
    objects: Annotated[
        ObjectList,
        Meta(description="Objects to apply, with the pods of workloads. Changed workloads are rolled out."),
        Option(
            "-f",
            file=FILE,
            help="Apply the objects of a manifest in YAML or JSON, of a folder of these, or - for standard input. "
            "Changed workloads are rolled out.",
        ),
    ] = []
    requests: RecommendationList = []
    scale_requests: ScaledRequestList = []
    namespace: Annotated[Namespace, Option("-n", about=("scale", "delete_pods", "objects", "scale_requests"))] = (
        "default"
    )

    def changes(self, *, replace_all: bool = False) -> edits.Changes:
        """Return the changes for Insight."""
        return edits.Changes(
            remove_nodes=self.remove_nodes,
            add_nodes=self.add_nodes,
            uncordon=self.uncordon,
            cordon=self.cordon,
            labels=self.labels,
            taints=self.taints,
            delete_pods=self.delete_pods,
            scale=self.scale,
            objects=self.objects,
            requests=self.requests,
            scale_requests=self.scale_requests,
            replace_all=replace_all,
            namespace=self.namespace,
        )


class AskWhatIf(CommonChanges, frozen=True, kw_only=True):
    """Return which pods change after changes of the cluster or the scheduler, and the utilization before and after."""

    name: ClassVar[str] = "what-if"
    example: ClassVar[Mapping[str, Any]] = {"addNodes": ["3xlike:node-a"]}
    narrowing = "make fewer changes"
    replace_all: Annotated[
        bool,
        Meta(description="Whether placed pods are placed anew."),
        Option(
            "--replace-all",
            help="Place all pods anew, but for those of DaemonSets, static pods and pods of other schedulers.",
        ),
    ] = False
    prices: Annotated[
        dict[str, float],
        Meta(description="Dollars for an hour by instance type or pool: for what new requests save."),
        Option(
            "--prices",
            file=PRICES,
            metavar="FILE",
            help="Dollars for an hour by instance type or pool, in YAML: for what new requests save.",
        ),
    ] = {}
    configuration: Annotated[ConfigurationObject, Meta(description="That of the scheduler afterwards.")] | None = None

    def ask(self, insight: insight.Insight, progress: Progress = silent, shown: int = 20) -> what_if.WhatIf:
        """Ask `Insight.what_if`."""
        changes = self.changes(replace_all=self.replace_all)
        if not changes and self.configuration is None:
            raise QuestionError("expected at least one change")
        price_of = prices.Prices.of_document(self.prices, "prices").of if self.prices else None
        with configured(self.configuration) as configuration:
            return insight.what_if(changes, configuration, price_of=price_of, shown=shown, progress=progress)
