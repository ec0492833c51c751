"""The list of the questions about a cluster. Each has one line here, of which every face has it then.

A command, an operation of serve, a tool for assistants and `Insight.ask` are made of its struct. To add one: its line;
see `asked/`. Imports nothing, because `bayplan --help` shows it. `QUESTIONS` of `question_types.py` has the structs.
"""

from __future__ import annotations

from typing import NamedTuple


class ListedQuestion(NamedTuple):
    """Where the struct of a question is, as `module:class`, and what the help says of its command.

    Without a summary, it is asked by the command of another question.
    """

    place: str
    summary: str = ""


LISTED = {
    "doctor": ListedQuestion(
        "bayplan.answers.insight.asked.doctor:AskDoctor",
        "Show what is wrong with a cluster now, on one screen.",
    ),
    "explain": ListedQuestion(
        "bayplan.answers.insight.asked.explain:AskExplain",
        "Explain why pods are pending, or why a pod is on its node.",
    ),
    "explain-pending": ListedQuestion("bayplan.answers.insight.asked.explain:ExplainPending"),
    "explain-workload": ListedQuestion("bayplan.answers.insight.asked.explain:ExplainWorkload"),
    "why-not": ListedQuestion(
        "bayplan.answers.insight.asked.why_not:AskWhyNot",
        "Show everything that keeps a pod from a node.",
    ),
    "fit": ListedQuestion(
        "bayplan.answers.insight.asked.fit:AskFit",
        "Show whether all pods of manifests would be placed now.",
    ),
    "check": ListedQuestion(
        "bayplan.answers.insight.asked.check:AskCheck",
        "Check manifests before they are merged: fit, evictions, quota, rollouts, likely mistakes.",
    ),
    "capacity": ListedQuestion(
        "bayplan.answers.insight.asked.capacity:AskCapacity",
        "Show how many more pods fit, and what stops the next one.",
    ),
    "drain": ListedQuestion(
        "bayplan.answers.insight.asked.drain:AskDrain",
        "Show where the pods of nodes would go, and what keeps them from being drained.",
    ),
    "shrink": ListedQuestion(
        "bayplan.answers.insight.asked.shrink:AskShrink",
        "Show which nodes can go, and what holds the others.",
    ),
    "scale-up": ListedQuestion(
        "bayplan.answers.insight.asked.scale_up:AskScaleUp",
        "Show how many nodes of which pool would be enough for what is pending, or for manifests.",
    ),
    "when": ListedQuestion(
        "bayplan.answers.insight.asked.when:AskWhen",
        "Show when pods will start, what they wait for, and what would be sooner.",
    ),
    "when-pending": ListedQuestion("bayplan.answers.insight.asked.when:WhenPending"),
    "what-if": ListedQuestion(
        "bayplan.answers.insight.asked.what_if:AskWhatIf",
        "Show which pods change if nodes, workloads or the scheduler change.",
    ),
    "balance": ListedQuestion(
        "bayplan.answers.insight.asked.balance:AskBalance",
        "Show how evenly a cluster is used, and the largest pods that fit.",
    ),
    "usage": ListedQuestion(
        "bayplan.answers.insight.asked.usage:AskUsage",
        "Show what pods request, by namespace, workload and priority.",
    ),
    "diff": ListedQuestion(
        "bayplan.answers.insight.asked.diff:AskDiff",
        "Show what changes between two snapshots, or between two configurations.",
    ),
    "upgrade-preview": ListedQuestion(
        "bayplan.answers.insight.asked.upgrade_preview:AskUpgradePreview",
        "Show what the next version of Kubernetes would decide differently on a cluster.",
    ),
}
"""name -> the question, in the order in which faces show them"""
