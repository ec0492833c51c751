"""Flags that select metrics."""

import pytest
from tests.support.tables import cases

from bayplan.faces.cli.run_metrics import metrics_selection
from bayplan.running.service.metrics.selection import MetricSelection


def allowed(**lists):
    return MetricSelection(allowed={"m": {label: frozenset(values.split(",")) for label, values in lists.items()}})


@cases(
    "values, expected",
    {
        "no flags": ({}, MetricSelection()),
        "disabled": ({"disabled-metrics": ("a,b", "", "c")}, MetricSelection(frozenset("abc"))),
        "hidden metrics": ({"show-hidden-metrics-for-version": "1.35"}, MetricSelection()),
        "one list": ({"allow-metric-labels": ("m,l=v1,v2",)}, allowed(l="v1,v2")),
        "an empty list": ({"allow-metric-labels": ("m,l=",)}, allowed(l="")),
        "given twice": ({"allow-metric-labels": ("m,l=v", "m,k=w")}, allowed(l="v", k="w")),
        "two in one value, as in pflag": ({"allow-metric-labels": ('"m,l=v1,v2","m,k=w"',)}, allowed(l="v1,v2", k="w")),
    },
)
def test_flags_as_a_selection(values, expected) -> None:
    problems: list[str] = []
    assert metrics_selection(values, problems) == expected
    assert problems == []


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"disabled-metrics": ("a-b",)}, "--disabled-metrics: 'a-b' is not the full name of a metric"),
        (
            {"show-hidden-metrics-for-version": "1.34"},
            "--show-hidden-metrics-for-version: must be omitted or 1.35, the previous minor version, not 1.34",
        ),
        ({"allow-metric-labels": ("m=v",)}, "--allow-metric-labels: 'm' is not METRIC,LABEL"),
        ({"allow-metric-labels": ("m,l",)}, "--allow-metric-labels: 'm,l' is not METRIC,LABEL=VALUE,..."),
        ({"allow-metric-labels": ("m,0=v",)}, "--allow-metric-labels: 'm,0' is not METRIC,LABEL"),
    ],
)
def test_invalid_flags_are_reported(values, error) -> None:
    problems: list[str] = []
    metrics_selection(values, problems)
    assert problems == [f"bayplan run: {error}"]


@cases(
    "content, expected, error",
    {
        "good": ('"m,l": "v1,v2"\n', allowed(l="v1,v2"), ""),
        "empty": ("", MetricSelection(), ""),
        "a list": ("- a\n", MetricSelection(), "expected a mapping of METRIC,LABEL to values"),
        "no label": ("m: v\n", MetricSelection(), "'m' is not METRIC,LABEL"),
        "a list of values": ('"m,l": [v]\n', MetricSelection(), "m,l: expected a text of values"),
        "nested": ("allowListMapping:\n  a: b\n", MetricSelection(), "allowListMapping: expected a text"),
        "invalid YAML": ("{", MetricSelection(), "is not YAML"),
        "no file": (None, MetricSelection(), "cannot be read: No such file"),
    },
)
def test_a_manifest(tmp_path, content, expected, error) -> None:
    path = tmp_path / "allow.yaml"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    problems: list[str] = []
    assert metrics_selection({"allow-metric-labels-manifest": str(path)}, problems) == expected
    assert len(problems) == bool(error)
    assert all(error in problem and "--allow-metric-labels-manifest" in problem for problem in problems)


def test_the_flag_and_the_manifest_exclude_each_other(tmp_path) -> None:
    problems: list[str] = []
    metrics_selection({"allow-metric-labels": ("m,l=v",), "allow-metric-labels-manifest": str(tmp_path)}, problems)
    assert problems == [
        "bayplan run: --allow-metric-labels: cannot be given together with --allow-metric-labels-manifest"
    ]
