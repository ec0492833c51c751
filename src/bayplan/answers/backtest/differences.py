"""The next placement of a history that a scheduler would decide differently in the same situation."""

from __future__ import annotations

from collections.abc import Callable

from bayplan.answers.history.steps import NextDifference, Step, What

from bayplan.answers.history.moments import HistoryMoments, RecordedChange
from bayplan.answers.insight.answers import listed, plural
from bayplan.answers.judging.judgement import Judgement
from bayplan.answers.judging.order import AHEAD, NearBindings, SeenBinding, SeenEvent
from bayplan.answers.judging.placements import SeenPlacements
from bayplan.answers.simulation.world import World


def next_difference(
    world: World, moments: HistoryMoments, number: int, enough: Callable[[], bool] = lambda: False
) -> NextDifference:
    """Look for the first placement after a moment for which the world's scheduler finds another node better, or none.

    `world`: it has the cluster at that moment; what happened is applied to it, and can be undone. `enough`: asked
    before each step; True ends the search there. Pods whose schedulerName has no profile are not asked about.
    """
    skipped, near = 0, _near(moments, number)
    placements = SeenPlacements(world, near)
    for change in near:
        if isinstance(change, Step):
            if enough():
                return NextDifference(None, change.number - 1, skipped=skipped)
            if change.what is not What.PLACED:
                continue
            skipped += not has_profile(world, change)
            pod = placements.asked(change.subject, change.uid, change.node)
            if pod is not None and not (judged := placements.judge(pod, change.node)).equal:
                return NextDifference(change.number, change.number - 1, _text(world, judged), skipped)
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


def _near(moments: HistoryMoments, number: int) -> NearBindings[RecordedChange | Step]:
    """What happened from a moment on, with the bindings around each step."""
    begin, before = moments.history.begin, moments.steps[:number]
    latest = (moments.time(number) - begin).total_seconds()

    def read(change: RecordedChange | Step) -> SeenEvent:
        nonlocal latest
        if not isinstance(change, Step):
            return SeenEvent(latest)
        latest = (change.time - begin).total_seconds()
        if change.what is What.PLACED:
            return SeenEvent(latest, binding=SeenBinding(latest, change.subject, change.uid, change.node))
        return SeenEvent(latest, arrived=change.uid if change.what is What.ARRIVED else "")

    arrived = [step.uid for step in before if step.what is What.ARRIVED]
    near = NearBindings(moments.changes(number), read, {uid: place for place, uid in enumerate(arrived, 1)})
    seconds = [(step, (step.time - begin).total_seconds()) for step in before if step.what is What.PLACED]
    near.add_seen(SeenBinding(at, step.subject, step.uid, step.node) for step, at in seconds if at >= latest - AHEAD)
    return near


def _text(world: World, judged: Judgement) -> str:
    """What the world's scheduler decides in place of a placement, and why."""
    if not judged.ours:
        return f"no node: {judged.message}"
    if judged.loss == float("inf"):
        return f"node {judged.ours}; {judged.theirs} is not feasible"
    plugins = judged.plugins(world.state.table)
    why = f" ({listed([f'{name} {points:+}' for name, points in plugins])})" if plugins else ""
    return f"node {judged.ours}, {plural(int(judged.loss), 'point')} better{why}"
