"""All metrics of kube-scheduler exist with the same type and labels, or docs/metrics.md gives the reason."""

import csv
import random
import re
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from bayplan.core.framework.events import Hint
from bayplan.core.framework.status import Code
from bayplan.core.queue import PendingCounts, Place, QueuedPod
from bayplan.core.scheduling import decide
from bayplan.core.versions import gates_of
from bayplan.running.service.metrics.exposition import build_registry
from bayplan.running.service.metrics.measuring import Metrics
from bayplan.running.service.metrics.resources import PodResourcesCollector
from bayplan.running.service.metrics.snapshot import MetricsSnapshot
from bayplan.running.service.watchdog import Watchdog
from bayplan.testing.builders import make_cluster, make_node, make_pod

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
DOCUMENTED = dict(re.findall(r"^\| `([a-z_]+)` \| (.*?) \|$", PAGE.partition("## Alerts")[0], re.MULTILINE))
with (ROOT / "tests" / "data" / "kube-scheduler" / "metrics.tsv").open(encoding="utf-8") as file:
    UPSTREAM = {row["name"]: row for row in csv.DictReader(file, delimiter="\t")}
ALSO_UPSTREAM = {"scheduler_permit_wait_duration_seconds": ("histogram", {"result"})}


def all_measurements(clock) -> tuple[Metrics, MetricsSnapshot]:
    """Metrics with a sample for every name."""
    metrics = Metrics(clock, sampled=1.0)
    cluster = make_cluster(make_node("a"), make_node("b"))
    profile = cluster.profile
    pod = make_pod("web", cpu="1")
    queued = QueuedPod(pod, queued_at=0.0, attempts=1, initial_attempt_at=0.0, was_flushed=True)
    queued.unschedulable_plugins = frozenset({"NodeAffinity"})
    times = next(metrics.stopwatches)
    metrics.timed(queued, decide(profile, cluster.state, pod, random.Random(0), call=times.call), times)
    metrics.new_decisions.append(0.1)
    times.finish()
    metrics.bound(queued)
    metrics.failed(queued, error=False)
    metrics.permit_waited(Code.SUCCESS, 0.0)
    metrics.evicted(0.0, success=True)
    metrics.handled("NodeAdd", 0.0)
    event = type("Event", (), {"label": "NodeAdd"})
    metrics.ask_hint(lambda *_: Hint.QUEUE, "NodeAffinity", queued, event, None, None)
    metrics.requests.requested("GET", "host:1", "200", 0.1, 0, 10)
    metrics.requests.waited("GET", "host:1", 0.1)
    metrics.leading["bayplan"] = lambda: True
    metrics.failures.record("writing an event", ValueError("no luck"), expected=True)
    metrics.fold()
    snapshot = MetricsSnapshot(
        profiles={"default-scheduler": profile},
        pending=PendingCounts(1, 2, 3, 4, 5, 6),
        incoming={(Place.ACTIVE, "NodeAdd"): 1, (Place.GATED, "NodeAdd"): 2, (Place.UNSCHEDULABLE, "NodeAdd"): 3},
        waiting=[queued],
        in_flight_events={"NodeAdd": 1},
        nodes=1,
        pods=2,
        assumed_pods=1,
        binding=1,
        sharing={"default-scheduler": (3, 1)},
        dropped_events=0,
        event_lag=0.0,
        recording=(True, 100),
        entities=(
            {(Place.ACTIVE, "pod"): 1, (Place.GATED, "podgroup"): 2},
            {(Place.ACTIVE, "NodeAdd", "pod"): 1, (Place.GATED, "NodeAdd", "podgroup"): 2},
        ),
    )
    return metrics, snapshot


@pytest.fixture
def families(clock):
    metrics, snapshot = all_measurements(clock)
    text = generate_latest(build_registry(metrics, lambda: snapshot, Watchdog())).decode()
    return {
        (family.name + "_total" if family.type == "counter" else family.name): family
        for family in text_string_to_metric_families(text)
    }


@pytest.mark.parametrize("name", UPSTREAM)
def test_upstream_metric_exists_unless_documented(families, name) -> None:
    documented = DOCUMENTED[name]
    assert documented.startswith(("yes", "no: "))
    assert (name in families) is documented.startswith("yes")
    if name in families:
        check(families[name], UPSTREAM[name]["type"], set(filter(None, UPSTREAM[name]["labels"].split(","))))


SINCE_1_37 = {
    "scheduler_pending_pods": {("active",): 1, ("backoff",): 2, ("unschedulable",): 3, ("gated",): 4, ("pending",): 6},
    "scheduler_queued_entities": {("active", "pod"): 1, ("gated", "podgroup"): 2},
    "scheduler_queue_incoming_entities": {("active", "NodeAdd", "pod"): 1, ("unschedulable", "NodeAdd", "podgroup"): 2},
}


