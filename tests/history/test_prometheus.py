from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path

import pytest
from tests.history.metrics_server import END, HOUR, ROWS, Samples, Story, real_server, small_server, usual_story
from tests.history.small_histories import BEGIN, at
from tests.support.commands import bayplan
from tests.support.documents import of_kind

from bayplan.answers.history.events import PodArrived
from bayplan.answers.history.format import HistoryError
from bayplan.answers.history.reading import History
from bayplan.answers.history.sources.kube_state_metrics import import_prometheus
from bayplan.core.api.kinds import NODE, POD, REPLICA_SET
from bayplan.insight import Snapshot


def imported(samples: Samples, tmp_path: Path, **options) -> tuple[History, list[str]]:
    with small_server(samples) as url:
        _, problems = import_prometheus(url, tmp_path / "h", BEGIN, END, **options)
    return History.open(tmp_path / "h"), problems


def rows_of(history: History) -> list[tuple[str, str, float, str, str]]:
    return [(r.event, r.name, (r.time_utc - BEGIN).total_seconds(), r.node, r.reason) for r in history.rows()]


@pytest.mark.parametrize("server", ["small", "real"])
def test_metrics_tell_what_happened(server: str, tmp_path: Path) -> None:
    story = usual_story()
    chosen: AbstractContextManager[str] = (
        small_server(story.samples) if server == "small" else real_server(story, tmp_path)
    )
    with chosen as url:
        _, problems = import_prometheus(url, tmp_path / "h", BEGIN, END)
    history = History.open(tmp_path / "h")
    assert sorted(rows_of(history)) == sorted(ROWS)
    assert (problems, history.gaps, history.problems) == ([], (), ())
    (note,) = history.notes
    assert note.startswith("100% of the pods have no owner in a snapshot: their affinity, spreading, tolerations")
    start = history.start()
    node, old = start.document(NODE, "a"), start.document(POD, "default/old")
    assert node["status"]["allocatable"] == {"cpu": "4", "memory": "17179869184", "pods": "110"}
    assert node["metadata"]["labels"] == {"kubernetes.io/hostname": "a", "topology.kubernetes.io/zone": "z1"}
    assert old["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "500m", "memory": "134217728"}
    assert (old["spec"]["nodeName"], old["spec"]["schedulerName"]) == ("a", "default-scheduler")


def test_owners_in_a_snapshot_give_what_metrics_lack(tmp_path: Path) -> None:
    spread = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "topologySpreadConstraints": spread,
            "containers": [{"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "9"}}}],
        },
    }
    owner = of_kind("ReplicaSet", "web", metadata={"namespace": "default"}, spec={"template": template})
    history, _ = imported(usual_story().samples, tmp_path, snapshot=Snapshot.of([owner]))
    assert history.notes == ()
    assert list(history.start().of_kind(REPLICA_SET)) == ["default/web"]
    arrived = next(event for event in history.events() if isinstance(event, PodArrived))
    assert arrived.document["metadata"]["labels"] == {"app": "web"}
    assert arrived.document["spec"]["topologySpreadConstraints"] == spread
    (container,) = arrived.document["spec"]["containers"]
    assert (container["image"], container["resources"]["requests"]["cpu"]) == ("app:1", "500m")


def _without(metric: str) -> Samples:
    return {key: values for key, values in usual_story().samples.items() if key[0] != metric}


def _with_gap() -> Samples:
    samples = usual_story().samples
    low, high = at(2 * HOUR).timestamp(), at(3 * HOUR).timestamp()
    return {key: [each for each in values if not low < each[0] < high] for key, values in samples.items()}


def test_missing_scrapes_are_a_gap(tmp_path: Path) -> None:
    history, _ = imported(_with_gap(), tmp_path)
    (gap,) = history.gaps
    assert gap.reason == "Prometheus has no samples of kube-state-metrics"
    assert gap.end is not None
    assert abs((gap.end - gap.begin) - timedelta(hours=1)) <= timedelta(minutes=10)


def test_a_shorter_retention_is_said(tmp_path: Path) -> None:
    story = Story()
    story.node("a", 2 * HOUR, 5 * HOUR)
    history, _ = imported(story.samples, tmp_path)
    assert abs(history.begin - at(2 * HOUR)) <= timedelta(minutes=5)
    assert history.notes[0].startswith("Prometheus has metrics since 2026-03-02 ")


def _strange_unit() -> Samples:
    story = usual_story()
    amount = {"node": "a", "resource": "magic", "unit": "spells"}
    story.add("kube_node_status_allocatable", 3, 0, HOUR, **amount)
    return story.samples


def _priority() -> Samples:
    story = usual_story()
    for (metric, labels), values in list(story.samples.items()):
        if metric == "kube_pod_info" and ("pod", "done") in labels:
            del story.samples[metric, labels]
            story.samples[metric, tuple(sorted((*labels, ("priority_class", "gold"))))] = values
    return story.samples


BAD = {
    "an unknown unit": (_strange_unit(), "the unit 'spells' of magic is unknown: left out"),
    "no creations": (_without("kube_pod_created"), "a pod has no kube_pod_created, so its arrival is unknown"),
    "no pods": (_without("kube_pod_info"), "a pod has no kube_pod_info: left out"),
    "no allocatable": (_without("kube_node_status_allocatable"), "a node has no kube_node_status_allocatable"),
    "an unknown priority class": (_priority(), "a priority class isn't in the snapshot: its pods have priority 0"),
}


@pytest.mark.parametrize("case", BAD)
def test_odd_metrics_are_one_line_and_the_rest_is_used(case: str, tmp_path: Path) -> None:
    samples, message = BAD[case]
    history, problems = imported(samples, tmp_path)
    assert len(problems) == 1
    assert problems[0].startswith(message)
    assert problems[0] in history.notes
    assert rows_of(history)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ((200, b'{"status":"success","data":{"resultType":"matrix","result":[]}}'), "kube-state-metrics isn't scraped"),
        ((400, b'{"status":"error","errorType":"bad_data","error":"no"}'), r"refuses count\(kube_node_info\): no"),
        ((200, b"<html>Log in</html>"), r"does not answer as Prometheus does \(status 200\): <html>Log in</html>"),
        ((502, b""), r"does not answer as Prometheus does \(status 502\)"),
    ],
)
def test_what_is_no_prometheus_is_one_line(reply: tuple[int, bytes], message: str, tmp_path: Path) -> None:
    with small_server({}, reply=reply) as url, pytest.raises(HistoryError, match=message):
        import_prometheus(url, tmp_path / "h", BEGIN, END)
    assert not (tmp_path / "h").exists()


