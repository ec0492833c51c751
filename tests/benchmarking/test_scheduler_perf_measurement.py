"""What is computed from the moments at which pods were bound, and from the durations of attempts."""

import math

import pytest
from tests.support.tables import cases

from bayplan.benchmarking.measurement import Bucketed, Counters, KnownDurations, Measurement, data_items, percentile
from bayplan.benchmarking.pods import SeenPod, SeenPods
from bayplan.benchmarking.processes import read_counters

SCRAPE = """
# TYPE scheduler_scheduling_attempt_duration_seconds histogram
scheduler_scheduling_attempt_duration_seconds_bucket{profile="a",result="scheduled",le="0.001"} 1
scheduler_scheduling_attempt_duration_seconds_bucket{profile="a",result="scheduled",le="0.002"} 3
scheduler_scheduling_attempt_duration_seconds_bucket{profile="a",result="scheduled",le="+Inf"} 4
scheduler_scheduling_attempt_duration_seconds_count{profile="a",result="scheduled"} 4
scheduler_scheduling_attempt_duration_seconds_sum{profile="a",result="scheduled"} 1.5
scheduler_scheduling_attempt_duration_seconds_bucket{profile="b",result="scheduled",le="0.001"} 0
scheduler_scheduling_attempt_duration_seconds_bucket{profile="b",result="scheduled",le="0.002"} 1
scheduler_scheduling_attempt_duration_seconds_bucket{profile="b",result="scheduled",le="+Inf"} 1
scheduler_scheduling_attempt_duration_seconds_count{profile="b",result="scheduled"} 1
scheduler_scheduling_attempt_duration_seconds_sum{profile="b",result="scheduled"} 0.5
# TYPE scheduler_pending_pods gauge
scheduler_pending_pods{queue="active"} 7
# TYPE rest_client_requests_total counter
rest_client_requests_total{code="200",method="GET",host="a"} 9
rest_client_requests_total{code="201",method="POST",host="a"} 2
rest_client_requests_total{code="409",method="PUT",host="a"} 1
rest_client_requests_total{code="200",method="PATCH",host="b"} 3
rest_client_requests_total{code="200",method="DELETE",host="b"} 4
"""


@pytest.mark.parametrize(
    ("bound_at", "average", "throughputs"),
    [
        ([], 0.0, []),
        ([0.0], 0.0, []),
        ([5.0, 10.5, 11.5, 12.0], 1 / 3, [1 / 6] * 6 + [1 / 5] * 5 + [2.0]),
        ([0.1, 0.2, 0.3, 0.4], 10.0, None),
    ],
)
def test_throughput_is_sampled_each_second(bound_at, average, throughputs):
    measured = Measurement("name", 20.0, bound_at)
    assert measured.average == pytest.approx(average)
    if throughputs is not None:
        assert measured.throughputs() == pytest.approx(throughputs)
    else:  # shorter runs are sampled ten times
        assert len(measured.throughputs()) == 10
        assert sum(measured.throughputs()) * 0.04 == pytest.approx(4)


def test_quantiles_of_buckets_are_interpolated():
    durations = Bucketed([0.1, 0.2, 0.4, math.inf], [2, 0, 2, 0], 1.0)
    assert durations.count == 4
    assert durations.average() == 0.25
    assert [durations.quantile(share) for share in (0.25, 0.5, 0.75, 1.0)] == pytest.approx([0.05, 0.1, 0.3, 0.4])
    assert Bucketed([0.1, math.inf], [0, 1], 9.0).quantile(0.5) == 0.1
    assert durations.since(Bucketed([0.1, 0.2, 0.4, math.inf], [2, 0, 0, 0], 0.2)).quantile(0.5) == pytest.approx(0.3)


def test_quantiles_of_a_list_are_its_values():
    durations = KnownDurations([3.0, 1.0, 2.0])
    assert [durations.quantile(share) for share in (0.01, 0.5, 0.99)] == [1.0, 2.0, 3.0]


def test_counters_are_read_from_a_scrape():
    attempts = {"scheduled": Bucketed([0.001, 0.002, math.inf], [1, 3, 1], 2.0)}
    assert read_counters(SCRAPE) == Counters(attempts, writes=10)


