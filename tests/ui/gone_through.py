"""Histories and recordings that the page goes through."""

from functools import partial
from pathlib import Path

from served_page import served
from tests.backtest.histories import pool_node, record

from bayplan.answers.backtest.settings import with_settings
from bayplan.answers.history.moments import HistoryMoments
from bayplan.answers.history.reading import History
from bayplan.answers.replay.policies import other_policy
from bayplan.answers.replay.recorded_moments import RecordingMoments
from bayplan.answers.simulation.happenings import NodeComes, NodeGoes, PodArrives
from bayplan.faces.ui.moments import MomentSources, compare_history, compare_recording
from bayplan.insight import Insight, Snapshot
from bayplan.running.recording.files import Recording
from bayplan.testing.builders import make_pod

RECORDING = Path(__file__).parents[1] / "data" / "recordings" / "version-1.tar"
PACKING = ("NodeResourcesFit.scoringStrategy.type=MostAllocated", "NodeResourcesFit.weight=20")


def write_day(folder, pods=30):
    """A history in which pods come and go, and a node comes and another one goes."""
    happenings = [
        PodArrives(60.0 + 40 * n, make_pod(f"web-{n}", cpu=f"{300 + 100 * (n % 5)}m"), 300.0 if n % 3 == 0 else None)
        for n in range(pods)
    ]
    happenings += [NodeComes(500.0, pool_node("late", cpu="8")), NodeGoes(700.0, "node-2")]
    nodes = [pool_node(f"node-{n}", zone="ab"[n % 2]) for n in range(4)]
    return record(folder, sorted(happenings, key=lambda each: each.at), seconds=2000, nodes=nodes)


def served_history(folder, *settings, **options):
    moments = HistoryMoments(History.open(folder))
    sources = MomentSources(moments, compare=partial(compare_history, moments))
    insight = Insight(Snapshot(), with_settings(None, (), settings))
    return served(sources.of(sources.first_shown), insight, moments=sources, **options)


def served_recording(*settings, path=RECORDING, **options):
    moments = RecordingMoments(Recording.runs(path))
    policy, other = moments.policy, None
    if settings:
        other = other_policy(policy, with_settings(policy.configuration, (), settings, policy.gates), ())
    compare = None if other is None else partial(compare_recording, moments, other)
    sources = MomentSources(moments, compare=compare)
    insight = Insight(Snapshot(), policy.configuration, gates=policy.gates)
    return served(sources.of(sources.first_shown), insight, moments=sources, **options)
