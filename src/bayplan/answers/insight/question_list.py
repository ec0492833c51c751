"""The list of the questions about a cluster. A question has one line here; every face reads it.

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


def _here(place: str, summary: str = "") -> ListedQuestion:
    """A question whose struct is in a module of `asked/`."""
    return ListedQuestion(f"bayplan.answers.insight.asked.{place}", summary)


LISTED = {
    "doctor": _here("doctor:AskDoctor", "Show what is wrong with a cluster now, on one screen."),
    "explain": _here("explain:AskExplain", "Explain why pods are pending, or why a pod is on its node."),
    "explain-pending": _here("explain:ExplainPending"),
    "explain-workload": _here("explain:ExplainWorkload"),
    "why-not": _here("why_not:AskWhyNot", "Show everything that keeps a pod from a node."),
    "fit": _here("fit:AskFit", "Show whether all pods of manifests would be placed now."),
    "check": _here(
        "check:AskCheck", "Check manifests before they are merged: fit, evictions, quota, rollouts, likely mistakes."
    ),
    "capacity": _here("capacity:AskCapacity", "Show how many more pods fit, and what stops the next one."),
    "drain": _here("drain:AskDrain", "Show where the pods of nodes would go, and what keeps them from being drained."),
    "shrink": _here("shrink:AskShrink", "Show which nodes can go, and what holds the others."),
    "scale-up": _here(
        "scale_up:AskScaleUp",
        "Show how many nodes of which pool would be enough for what is pending, or for manifests.",
    ),
    "when": _here("when:AskWhen", "Show when pods will start, what they wait for, and what would be sooner."),
    "when-pending": _here("when:WhenPending"),
    "what-if": _here("what_if:AskWhatIf", "Show which pods change if nodes, workloads or the scheduler change."),
    "balance": _here("balance:AskBalance", "Show how evenly a cluster is used, and the largest pods that fit."),
    "usage": _here("usage:AskUsage", "Show what pods request, by namespace, workload and priority."),
    "diff": _here("diff:AskDiff", "Show what changes between two snapshots, or between two configurations."),
    "upgrade-preview": _here(
        "upgrade_preview:AskUpgradePreview",
        "Show what the next version of Kubernetes would decide differently on a cluster.",
    ),
}
"""name -> the question, in the order in which faces show them"""
