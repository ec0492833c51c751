"""shrink as a question."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from bayplan.answers.insight.answers import Progress, silent
from bayplan.answers.insight.question_parameters import Option, Question, Selector, Spoken, parsed
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.insight import insight
    from bayplan.answers.insight.questions import shrink


class AskShrink(Question, frozen=True, kw_only=True):
    """Return the largest set of nodes found that can go with every pod still placed, and what holds the others."""

    name: ClassVar[str] = "shrink"
    spoken = Spoken(
        help="Show the largest set of nodes found that can go with every pod still placed, and what holds each other "
        "node.\n\n"
        "The least used nodes are tried first: a node can go if its pods may be evicted and all get another node "
        "without preemption. -l LABELS limits the nodes that may go. Ctrl-C shows what is known so far.",
        doing="Trying nodes",
    )
    narrowing = "give a selector"
    selector: Annotated[Selector, Meta(description="Only nodes with these labels may go.")] = ""
    delete_emptydir_data: Annotated[
        bool,
        Meta(description="Let nodes go even if pods use emptyDir."),
        Option("--delete-emptydir-data", help="Let nodes go even if there are pods using emptyDir."),
    ] = False
    force: Annotated[
        bool,
        Meta(description="Let nodes go even if pods have no controller."),
        Option("--force", help="Let nodes go even if there are pods that do not declare a controller."),
    ] = False

    def ask(self, insight: insight.Insight, progress: Progress = silent, shown: int = 20) -> shrink.Shrink:
        """Ask `Insight.shrink`."""
        selector = parsed(self.selector)
        return insight.shrink(
            selector.matches,
            delete_emptydir_data=self.delete_emptydir_data,
            force=self.force,
            shown=shown,
            progress=progress,
        )
