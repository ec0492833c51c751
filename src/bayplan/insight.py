"""Answers to questions about scheduling on any cluster, which is only read. Public; see docs/insight.md."""

from typing import TYPE_CHECKING

from bayplan.foundations.lazy import lazily

if TYPE_CHECKING:
    from bayplan.answers.insight.answers import Answer, QuestionError, Stopped
    from bayplan.answers.insight.checking.check import Check
    from bayplan.answers.insight.foresight import Foresight
    from bayplan.answers.insight.insight import Insight
    from bayplan.answers.insight.limits import LimitError, Limits
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
    from bayplan.answers.insight.questions.upgrade_preview import UpgradePreview
    from bayplan.answers.insight.questions.usage import Requests
    from bayplan.answers.insight.questions.what_if import WhatIf
    from bayplan.answers.insight.questions.when import When
    from bayplan.answers.insight.questions.when_pending import PendingStarts
    from bayplan.answers.insight.questions.why_not import WhyNot
    from bayplan.answers.snapshots import Gap, Snapshot, SnapshotError

__all__ = [
    "Answer",
    "Balance",
    "Capacity",
    "Changes",
    "Check",
    "Difference",
    "Drain",
    "Explanation",
    "Fit",
    "Foresight",
    "Gap",
    "Insight",
    "LimitError",
    "Limits",
    "PendingPods",
    "PendingStarts",
    "QuestionError",
    "Requests",
    "ScaleUp",
    "Shrink",
    "Snapshot",
    "SnapshotError",
    "Stopped",
    "UpgradePreview",
    "WhatIf",
    "When",
    "WhyNot",
]

__getattr__, __dir__ = lazily(__name__)