@pytest.mark.parametrize("name", SINCE_1_37)
def test_metrics_of_pod_groups_in_the_queue(clock, name) -> None:
    metrics, snapshot = all_measurements(clock)
    found = {}
    for version in ("1.36", "1.37"):
        text = generate_latest(build_registry(metrics, lambda: snapshot, gates=gates_of(version))).decode()
        found[version] = {family.name: family for family in text_string_to_metric_families(text)}
    family = found["1.37"][name]
    values = {
        tuple(sample.labels[label] for label in ("queue", "event", "type") if label in sample.labels): sample.value
        for sample in family.samples
        if not sample.name.endswith("_created")
    }
    assert values == SINCE_1_37[name]
    assert (name in found["1.36"]) is (name == "scheduler_pending_pods")
    assert 'queue="pending"' not in str(found["1.36"]["scheduler_pending_pods"])


@pytest.mark.parametrize("name", ALSO_UPSTREAM)
def test_rare_upstream_metric_exists(families, name) -> None:
    check(families[name], *ALSO_UPSTREAM[name])


def check(family, expected_type, labels) -> None:
    assert family.type == expected_type
    assert family.samples
    assert family.documentation
    for sample in family.samples:
        assert sample.labels.keys() - {"le"} == labels


def test_documentation_lists_exactly_the_upstream_metrics() -> None:
    assert DOCUMENTED.keys() == UPSTREAM.keys()


def test_the_page_names_the_metrics_that_upstream_does_not_have(families) -> None:
    own = {name: family for name, family in families.items() if name.startswith("bayplan_")}
    assert "bayplan_background_failures_total" in own
    for name, family in own.items():
        labels = sorted({label for sample in family.samples for label in sample.labels} - {"le"})
        assert f"`{name}" in PAGE
        assert not labels or re.search(rf"`{name}\{{({'|'.join(labels)}|,)+\}}`", PAGE), name


@pytest.mark.parametrize(
    ("name", "first", "last", "count"),
    [
        ("scheduler_scheduling_attempt_duration_seconds", 0.001, 16.384, 15),
        ("scheduler_scheduling_algorithm_duration_seconds", 0.001, 16.384, 15),
        ("scheduler_event_handling_duration_seconds", 0.0001, 0.2048, 12),
        ("scheduler_framework_extension_point_duration_seconds", 0.0001, 0.2048, 12),
        ("scheduler_plugin_execution_duration_seconds", 0.00001, 0.02216838, 20),
        ("scheduler_queueing_hint_execution_duration_seconds", 0.00001, 0.02216838, 20),
        ("scheduler_pod_scheduling_sli_duration_seconds", 0.01, 5242.88, 20),
        ("scheduler_preemption_goroutines_duration_seconds", 0.01, 5242.88, 20),
        ("scheduler_pod_scheduling_attempts", 1, 16, 5),
        ("scheduler_preemption_victims", 1, 64, 7),
        ("scheduler_permit_wait_duration_seconds", 0.001, 16.384, 15),
        ("rest_client_request_duration_seconds", 0.005, 60, 12),
        ("rest_client_request_size_bytes", 64, 16777216, 11),
    ],
)
def test_buckets_equal_upstream(families, name, first, last, count) -> None:
    samples = [sample for sample in families[name].samples if sample.name.endswith("_bucket")]
    series = {frozenset(item for item in sample.labels.items() if item[0] != "le") for sample in samples}
    bounds = sorted({float(sample.labels["le"]) for sample in samples})
    assert len(samples) == len(series) * (count + 1)
    assert bounds[0] == pytest.approx(first)
    assert bounds[-2] == pytest.approx(last)
    assert bounds[-1] == float("inf")


def test_requests_and_limits_of_pods_are_reported() -> None:
    extended = {"cpu": "500m", "memory": "1Gi", "example.com/gpu": "2", "hugepages-2Mi": "4Mi"}
    web = make_pod(
        "web",
        node="a",
        spec={
            "priority": 10,
            "containers": [
                {"name": "main", "resources": {"requests": extended, "limits": {**extended, "cpu": "1"}}},
                {"name": "side", "resources": {"limits": {"cpu": "250m", "ephemeral-storage": "0"}}},
            ],
            "overhead": {"cpu": "100m", "memory": "1Mi", "ephemeral-storage": "1Mi"},
        },
    )
    waiting = make_pod("waiting", spec={"containers": [{"name": "c", "resources": {"limits": {"cpu": "x"}}}]})
    samples = {
        (sample.name.removeprefix("kube_pod_resource_"), sample.labels["resource"], sample.labels["unit"]): sample.value
        for family in PodResourcesCollector(lambda: [web, waiting]).collect()
        for sample in family.samples
        if sample.labels["pod"] == "web"
    }
    assert samples == {
        ("request", "cpu", "cores"): 0.6,
        ("request", "memory", "bytes"): 2**30 + 2**20,
        ("request", "example.com/gpu", ""): 2,
        ("request", "hugepages-2Mi", "bytes"): 2**22,
        ("request", "ephemeral-storage", "bytes"): 2**20,
        ("limit", "cpu", "cores"): 1.35,
        ("limit", "memory", "bytes"): 2**30 + 2**20,
        ("limit", "example.com/gpu", ""): 2,
        ("limit", "hugepages-2Mi", "bytes"): 2**22,
    }
