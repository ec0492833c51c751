"""How far chance decides the order of pods that wait: the more of them, and the more often pods end."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.support.served_questions import new_pod, node

from bayplan.answers.insight.questions.starts import setting_of
from bayplan.core.api.durations import EXPECTED_DURATION
from bayplan.insight import Foresight, Insight, Snapshot

NOW = datetime(2026, 3, 2, 8, tzinfo=UTC)


def pods(prefix, number, cpu, expected, on=""):
    for each in range(number):
        document = new_pod(f"{prefix}-{each:03}", cpu)
        created = (NOW - timedelta(seconds=600 - each)).isoformat().replace("+00:00", "Z")
        document["metadata"] |= {
            "uid": f"{prefix}-{each}",
            "creationTimestamp": created,
            "annotations": {EXPECTED_DURATION: expected},
        }
        document["status"] = {"phase": "Pending"}
        if on:
            document["spec"]["nodeName"] = on
            document["status"] = {"phase": "Running", "startTime": created}
        yield document


def asked(running, waiting, expected):
    nodes = [node("a", cpu=str(running))]
    objects = [*nodes, *pods("old", running, "1", expected, "a"), *pods("new", waiting, "1", expected)]
    return Insight(Snapshot.of(objects, taken=NOW))


def mixed(running, waiting, expected):
    insight = asked(running, waiting, expected)
    return setting_of(insight.world, insight.snapshot, Foresight(), None)[0].mixed


def test_a_quiet_cluster_keeps_the_order_and_a_busy_one_does_not():
    assert mixed(4, 3, "20h") < 1e-4
    assert mixed(40, 60, "40s") > 0.99
    assert mixed(4, 3, "20h") < mixed(20, 20, "1h") < mixed(40, 40, "10m") <= mixed(40, 60, "40s") <= 1.0
    assert mixed(4, 0, "1m") == 0.0


@pytest.mark.parametrize(("expected", "in_order"), [("20h", True), ("700s", False)])
def test_equal_pods_start_in_order_unless_chance_decides(expected, in_order):
    waiting = 8 if in_order else 60
    insight = asked(4 if in_order else 40, waiting, expected)
    found = insight.when_pending(foresight=Foresight(runs=9))
    starts = {each.pod: each.start.p50 for each in found.pods}
    times = [starts[name] for name in sorted(starts)]
    assert (times == sorted(times)) is in_order
