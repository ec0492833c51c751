"""What of a plan is recorded and compared: the decisions with all that follows from them.

Plans aren't inputs: a replay makes them again, and two summaries are equal if the decisions are.
"""

from __future__ import annotations

from msgspec.structs import replace

from bayplan.core.scheduling import Plan
from bayplan.running.recording.entries import PodDecided

Summary = tuple[tuple[PodDecided, ...], tuple[str, ...], tuple[tuple[str, str, tuple[str, ...]], ...]]
"""The fields of a PlanMade but for its times."""


def summary_of(plan: Plan) -> Summary:
    """The decisions of a plan with all that follows from them."""
    return (
        tuple(
            PodDecided(
                each.pod.uid,
                each.pod.key,
                each.node or "",
                each.outcome.value,
                each.message,
                each.nominated_node,
                tuple(victim.uid for victim in each.victims),
            )
            for each in plan.decisions
        ),
        tuple(each.pod.uid for each in plan.placed),
        tuple((each.pod.uid, each.node, tuple(victim.uid for victim in each.victims)) for each in plan.preemptions),
    )


LEFT_OUT = "(left out)"
"""What a redacted recording has in place of a text."""


def without_text(text: str) -> str:
    """A text as a redacted recording has it."""
    return LEFT_OUT if text else ""


def without_texts(summary: Summary) -> Summary:
    """A summary as a redacted recording has it, but for the names."""
    decisions, placed, preemptions = summary
    return tuple(replace(each, message=without_text(each.message)) for each in decisions), placed, preemptions
