"""The plugins' own metrics."""

import pytest
from prometheus_client import generate_latest
from tests.support.tables import cases

from bayplan.core.framework.measurements import Unmeasured
from bayplan.running.service.metrics.exposition import build_registry
from bayplan.running.service.metrics.measuring import Metrics
from bayplan.running.service.metrics.plugin_measurements import PluginMeasurements


def test_plugin_metrics_are_exposed() -> None:
    metrics = Metrics()
    for reason in ("licence", "licence", "heat"):
        metrics.plugin_measurements.count("example_moved_total", reason=reason)
    metrics.plugin_measurements.observe("example_asking_seconds", 0.2)
    metrics.plugin_measurements.observe(
        "scheduler_dra_bindingconditions_wait_duration_seconds", 0.15, driver="d", profile="p", status="success"
    )
    text = generate_latest(build_registry(metrics, lambda: None)).decode()
    for line in (
        'example_moved_total{reason="licence"} 2.0',
        'example_moved_total{reason="heat"} 1.0',
        'example_asking_seconds_bucket{le="0.1"} 0.0',
        'example_asking_seconds_bucket{le="0.25"} 1.0',
        "example_asking_seconds_sum 0.2",
        "# HELP scheduler_dra_bindingconditions_wait_duration_seconds Time that attempts wait for allocated devices.",
        'seconds_bucket{driver="d",le="0.1",profile="p",status="success"} 0.0',
        'seconds_bucket{driver="d",le="0.2",profile="p",status="success"} 1.0',
    ):
        assert line in text


@cases(
    "kind, name, message",
    {
        "counter without suffix": ("count", "example_moved", "the suffix _total"),
        "duration without suffix": ("observe", "example_moved_total", "the suffix _seconds"),
        "invalid name": ("count", "example-moved_total", "is not a valid metric name"),
        "reserved prefix": ("count", "scheduler_schedule_attempts_total", "is reserved for the scheduler"),
    },
)
def test_invalid_names_are_rejected(kind, name, message) -> None:
    measurements = PluginMeasurements()
    with pytest.raises(ValueError, match=message):
        measurements.count(name) if kind == "count" else measurements.observe(name, 1.0)
    assert not [*measurements.counts(), *measurements.seconds()]


def test_other_labels_than_before_are_rejected() -> None:
    measurements = PluginMeasurements()
    measurements.count("example_moved_total", why="a", where="b")
    measurements.count("example_moved_total", where="b", why="a")
    with pytest.raises(ValueError, match="example_moved_total has the labels why, where, not why"):
        measurements.count("example_moved_total", why="a")
    [family] = measurements.counts()
    assert family.samples == {("a", "b"): 2}


def test_unmeasured_accepts_all_calls() -> None:
    measurements = Unmeasured()
    measurements.count("anything", at="all")
    measurements.observe("anything", 1.0)
