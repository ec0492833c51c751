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

__getattr__, __dir__ = lazily(__name__)
