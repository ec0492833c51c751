import asyncio
import random
from contextlib import nullcontext

import pytest
from tests.service.conftest import make_pod
from tests.support.tables import cases

from bayplan.core.framework.calling import call
from bayplan.core.framework.changes import NODE_ADD
from bayplan.core.framework.events import Hint
from bayplan.core.framework.interface import CycleState, PostFilterResult, Wait
from bayplan.core.framework.status import Code, PluginError, Status
from bayplan.core.framework.verdicts import Diagnosis
from bayplan.core.queue import QueuedPod
from bayplan.core.scheduling import Decision, Outcome
from bayplan.running.service.metrics import measuring
from bayplan.running.service.metrics.instruments import Histogram, Histograms, exponential_buckets
from bayplan.running.service.metrics.measuring import Metrics


@pytest.fixture
def metrics(clock):
    return Metrics(clock, sampled=1.0)


def counts(histograms: Histograms) -> dict[tuple[str, ...], int]:
    return {labels: histogram.count for labels, histogram in histograms.items()}


def sums(histograms: Histograms) -> dict[tuple[str, ...], float]:
    return {labels: pytest.approx(histogram.sum) for labels, histogram in histograms.items()}


class Slow:
    """A plugin that takes a second and returns the given result."""

    name = "Slow"

    def __init__(self, clock) -> None:
        self.clock = clock

    def method(self, answer):
        self.clock.seconds += 1
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def wait(self, answer):
        await asyncio.sleep(0)
        self.clock.seconds += 2
        return self.method(answer)


def stopwatch(metrics: Metrics):
    times = next(metrics.stopwatches)
    times.profile = "test"
    return times


# Buckets


def test_value_is_counted_in_the_first_bucket_that_holds_it() -> None:
    histogram = Histogram((1, 2, 4))
    for value in (0.5, 1, 1.5, 4, 4.1):
        histogram.observe(value)
    assert histogram.counts == [2, 1, 1, 1]
    assert histogram.sum == pytest.approx(11.1)
    assert histogram.count == 5


@pytest.mark.parametrize("size", [0, 1, 100])
def test_observing_many_values_equals_observing_each(size) -> None:
    rng, bounds = random.Random(1), exponential_buckets(0.001, 2, 15)
    values = [*(rng.expovariate(1) for _ in range(size)), *bounds]
    single, many = Histogram(bounds), Histogram(bounds)
    for value in values:
        single.observe(value)
    many.observe_all(values[:5])
    many.observe_all(values[5:])
    many.observe_all([])
    assert many.counts == single.counts
    assert many.sum == pytest.approx(single.sum)


# Attempts


def popped(clock, name="web", **fields) -> QueuedPod:
    queued = QueuedPod(make_pod(name), queued_at=clock.seconds - 100, attempts=1, initial_attempt_at=clock.seconds - 50)
    queued.popped_at = clock.seconds
    for field, value in fields.items():
        setattr(queued, field, value)
    return queued


@pytest.mark.parametrize(
    ("attempts", "label"),
    [pytest.param(1, "1"), pytest.param(14, "14"), pytest.param(15, "15+"), pytest.param(99, "15+")],
)
def test_bound_pod_is_recorded(metrics, clock, attempts, label) -> None:
    queued = popped(clock, attempts=attempts, was_flushed=attempts == 14)
    clock.seconds += 0.25
    metrics.bound(queued)
    metrics.fold()
    assert sums(metrics.attempts) == {(measuring.SCHEDULED, "test"): 0.25}
    assert sums(metrics.pod_durations) == {(label,): 50.25}
    assert metrics.attempts_of_pods.sum == attempts
    assert metrics.scheduled_after_flush == (attempts == 14)


