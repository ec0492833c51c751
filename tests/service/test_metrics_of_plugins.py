"""What plugins measure of their own, from the handle to what is scraped."""

import pytest
from prometheus_client import generate_latest

from bayplan.framework.measurements import Unmeasured
from bayplan.service.metrics.exposition import build_registry
from bayplan.service.metrics.measuring import Metrics
from bayplan.service.metrics.of_plugins import PluginMeasurements


def test_what_plugins_note_is_shown() -> None:
    metrics = Metrics()
    for reason in ("licence", "licence", "heat"):
        metrics.of_plugins.count("example_moved_total", reason=reason)
    metrics.of_plugins.observe("example_asking_seconds", 0.2)
    metrics.of_plugins.observe(
        "scheduler_dra_bindingconditions_wait_duration_seconds", 0.15, driver="d", profile="p", status="success"
    )
    text = generate_latest(build_registry(metrics, lambda: None)).decode()
    for line in (
        'example_moved_total{reason="licence"} 2.0',
        'example_moved_total{reason="heat"} 1.0',
        'example_asking_seconds_bucket{le="0.1"} 0.0',
        'example_asking_seconds_bucket{le="0.25"} 1.0',
        "example_asking_seconds_sum 0.2",
        "# HELP scheduler_dra_bindingconditions_wait_duration_seconds Duration of waiting for devices' conditions",
        'seconds_bucket{driver="d",le="0.1",profile="p",status="success"} 0.0',
        'seconds_bucket{driver="d",le="0.2",profile="p",status="success"} 1.0',
    ):
        assert line in text


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        pytest.param("count", "example_moved", "ends in _total", id="a counter without its ending"),
        pytest.param("observe", "example_moved_total", "ends in _seconds", id="a duration without its ending"),
        pytest.param("count", "example-moved_total", "is no name of such a metric", id="no name"),
        pytest.param("count", "scheduler_schedule_attempts_total", "of the scheduler's own", id="a name that is taken"),
    ],
)
def test_names_that_are_not_taken(kind, name, said) -> None:
    measurements = PluginMeasurements()
    with pytest.raises(ValueError, match=said):
        measurements.count(name) if kind == "count" else measurements.observe(name, 1.0)
    assert not [*measurements.counts(), *measurements.seconds()]


def test_a_metric_has_the_same_labels_at_every_call() -> None:
    measurements = PluginMeasurements()
    measurements.count("example_moved_total", why="a", where="b")
    measurements.count("example_moved_total", where="b", why="a")
    with pytest.raises(ValueError, match="example_moved_total has the labels why, where, not why"):
        measurements.count("example_moved_total", why="a")
    [family] = measurements.counts()
    assert family.samples == {("a", "b"): 2}


def test_where_nobody_looks_nothing_is_kept() -> None:
    measurements = Unmeasured()
    measurements.count("anything", at="all")
    measurements.observe("anything", 1.0)