def test_counters_of_a_measurement_are_those_since_its_beginning():
    before = Counters({"scheduled": Bucketed([math.inf], [2], 1.0), "error": KnownDurations([5.0])}, writes=4)
    now = Counters({"scheduled": Bucketed([math.inf], [5], 3.0), "error": KnownDurations([5.0, 6.0])}, writes=14)
    added = now.since(before)
    assert added == Counters({"scheduled": Bucketed([math.inf], [3], 2.0), "error": KnownDurations([6.0])}, writes=10)
    assert Measurement("name", 1.0, [0.1, 0.2], added).writes_per_pod == 5.0
    assert Measurement("name", 1.0, [], added).writes_per_pod is None
    assert Measurement("name", 1.0, [0.1], now.since(Counters())).writes_per_pod == 14.0
    assert Counters().since(before) == Counters()


def test_attempts_per_pod_are_those_with_any_result():
    counters = Counters({"scheduled": KnownDurations([1.0, 1.0]), "unschedulable": Bucketed([math.inf], [4], 1.0)})
    assert Measurement("name", 1.0, [0.1, 0.2], counters).attempts_per_pod == 3.0
    assert Measurement("name", 1.0, [], counters).attempts_per_pod is None
    assert Measurement("name", 1.0, [0.1]).attempts_per_pod is None


def test_data_items_have_the_same_labels():
    measured = Measurement(
        "Case/Any/ns",
        2.0,
        [1.0, 2.0],
        Counters({"scheduled": KnownDurations([0.001]), "error": KnownDurations([])}, writes=4),
    )
    items = data_items(measured.items())["dataItems"]
    assert [item["labels"] for item in items] == [
        {"Metric": "SchedulingThroughput", "Name": "Case/Any/ns", "result": "not applicable"},
        {"Metric": "scheduler_scheduling_attempt_duration_seconds", "Name": "Case/Any/ns", "result": "scheduled"},
        {"Metric": "SchedulerAttempts", "Name": "Case/Any/ns", "result": "not applicable"},
        {"Metric": "SchedulerWrites", "Name": "Case/Any/ns", "result": "not applicable"},
        {"Metric": "SchedulingDuration", "Name": "Case/Any/ns", "result": "not applicable"},
    ]
    assert items[1]["data"]["Perc99"] == 1.0
    assert items[2]["data"]["Average"] == 0.5
    assert items[3]["data"]["Average"] == 2.0
    assert items[4]["data"] == {"Duration": 2.0}


def test_pods_are_counted_by_namespace_and_labels():
    now, changes = [0.0], []
    pods = SeenPods(lambda: now[0], lambda: changes.append(now[0]))
    pods.put(SeenPod("a", "old", {"app": "web"}, "node"))
    with pods.counting(["a"], {"app": "web"}) as count, pods.counting() as everything:
        assert (count.scheduled, count.attempted, count.bound_at) == (1, 1, [])
        pods.put(SeenPod("a", "new", {"app": "web"}))
        pods.attempted("a/new")
        assert (count.scheduled, count.attempted) == (1, 2)
        now[0] = 3.0
        pods.put(SeenPod("a", "new", {"app": "web"}, "node"))
        pods.put(SeenPod("b", "other", {"app": "web"}, "node"))
        pods.put(SeenPod("a", "old", {}, "node"))
        assert (count.scheduled, count.attempted, count.bound_at) == (1, 1, [3.0])
        pods.remove("a/new")
        assert (count.scheduled, everything.scheduled, everything.bound_at) == (0, 2, [3.0, 3.0])
    pods.remove("b/other")
    assert everything.scheduled == 2
    assert [pod.name for pod in pods.select("a", {})] == ["old"]
    assert len(changes) == 8


@cases(
    "values, percent, expected",
    {
        "one": ([3.0], 50, 3.0),
        "one, high": ([3.0], 99, 3.0),
        "four": ([4.0, 1.0, 3.0, 2.0], 50, 2.0),
        "a hundred": (range(1, 101), 99, 99),
    },
)
def test_percentile(values, percent, expected):
    assert percentile(values, percent) == expected
