"""What of a plan is recorded and compared."""

from __future__ import annotations

from bayplan.recording.entries import PodDecided
from bayplan.scheduling import Plan

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
