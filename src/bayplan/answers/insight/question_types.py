"""The list of the questions about a cluster, which are in `asked/`."""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.answers.insight.asked import (
    balance,
    capacity,
    check,
    diff,
    doctor,
    drain,
    explain,
    fit,
    scale_up,
    shrink,
    upgrade_preview,
    usage,
    what_if,
    when,
    why_not,
)
from bayplan.answers.insight.question_parameters import Question

QUESTIONS: Mapping[str, type[Question]] = {
    question.name: question
    for question in (
        explain.AskExplain,
        explain.ExplainPending,
        explain.ExplainWorkload,
        why_not.AskWhyNot,
        fit.AskFit,
        check.AskCheck,
        capacity.AskCapacity,
        drain.AskDrain,
        shrink.AskShrink,
        scale_up.AskScaleUp,
        when.AskWhen,
        when.WhenPending,
        what_if.AskWhatIf,
        balance.AskBalance,
        usage.AskUsage,
        diff.AskDiff,
        upgrade_preview.AskUpgradePreview,
        doctor.AskDoctor,
    )
}
"""name -> the question"""
