"""Which decision evicted a pod: the one whose eviction was sent."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from bayplan.answers.replay.evictions import EvictionsFor, EvictionsOf
from bayplan.answers.replay.moments import PodNames, RecordedDecision
from bayplan.running.recording.entries import Changed, Evicted, PodDecided

BEGAN = datetime(2026, 3, 2, 3, tzinfo=UTC)


def decided(number, preemptor, *victims, node="n"):
    pods = (PodDecided(preemptor, f"default/{preemptor}", "", "unschedulable", ""),)
    preemptions = ((preemptor, node, victims),) if victims else ()
    return RecordedDecision(None, 0, number, BEGAN + timedelta(seconds=number), pods, preemptions)


def reported(name, uid, *, deleted=False):
    metadata = {"name": name, "uid": uid} | ({"deletionTimestamp": "2026-03-02T03:00:00Z"} if deleted else {})
    return Changed([], "Pod", f"default/{name}", msgspec.json.encode({"metadata": metadata}))


def gone(name):
    return Changed([], "Pod", f"default/{name}", None)


def sent(number, *victims, success=True):
    return Evicted([], number, success, number, "p", victims)


V = reported("v", "v1")
CASES = {
    "one": ([V, decided(1, "p", "v1"), sent(1, "v1"), gone("v")], 1),
    "chosen again while it terminates": (
        [V, decided(1, "p", "v1"), sent(1, "v1"), reported("v", "v1", deleted=True), decided(2, "q", "v1"), gone("v")],
        1,
    ),
    "chosen again before its deletion is reported": (
        [V, decided(1, "p", "v1"), sent(1, "v1"), decided(2, "q", "v1"), sent(2, "v1"), gone("v")],
        1,
    ),
    "replies in another order": (
        [V, decided(1, "p", "v1", "w"), decided(2, "q", "v1"), sent(2, "v1"), gone("v"), sent(1, "w")],
        2,
    ),
    "chosen after it was gone": ([V, decided(1, "p", "v1"), sent(1, "v1"), gone("v"), decided(2, "q", "v1")], 1),
    "first eviction failed": (
        [V, decided(1, "p", "v1"), sent(1, "v1", success=False), decided(2, "q", "v1"), sent(2, "v1"), gone("v")],
        2,
    ),
    "another pod of the name": (
        [V, decided(1, "p", "v1"), sent(1, "v1"), gone("v"), reported("v", "v2"), decided(2, "q", "v2"), sent(2, "v2")],
        2,
    ),
    "another pod of the name is not evicted": (
        [V, decided(1, "p", "v1"), sent(1, "v1"), gone("v"), reported("v", "v2"), gone("v")],
        1,
    ),
    "deleted by its user before": ([V, reported("v", "v1", deleted=True), decided(1, "p", "v1")], None),
    "never chosen": ([V, decided(1, "p", "w"), sent(1, "w")], None),
    "recording ends before the reply": ([V, decided(1, "p", "v1")], 1),
    "former version": (
        [V, decided(1, "p", "v1"), Evicted([], 0, True), reported("v", "v1", deleted=True), decided(2, "q", "v1")],
        1,
    ),
}


@pytest.mark.parametrize(("happened", "number"), CASES.values(), ids=CASES)
def test_the_eviction_that_was_sent_is_named(happened, number):
    evictions = EvictionsOf("default/v")
    for each in happened:
        evictions.take(each)
    found = evictions.last()
    assert (None if found is None else found.number) == number


def test_the_last_one_until_a_time_is_named():
    evictions = EvictionsOf("default/v")
    for each in CASES["another pod of the name"][0]:
        evictions.take(each)
    assert evictions.last(BEGAN + timedelta(seconds=1)).number == 1
    assert evictions.last(BEGAN) is None


def test_what_was_evicted_for_a_pod_is_what_was_sent():
    evictions, names = EvictionsFor(), PodNames()
    happened = [V, decided(1, "p", "v1"), sent(1, "v1"), decided(2, "p", "w"), decided(3, "q", "v1"), sent(3, "v1")]
    for each in happened:
        evictions.take(each)
        names.take(each)
    assert [each.number for each in evictions.of("p")] == [1]
    assert [names.of(each.victims_of("p")) for each in evictions.of("p")] == [["default/v"]]
    assert names.of(["p", "nobody"]) == ["default/p", "nobody"]


def test_former_version_does_not_say_what_was_sent():
    evictions = EvictionsFor()
    for each in (V, decided(1, "p", "v1"), Evicted([], 0, True)):
        evictions.take(each)
    assert [each.number for each in evictions.of("p")] == [1]