def test_bound_pods_are_counted_by_profile_and_attempts(metrics, clock) -> None:
    for attempts in (1, 1, 2, 20, 30):
        metrics.bound(popped(clock, attempts=attempts))
    other = popped(clock)
    other.pod.scheduler_name = "other"
    metrics.bound(other)
    metrics.bound(popped(clock, initial_attempt_at=None))
    metrics.fold()
    metrics.fold()
    assert counts(metrics.attempts) == {("scheduled", "test"): 6, ("scheduled", "other"): 1}
    assert counts(metrics.pod_durations) == {("1",): 3, ("2",): 1, ("15+",): 2}
    assert metrics.attempts_of_pods.count == 7


@pytest.mark.parametrize("result", [measuring.UNSCHEDULABLE, measuring.ERROR])
def test_failed_attempt_is_recorded(metrics, clock, result) -> None:
    queued = popped(clock)
    clock.seconds += 2
    metrics.failed(queued, error=result == measuring.ERROR)
    assert sums(metrics.attempts) == {(result, "test"): 2}


@cases(
    "victims, message, attempts, preemptions",
    {
        "no preemption": (0, "", 0, 0),
        "unsuccessful preemption": (0, "preemption: not helpful", 1, 0),
        "with victims": (3, "", 1, 1),
    },
)
def test_preemptions_are_counted(metrics, clock, victims, message, attempts, preemptions) -> None:
    queued = popped(clock)
    decision = Decision(queued.pod, Outcome.UNSCHEDULABLE, CycleState(), Diagnosis(1, post_filter_message=message))
    decision.victims = tuple(make_pod(f"victim-{number}") for number in range(victims))
    metrics.not_placed(decision)
    assert metrics.preemption_attempts == attempts
    assert (metrics.victims.count, metrics.victims.sum) == (preemptions, victims)


def test_one_attempt_in_twenty_is_timed_and_counts_for_those_between(clock) -> None:
    metrics = Metrics(clock, rng=random.Random(7))
    queued = popped(clock)
    decision = Decision(queued.pod, Outcome.UNSCHEDULABLE, CycleState(skip_filter={"NodePorts"}), Diagnosis(1))
    timed = 0
    for _ in range(20_000):
        times = next(metrics.stopwatches)
        if times is not None:
            timed += 1
            metrics.timed(queued, decision, times)
            times.finish()
    assert 900 < timed < 1100
    [(kind, number)] = metrics.evaluated.items()
    assert kind == ("test", False, False, frozenset({"NodePorts"}), frozenset())
    assert 19_900 < number <= 20_000


@pytest.mark.parametrize("end", ["bound", "failed"])
def test_decisions_are_folded_in_batches(metrics, clock, end) -> None:
    for _ in range(2500):
        queued = popped(clock)
        metrics.new_decisions.append(0.5)
        metrics.bound(queued) if end == "bound" else metrics.failed(queued, error=True)
    assert metrics.decisions.count == 2000, "folded without a scrape"
    metrics.fold()
    assert (metrics.decisions.count, metrics.decisions.sum) == (2500, 1250)
    assert sum(counts(metrics.attempts).values()) == 2500


# Plugins


@cases(
    "point, answer, status",
    {
        "feasible": ("PreFilter", None, "Success"),
        "rejected": ("Filter", "not here", "Unschedulable"),
        "skip": ("PreFilter", Status(Code.SKIP), "Skip"),
        "unresolvable": ("PreFilter", Status.unresolvable("no"), "UnschedulableAndUnresolvable"),
        "wait": ("Permit", Wait(3), "Wait"),
        "unsuccessful PostFilter": ("PostFilter", PostFilterResult(Status.unschedulable("no")), "Unschedulable"),
        "score": ("Score", 7, "Success"),
        "exception": ("Filter", ValueError("bug"), "Error"),
    },
)
def test_plugin_is_timed_with_its_status(metrics, clock, point, answer, status) -> None:
    slow, times = Slow(clock), stopwatch(metrics)
    with pytest.raises(PluginError) if status == "Error" else nullcontext():
        assert times.call(slow, point, slow.method, answer) is answer
    times.finish()
    metrics.fold()
    assert sums(metrics.plugins) == {("Slow", point, status): 1}
    of_point = {"Unschedulable": "Success"}.get(status, status) if point == "Filter" else status
    assert sums(metrics.points) == {(point, "Success" if status == "Skip" else of_point, "test"): 1}


