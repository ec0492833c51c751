"""Answers to questions about scheduling on any cluster, which is only read. Public; see docs/insight.md."""

from typing import TYPE_CHECKING

from bayplan.lazy import lazily

if TYPE_CHECKING:
    from bayplan.insight.answers import Answer, QuestionError, Stopped
    from bayplan.insight.insight import Insight
    from bayplan.insight.limits import LimitError, Limits
    from bayplan.insight.questions.balance import Balance
    from bayplan.insight.questions.capacity import Capacity
    from bayplan.insight.questions.diff import Difference
    from bayplan.insight.questions.drain import Drain
    from bayplan.insight.questions.edits import Changes
    from bayplan.insight.questions.explain import Explanation
    from bayplan.insight.questions.fit import Fit
    from bayplan.insight.questions.pending import PendingPods
    from bayplan.insight.questions.scale_up import ScaleUp
    from bayplan.insight.questions.shrink import Shrink
    from bayplan.insight.questions.upgrade_preview import UpgradePreview
    from bayplan.insight.questions.usage import Requests
    from bayplan.insight.questions.what_if import WhatIf
    from bayplan.insight.questions.why_not import WhyNot
    from bayplan.insight.snapshot import Snapshot
    from bayplan.insight.sources.reading import Gap, SnapshotError

__all__ = [
    "Answer",
    "Balance",
    "Capacity",
    "Changes",
    "Difference",
    "Drain",
    "Explanation",
    "Fit",
    "Gap",
    "Insight",
    "LimitError",
    "Limits",
    "PendingPods",
    "QuestionError",
    "Requests",
    "ScaleUp",
    "Shrink",
    "Snapshot",
    "SnapshotError",
    "Stopped",
    "UpgradePreview",
    "WhatIf",
    "WhyNot",
]

__getattr__ = lazily(
    __name__,
    {
        "bayplan.insight.answers": ("Answer", "QuestionError", "Stopped"),
        "bayplan.insight.insight": ("Insight",),
        "bayplan.insight.limits": ("LimitError", "Limits"),
        "bayplan.insight.questions.balance": ("Balance",),
        "bayplan.insight.questions.capacity": ("Capacity",),
        "bayplan.insight.questions.diff": ("Difference",),
        "bayplan.insight.questions.drain": ("Drain",),
        "bayplan.insight.questions.edits": ("Changes",),
        "bayplan.insight.questions.explain": ("Explanation",),
        "bayplan.insight.questions.fit": ("Fit",),
        "bayplan.insight.questions.pending": ("PendingPods",),
        "bayplan.insight.questions.scale_up": ("ScaleUp",),
        "bayplan.insight.questions.shrink": ("Shrink",),
        "bayplan.insight.questions.upgrade_preview": ("UpgradePreview",),
        "bayplan.insight.questions.usage": ("Requests",),
        "bayplan.insight.questions.what_if": ("WhatIf",),
        "bayplan.insight.questions.why_not": ("WhyNot",),
        "bayplan.insight.snapshot": ("Snapshot",),
        "bayplan.insight.sources.reading": ("Gap", "SnapshotError"),
    },
)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