def test_the_command(tmp_path: Path) -> None:
    with small_server(usual_story().samples) as url:
        arguments = ["history", "import", "--prometheus", url, "--since", BEGIN.isoformat(), "--until", END.isoformat()]
        result = bayplan(*arguments, "--to", tmp_path / "h")
    assert result.output == f"Wrote {tmp_path}/h: 3 pods and 2 nodes, 2026-03-02 08:00 to 2026-03-02 13:00 UTC\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--prometheus", "http://127.0.0.1:1"], "cannot read http://127.0.0.1:1"),
        (["--prometheus", "localhost"], "is not the address of a Prometheus server"),
        (["--prometheus", "http://127.0.0.1:1", "--since", "long ago"], "expected 12h, 7d, or a time"),
        (["--prometheus", "http://127.0.0.1:1", "--since", "1h", "--until", "2h"], "is not before --until 2h"),
        (["--prometheus", "http://127.0.0.1:1", "--header", "token"], "a header is not `Name: value`"),
        ([], "expected either FILES or --prometheus URL"),
    ],
)
def test_bad_options_are_one_line(arguments: list[str], message: str, tmp_path: Path) -> None:
    result = bayplan("history", "import", *arguments, "--to", tmp_path / "h", status=2)
    assert message in result.output.splitlines()[-1]