def test_point_duration_excludes_calls_between_plugins(metrics, clock) -> None:
    slow, times = Slow(clock), stopwatch(metrics)

    def post_filter(answer):
        times.call(slow, "Filter", slow.method, None)
        return slow.method(answer)

    times.call(slow, "Filter", slow.method, None)
    times.call(slow, "AddPod", slow.method, None)
    times.call(slow, "Score", slow.method, 1)
    times.call(slow, "NormalizeScore", slow.method, 1)
    times.call(slow, "PostFilter", post_filter, None)
    times.finish()
    times.call(slow, "Reserve", slow.method, None)
    times.finish()
    metrics.fold()
    assert sums(metrics.points) == {
        ("Filter", "Success", "test"): 2,
        ("Score", "Success", "test"): 2,
        ("PostFilter", "Success", "test"): 2,
        ("Reserve", "Success", "test"): 1,
    }
    assert sums(metrics.plugins) == {
        ("Slow", "Filter", "Success"): 2,
        ("Slow", "PreFilterExtensionAddPod", "Success"): 1,
        ("Slow", "Score", "Success"): 1,
        ("Slow", "ScoreExtensionNormalize", "Success"): 1,
        ("Slow", "PostFilter", "Success"): 2,
        ("Slow", "Reserve", "Success"): 1,
    }


async def test_awaited_result_is_timed_until_it_is_available(metrics, clock) -> None:
    slow, times = Slow(clock), stopwatch(metrics)
    await times.call(slow, "PreBind", slow.wait, None)
    with pytest.raises(ConnectionError):
        await times.call(slow, "Bind", slow.wait, ConnectionError())
    times.finish()
    metrics.fold()
    assert sums(metrics.plugins) == {("Slow", "PreBind", "Success"): 3, ("Slow", "Bind", "Error"): 3}


def test_pre_enqueue_is_timed(metrics, clock) -> None:
    slow = Slow(clock)
    metrics.pre_enqueue_caller(make_pod())(slow, "PreEnqueue", slow.method, "gated")
    with pytest.raises(PluginError):
        metrics.pre_enqueue_caller(make_pod())(slow, "PreEnqueue", slow.method, OSError())
    metrics.fold()
    metrics.fold()
    assert counts(metrics.points) == {("PreEnqueue", "Unschedulable", "test"): 1, ("PreEnqueue", "Error", "test"): 1}


@pytest.mark.parametrize(
    ("answer", "label"), [(Hint.QUEUE, "Queue"), (Hint.SKIP, "QueueSkip"), (OSError(), "Error"), ("nonsense", "Error")]
)
def test_hints_are_timed(metrics, clock, answer, label) -> None:
    slow = Slow(clock)
    try:
        assert (
            metrics.ask_hint(lambda *_: slow.method(answer), "Slow", QueuedPod(make_pod(), 0.0), NODE_ADD, None, None)
            is answer
        )
    except OSError:
        assert label == "Error"
    assert sums(metrics.hints) == {("Slow", "NodeAdd", label): 1}


def test_plugins_are_called_when_not_sampled(clock) -> None:
    metrics = Metrics(clock, sampled=1e-9, rng=random.Random(1))
    assert next(metrics.stopwatches) is None
    assert metrics.pre_enqueue_caller(make_pod()) is call
    assert metrics.ask_hint(lambda *_: Hint.SKIP, "Slow", QueuedPod(make_pod(), 0.0), NODE_ADD, None, None) is Hint.SKIP
    metrics.fold()
    assert not metrics.plugins
    assert not metrics.hints
