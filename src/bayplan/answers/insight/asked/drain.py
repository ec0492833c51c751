"""drain as a question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from bayplan.answers.insight.answers import Progress, QuestionError, silent
from bayplan.answers.insight.question_parameters import NodeName, Option, Question, Selector, Spoken, parsed
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.insight import insight
    from bayplan.answers.insight.questions import drain


class AskDrain(Question, frozen=True, kw_only=True):
    """Return what `kubectl drain` of nodes would lead to: where pods go, and what blocks the drain."""

    name: ClassVar[str] = "drain"
    spoken = Spoken(
        help="Show what `kubectl drain` of NODEs, or of the nodes with labels (-l), would lead to.\n\n"
        "Shows where the pods go, which stay pending and why, and which budgets, local storage, bare pods and "
        "DaemonSets keep the nodes from being drained. All nodes are cordoned first. Exits with 0 if all nodes are "
        "drained and all pods have a node again, with 1 if not, and with 2 for bad input. Ctrl-C shows what is "
        "known so far.",
        doing="Draining",
        expected="expected the names of nodes, or -l LABELS",
    )
    example: ClassVar[Mapping[str, Any]] = {"nodes": ["node-a"], "ignoreDaemonsets": True}
    narrowing = "drain fewer nodes"
    nodes: Annotated[list[NodeName], Meta(max_length=10_000), Option("", metavar="[NODE]...")] = []
    selector: Annotated[Selector, Meta(description="The nodes with these labels, in place of names.")] = ""
    ignore_daemonsets: Annotated[
        bool,
        Meta(description="Ignore pods of DaemonSets."),
        Option("--ignore-daemonsets", help="Ignore DaemonSet-managed pods."),
    ] = False
    delete_emptydir_data: Annotated[
        bool, Meta(description="Continue even if there are pods using emptyDir."), Option("--delete-emptydir-data")
    ] = False
    force: Annotated[
        bool,
        Meta(description="Continue even if there are pods without a controller."),
        Option("--force", help="Continue even if there are pods that do not declare a controller."),
    ] = False
    at_once: Annotated[
        bool,
        Meta(description="Drain all nodes at the same time, not one after the other."),
        Option(
            "--at-once/--one-by-one",
            help="Drain all nodes at the same time. Default: one after the other, as kubectl does.",
        ),
    ] = False

    @property
    def complete(self) -> bool:
        """Whether nodes are given, by name or by labels."""
        return bool(self.nodes) is not bool(self.selector)

    def ask(self, insight: insight.Insight, progress: Progress = silent, shown: int = 20) -> drain.Drain:
        """Ask `Insight.drain`."""
        if not self.complete:
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
