"""The next placement of a history that a scheduler would decide differently in the same situation."""

from __future__ import annotations

import random
from collections.abc import Callable

from bayplan.history.moments import HistoryMoments
from bayplan.history.steps import NextDifference, Step, What
from bayplan.insight.answers import listed, plural
from bayplan.scheduling import decide
from bayplan.simulation.choices import is_best, plugin_differences, score_at
from bayplan.simulation.world import World


def next_difference(
    world: World, moments: HistoryMoments, number: int, enough: Callable[[], bool] = lambda: False
) -> NextDifference:
    """Look for the first placement after a moment for which the world's scheduler finds another node better, or none.

    `world`: it has the cluster at that moment; what happened is applied to it, and can be undone. `enough`: asked
    before each step; True ends the search there. Pods whose schedulerName has no profile are not asked about.
    """
    skipped = 0
    for change in moments.changes(number):
        if isinstance(change, Step):
            if enough():
                return NextDifference(None, change.number - 1, skipped=skipped)
            if change.what is not What.PLACED:
                continue
            skipped += not has_profile(world, change)
            if other := differs(world, change):
                return NextDifference(change.number, change.number - 1, other, skipped)
        elif change.raw is None:
            world.change(change.kind, change.key, None)
        else:
            try:
                world.add(change.kind, change.key, change.raw)
            except ValueError:  # the snapshot of a later moment names the object
                continue
    return NextDifference(None, len(moments), skipped=skipped)


def has_profile(world: World, step: Step) -> bool:
    """Return whether the world's scheduler would decide about a pod that was placed."""
    pod = world.pod(step.subject)
    return pod is not None and pod.scheduler_name in world.profiles


def differs(world: World, step: Step) -> str:
    """Return what the world's scheduler decides in place of a placement; "" for the same node, or one as good."""
    pod, table = world.pod(step.subject), world.state.table
    if pod is None or pod.node_name or not has_profile(world, step) or step.node not in table.row_of:
        return ""
    decision = decide(world.profiles[pod.scheduler_name], world.state, pod, random.Random(0), explain=True)
    if is_best(table, decision, step.node):
        return ""
    if decision.node is None:
        return f"no node: {decision.message}"
    score, theirs = score_at(table, decision, decision.node), score_at(table, decision, step.node)
    if score is None or theirs is None:
        return f"node {decision.node}; {step.node} is not feasible"
    plugins = plugin_differences(table, decision, decision.node, step.node)
    why = f" ({listed([f'{name} {points:+}' for name, points in plugins])})" if plugins else ""
    return f"node {decision.node}, {plural(score - theirs, 'point')} better{why}"
