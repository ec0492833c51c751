from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from tests.history.small_histories import node
from tests.support.commands import bayplan

from bayplan.answers.history.events import PodArrived, PodEnded
from bayplan.answers.history.format import HistoryError
from bayplan.answers.history.reading import History
from bayplan.answers.history.sources.simkube import import_simkube, is_simkube
from bayplan.core.api.kinds import REPLICA_SET
from bayplan.insight import Snapshot

START = 1_772_438_400
NODES = [{"apiVersion": "v1", "kind": "Node", **node(name)} for name in ("a", "b")]


def template(cpu: str = "500m") -> dict:
    spec = {"containers": [{"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}]}
    return {"metadata": {"creationTimestamp": None, "labels": {"app": "web"}}, "spec": spec}


def workload(kind: str, name: str, api_version: str = "apps/v1", **spec: object) -> dict:
    metadata = {"name": name, "namespace": "shop", "annotations": {}}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def deployment(replicas: int, cpu: str = "500m") -> dict:
    selector = {"matchLabels": {"app": "web"}}
    return workload("Deployment", "web", replicas=replicas, selector=selector, template=template(cpu))


def event(seconds: int, *applied: dict, deleted: tuple[dict, ...] = ()) -> dict:
    return {"ts": START + seconds, "applied_objs": list(applied), "deleted_objs": list(deleted)}


def trace(*events: dict, lifecycles: dict | None = None, config: dict | None = None, version: int = 2) -> dict:
    return {
        "version": version,
        "config": {"trackedObjects": config or {"apps/v1.Deployment": {}}},
        "events": list(events),
        "index": {},
        "pod_lifecycles": lifecycles or {},
    }


def imported(tmp_path: Path, found: dict, *, as_json: bool = False, **options) -> tuple[History, list[str]]:
    path = tmp_path / "t.sktrace"
    path.write_bytes((msgspec.json if as_json else msgspec.msgpack).encode(found))
    assert is_simkube(path)
    _, problems = import_simkube(path, tmp_path / "h", **options)
    return History.open(tmp_path / "h"), problems


def pods(history: History) -> list[tuple[float, str, str]]:
    return [
        ((each.time - history.begin).total_seconds(), "+" if isinstance(each, PodArrived) else "-", each.key)
        for each in history.events()
        if isinstance(each, PodArrived | PodEnded)
    ]


@pytest.mark.parametrize("as_json", [False, True])
def test_pods_follow_the_replicas(tmp_path: Path, as_json: bool) -> None:
    history, problems = imported(
        tmp_path,
        trace(
            event(0),
            event(0, deployment(2)),
            event(60, deployment(3)),
            event(120, deployment(1)),
            event(180, deleted=(deployment(1),)),
        ),
        as_json=as_json,
    )
    assert problems == []
    assert history.begin == datetime.fromtimestamp(START, UTC)
    ((key, replica_set),) = [
        (key, history.start().document(REPLICA_SET, key)) for key in history.start().of_kind(REPLICA_SET)
    ]
    assert pods(history) == [
        (0, "+", f"{key}-0"),
        (0, "+", f"{key}-1"),
        (60, "+", f"{key}-2"),
        (120, "-", f"{key}-2"),
        (120, "-", f"{key}-1"),
        (180, "-", f"{key}-0"),
    ]
    first = next(each for each in history.events() if isinstance(each, PodArrived))
    assert (first.owner.kind, f"shop/{first.owner.name}") == ("ReplicaSet", key)
    assert replica_set["spec"]["selector"] == {"matchLabels": {"app": "web"}}
    assert first.document["metadata"]["labels"] == {"app": "web"}
    assert first.document["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "500m"}
    assert [line.partition(",")[0] for line in history.notes] == ["it has no placements", "it has no nodes"]


def test_new_template_replaces_the_pods(tmp_path: Path) -> None:
    history, _ = imported(tmp_path, trace(event(0, deployment(1)), event(60, deployment(1, "2"))))
    (_, _, first), *others = pods(history)
    assert [each[:2] for each in others] == [(60, "-"), (60, "+")]
    assert others[0][2] == first != others[1][2]
    assert first.rpartition("-")[0] != others[1][2].rpartition("-")[0]


CRON_JOB = workload(
    "CronJob", "report", "batch/v1", schedule="* * * * *", jobTemplate={"spec": {"template": template()}}
)


def test_lifecycles_are_pods(tmp_path: Path) -> None:
    lives = [
        {"Finished": [START + 90, START + 120]},
        {"Finished": [START + 30, START + 65]},
        {"Running": START + 150},
        "Empty",
    ]
    history, problems = imported(
        tmp_path,
        trace(
            event(0, CRON_JOB),
            event(200, deleted=(CRON_JOB,)),
            lifecycles={("batch/v1.CronJob", "shop/report"): {7: lives}},
        ),
    )
    assert problems == []
    assert pods(history) == [
        (30, "+", "shop/report-0"),
        (90, "+", "shop/report-1"),
        (150, "+", "shop/report-2"),
        (200, "-", "shop/report-2"),
    ]
    assert [each.runs for each in history.events() if isinstance(each, PodArrived)] == [35, 30, None]
    assert any("arrive when their containers started" in line for line in history.notes)


def test_bare_pods_run_as_long_as_they_did(tmp_path: Path) -> None:
    bare = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one", "namespace": "shop"}, **template()}
    bare["metadata"] = {"name": "one", "namespace": "shop"}
    other = {**bare, "metadata": {"name": "two", "namespace": "shop"}}
    history, problems = imported(
        tmp_path,
        trace(
            event(5, bare),
            event(10, other),
            event(40, deleted=(other,)),
            config={"v1.Pod": {"podSpecTemplatePaths": [""], "trackLifecycle": True}},
            lifecycles={("v1.Pod", "shop/one"): {7: [{"Finished": [START + 6, START + 36]}]}},
        ),
    )
    assert problems == []
    assert pods(history) == [(1, "+", "shop/one"), (5, "+", "shop/two"), (35, "-", "shop/two")]
    one, two = (each for each in history.events() if isinstance(each, PodArrived))
    assert (one.runs, two.runs, one.owner) == (30, None, None)


def test_custom_kinds_have_their_templates_where_the_trace_says(tmp_path: Path) -> None:
    spec = {"tasks": [{"template": template("1")}, {"template": template("2")}]}
    job = {**workload("Job", "train", "batch.volcano.sh/v1alpha1"), "spec": spec}
    history, problems = imported(
        tmp_path,
        trace(
            event(
                0, job, {**job, "metadata": {"name": "idle", "namespace": "shop"}}, {**job, "spec": {}}, {"kind": "X"}
            ),
            config={"batch.volcano.sh/v1alpha1.Job": {"podSpecTemplatePaths": ["/spec/tasks/*/template"]}},
            lifecycles={
                ("batch.volcano.sh/v1alpha1.Job", "shop/train"): {7: [{"Running": START}], 8: [{"Running": START}]}
            },
        ),
    )
    assert [each[2] for each in pods(history)] == ["shop/train-0", "shop/train-1"]
    assert [line.partition(" (")[0] for line in problems] == [
        "an object has several pod templates: all its pods count as those of the first",
        "of an object, neither replicas nor lifecycles of pods are known: its pods are missing",
        "an object has no pod template where the trace says: its pods are missing",
        "an object has no apiVersion, kind or name: left out",
    ]


def test_what_the_server_would_refuse_is_left_out(tmp_path: Path) -> None:
    bad = deployment(1)
    bad["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "-1"}}
    _, problems = imported(tmp_path, trace(event(0, bad)))
    assert len(problems) == 1
    assert "the API server would refuse a pod" in problems[0]


def test_imported_trace_can_be_simulated(tmp_path: Path) -> None:
    history, _ = imported(
        tmp_path, trace(event(0, deployment(2)), event(600, deleted=(deployment(2),))), snapshot=Snapshot.of(NODES)
    )
    assert not any("no nodes" in line for line in history.notes)
    done = bayplan("simulate", "--history", tmp_path / "h", "-o", "json")
    answer = msgspec.json.decode(done.stdout)
    assert (answer["placed"], answer["neverPlaced"]) == (2, 0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (msgspec.msgpack.encode(trace(event(0), version=1)), "has version 1 of SimKube's format"),
        (msgspec.msgpack.encode(trace(event(0, deployment(1))))[:-20], "truncated or damaged"),
        (b'{"version": 2, "config": {"trackedObjects": {}}}', "it has no list of events"),
        (msgspec.json.encode(trace()), "there are no events"),
        (msgspec.json.encode(trace(event(0))), "there are no pods or nodes in it"),
    ],
)
def test_bad_files_are_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "t.sktrace"
    path.write_bytes(content)
    assert is_simkube(path)
    with pytest.raises(HistoryError, match=message):
        import_simkube(path, tmp_path / "h")
    done = bayplan("history", "import", path, "--to", tmp_path / "h", status=2)
    assert len(done.output.splitlines()) == 1
