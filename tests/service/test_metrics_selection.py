"""Disabled metrics and allowed values of labels."""

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from bayplan.running.service.metrics.selection import MetricSelection


@pytest.fixture
def registry():
    registry = CollectorRegistry()
    counter = Counter("tries", "Tries.", ("result", "profile"), registry=registry)
    for number, result in enumerate(("good", "bad", "worse"), 1):
        counter.labels(result, "a").inc(number)
    Gauge("size", "Size.", registry=registry).set(7)
    histogram = Histogram("seconds", "Seconds.", ("result",), buckets=(1, 2), registry=registry)
    histogram.labels("good").observe(0.5)
    histogram.labels("bad").observe(1.5)
    histogram.labels("worse").observe(5)
    return registry


def samples_of(registry):
    return {
        (
            sample.name,
            *(sample.labels[label] for label in ("result", "profile", "le") if label in sample.labels),
        ): sample.value
        for family in text_string_to_metric_families(generate_latest(registry).decode())
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def test_empty_selection_keeps_the_registry(registry) -> None:
    assert MetricSelection().of(registry) is registry


@pytest.mark.parametrize(
    ("disabled", "left"),
    [
        ({"tries_total"}, {"size", "seconds"}),
        ({"seconds", "size"}, {"tries"}),
        ({"tries", "seconds_bucket", "nonsense"}, {"tries", "size", "seconds"}),
    ],
)
def test_disabled_metrics_are_matched_by_full_name(registry, disabled, left) -> None:
    families = list(MetricSelection(frozenset(disabled)).of(registry).collect())
    assert {family.name for family in families} == left


def test_values_that_are_not_allowed_are_summed(registry) -> None:
    selection = MetricSelection(
        allowed={
            "tries_total": {"result": frozenset({"good"}), "nonsense": frozenset()},
            "seconds": {"result": frozenset({"bad"})},
            "nothing": {"result": frozenset()},
        }
    )
    selected = selection.of(registry)
    assert samples_of(selected) == {
        ("tries_total", "good", "a"): 1,
        ("tries_total", "unexpected", "a"): 5,
        ("size",): 7,
        ("seconds_bucket", "bad", "1.0"): 0,
        ("seconds_bucket", "bad", "2.0"): 1,
        ("seconds_bucket", "bad", "+Inf"): 1,
        ("seconds_count", "bad"): 1,
        ("seconds_sum", "bad"): 1.5,
        ("seconds_bucket", "unexpected", "1.0"): 1,
        ("seconds_bucket", "unexpected", "2.0"): 1,
        ("seconds_bucket", "unexpected", "+Inf"): 2,
        ("seconds_count", "unexpected"): 2,
        ("seconds_sum", "unexpected"): 5.5,
    }
    assert generate_openmetrics(selected).endswith(b"# EOF\n"), "samples of a histogram must be adjacent"
