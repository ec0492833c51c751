"""The next placement of a history that a scheduler would decide differently in the same situation.

The page's "next difference" asks here, for a step at a time. It finds exactly what asking all decisions finds, because
both ask `bayplan.answers.judging`.
"""

from __future__ import annotations

from collections.abc import Callable

from bayplan.answers.backtest.seen import SeenHistory
from bayplan.answers.history.moments import HistoryMoments
from bayplan.answers.insight.answers import listed, plural
from bayplan.answers.judging.judgement import Judgement
from bayplan.answers.moments.steps import NextDifference, Step, StepKind
from bayplan.answers.simulation.world import World


def next_difference(
    world: World, moments: HistoryMoments, number: int, enough: Callable[[], bool] = lambda: False
) -> NextDifference:
    """Look for the first placement after a moment for which the world's scheduler finds another node better, or none.

    `world`: it has the cluster at that moment; what happened is applied to it, and can be undone. `enough`: asked
    before each step; True ends the search there. Pods whose schedulerName has no profile are not asked about.
    """
    skipped, seen = 0, SeenHistory(world, moments.changes(number), moments.history.begin, moments.steps[:number])
    for step in seen:
        if enough():
            return NextDifference(None, step.number - 1, skipped=skipped)
        skipped += step.what is StepKind.PLACED and not has_profile(world, step)
        pod = seen.pod_to_ask(step)
        if pod is not None and not (judged := seen.judge(pod, step.node)).equal:
            return NextDifference(step.number, step.number - 1, _text(world, judged), skipped)
    return NextDifference(None, len(moments), skipped=skipped)


def has_profile(world: World, step: Step) -> bool:
    """Return whether the world's scheduler would decide about a pod that was placed."""
    pod = world.pod(step.subject)
    return pod is not None and pod.scheduler_name in world.profiles


def _text(world: World, judged: Judgement) -> str:
    """What the world's scheduler decides in place of a placement, and why."""
    if not judged.ours:
        return f"no node: {judged.message}"
    if judged.loss == float("inf"):
        return f"node {judged.ours}; {judged.theirs} is not feasible"
    plugins = judged.plugins(world.state.table)
    why = f" ({listed([f'{name} {points:+}' for name, points in plugins])})" if plugins else ""
    return f"node {judged.ours}, {plural(int(judged.loss), 'point')} better{why}"
