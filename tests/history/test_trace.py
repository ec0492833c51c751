import gzip
import tracemalloc
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner
from tests.history.small_histories import node
from tests.support.commands import bayplan

from bayplan.answers.history.events import ObjectAdded, PodArrived
from bayplan.answers.history.format import HistoryError
from bayplan.answers.history.reading import History
from bayplan.answers.history.sources import trace
from bayplan.answers.history.sources.trace import BEGIN, import_trace
from bayplan.core.api.kinds import NODE, custom_kind
from bayplan.core.api.pod_groups import POD_GROUPS
from bayplan.faces.cli import main
from bayplan.insight import Snapshot

TRACE = """\
arrival_seconds,duration_seconds,requests,labels,priority,gang,count,name
0,60.5,"cpu=500m,memory=1Gi","app=web,tier=front",,,3,web
10,,"cpu=2,nvidia.com/gpu=1",,100,train,4,train
20,300,cpu=1,,,,,
"""


def imported(tmp_path: Path, text: str, **options) -> tuple[History, list[str]]:
    (tmp_path / "trace.csv").write_text(text)
    _, problems = import_trace([tmp_path / "trace.csv"], tmp_path / "h", **options)
    return History.open(tmp_path / "h"), problems


def test_a_row_is_as_many_pods_as_it_counts(tmp_path: Path) -> None:
    history, problems = imported(tmp_path, TRACE)
    assert problems == []
    pods = [event for event in history.events() if isinstance(event, PodArrived)]
    assert [pod.key for pod in pods] == [
        *(f"default/web-{number}" for number in range(3)),
        *(f"default/train-{number}" for number in range(4)),
        "default/pod-4",
    ]
    assert [(pod.time - BEGIN).total_seconds() for pod in pods] == [0, 0, 0, 10, 10, 10, 10, 20]
    assert [pod.runs for pod in pods] == [60.5] * 3 + [None] * 4 + [300]
    web, train = pods[0].document, pods[3].document
    assert web["metadata"]["labels"] == {"app": "web", "tier": "front"}
    assert web["spec"]["schedulerName"] == "default-scheduler"
    assert web["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}
    assert train["spec"]["priority"] == 100
    assert train["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] == "1"
    assert (history.end - history.begin).total_seconds() == 320


def test_a_gang_has_a_pod_group_of_its_size(tmp_path: Path) -> None:
    history, _ = imported(tmp_path, TRACE)
    (group,) = (event for event in history.events() if isinstance(event, ObjectAdded))
    assert (group.kind, group.key) == (custom_kind(POD_GROUPS), "default/train")
    assert group.document["spec"] == {"schedulingPolicy": {"gang": {"minCount": 4}}}
    train = next(event for event in history.events() if isinstance(event, PodArrived) and "train" in event.key)
    assert train.document["spec"]["schedulingGroup"] == {"podGroupName": "train"}


def test_nodes_come_from_a_snapshot(tmp_path: Path) -> None:
    snapshot = Snapshot.of([{"apiVersion": "v1", "kind": "Node", **node("a")}])
    history, _ = imported(tmp_path, TRACE, snapshot=snapshot)
    assert list(history.start().of_kind(NODE)) == ["a"]
    assert not any("no nodes" in note for note in history.notes)


def written(path: Path, *rows: str, heading: str = "arrival_seconds,requests,count") -> Path:
    text = "\n".join((heading, *rows, ""))
    if path.suffix == ".parquet":
        pl.read_csv(text.encode()).write_parquet(path)
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
@pytest.mark.parametrize("rows", [["0,cpu=1,6"], ["0,cpu=1,1"] * 6, ["0,cpu=1,2", "0,cpu=1,4"]])
def test_trace_of_more_pods_than_the_limit_is_refused_before_it_is_read(
    tmp_path: Path, name: str, rows: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / name, *rows)
    import_trace([path], tmp_path / "h", most_pods=6)
    assert sum(isinstance(event, PodArrived) for event in History.open(tmp_path / "h").events()) == 6
    monkeypatch.setattr(trace, "_rows", None)
    for paths, most in (([path], 5), ([path, path], 11)):
        with pytest.raises(HistoryError, match=f"more than {most} pods: raise --most-pods, or split the trace"):
            import_trace(paths, tmp_path / "other", most_pods=most)


def test_million_rows_are_refused_in_little_memory(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", *["0,cpu=1"] * 1_000_000, heading="arrival_seconds,requests")
    tracemalloc.start()
    try:
        with pytest.raises(HistoryError, match="more than 500,000 pods"):
            import_trace([path], tmp_path / "h")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 2**20


def test_option_raises_the_limit(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "0,cpu=1,6")
    command = ("history", "import", path, "--to", tmp_path / "h", "--most-pods")
    assert "more than 5 pods" in bayplan(*command, 5, status=2).stderr
    assert "6 pods" in bayplan(*command, 6).stdout


@pytest.mark.parametrize("form", ["csv.gz", "parquet", "parquet with structs", "times"])
def test_every_form_of_a_trace(form: str, tmp_path: Path) -> None:
    if form == "csv.gz":
        path = tmp_path / "t.csv.gz"
        path.write_bytes(gzip.compress(TRACE.encode()))
    elif form == "times":
        path = tmp_path / "t.csv"
        path.write_text("arrival_utc,requests\n2026-05-01T12:00:00+02:00,cpu=1\n2026-05-01T10:00:30Z,cpu=1\n")
    else:
        path = tmp_path / "t.parquet"
        requests = [{"cpu": "2"}, {"cpu": "1"}] if "structs" in form else ["cpu=2", '{"cpu": "1"}']
        pl.DataFrame({"arrival_seconds": [0.0, 1.5], "requests": requests, "count": [2, 1]}).write_parquet(path)
    import_trace([path], tmp_path / "h")
    history = History.open(tmp_path / "h")
    assert history.problems == ()
    assert history.pods == (8 if form == "csv.gz" else 2 if form == "times" else 3)
    if form == "times":
        assert history.begin.isoformat() == "2026-05-01T10:00:00+00:00"
        assert history.length.total_seconds() == 30


BAD_ROWS = {
    "unknown units": ("3,,cpu=4Gib,,,,,x", "requests of cpu are not a quantity such as 500m, 2 or 1.5Gi: left out"),
    "a duration with a unit": ("3,5m,cpu=1,,,,,x", "duration_seconds is not a number of seconds: left out"),
    "a negative duration": ("3,-1,cpu=1,,,,,x", "duration_seconds is not a number of seconds: left out"),
    "no arrival": (",,cpu=1,,,,,x", "a row has no arrival: left out"),
    "an arrival that is text": ("soon,,cpu=1,,,,,x", "arrival_seconds is not a number of seconds: left out"),
    "not a number": ("nan,,cpu=1,,,,,x", "arrival_seconds is not a number of seconds: left out"),
    "requests without a value": ("3,,cpu,,,,,x", "requests are not pairs such as a=1,b=2: left out"),
    "a count of 0": ("3,,cpu=1,,,,0,x", "count is not a whole number from 1 to 1,000,000: left out"),
    "a huge count": ("3,,cpu=1,,,,9e9,x", "count is not a whole number from 1 to 1,000,000: left out"),
    "a priority that is text": ("3,,cpu=1,,high,,,x", "priority is not a number: left out"),
    "too many fields": ("3,,cpu=1,,,,,x,y", "a row has more fields than the heading: left out"),
    "a bad label": ("3,,cpu=1,a b=c,,,,x", "the API server would refuse a pod"),
    "a name twice": ("3,,cpu=1,,,,,pod-4", "a name occurs twice: its pod gets another name"),
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_a_bad_row_costs_only_itself(case: str, tmp_path: Path) -> None:
    row, message = BAD_ROWS[case]
    history, problems = imported(tmp_path, TRACE + row + "\n")
    assert len(problems) == 1
    assert problems[0].startswith(message)
    assert problems[0] in history.notes
    assert history.pods == (9 if "twice" in case else 8)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no trace: it needs the column requests, and arrival_seconds or arrival_utc; it has no columns"),
        ("a,b\n1,2\n", "is no trace: .* it has a, b"),
        (
            "arrival_seconds,requests,durations_seconds\n",
            "unknown column durations_seconds: did you mean 'duration_sec",
        ),
        ("arrival_seconds,requests\n", "there is no pod in the trace"),
        ("arrival_seconds,requests\nx,cpu=1\n", "there is no pod in the trace: arrival_seconds is not a number"),
        ('arrival_seconds,requests\n0,"cpu=1\n', "not a CSV file"),
    ],
)
def test_what_is_no_trace_is_one_line(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=message) as caught:
        imported(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_damaged_files_are_one_line(tmp_path: Path) -> None:
    for name, content in (
        ("t.parquet", b"PAR1 no"),
        ("t.csv.gz", gzip.compress(TRACE.encode())[:-9]),
        ("t.csv", b"\xff"),
    ):
        (tmp_path / name).write_bytes(content)
        result = CliRunner().invoke(main, ["history", "import", str(tmp_path / name), "--to", str(tmp_path / "h")])
        assert (result.exit_code, len(result.output.splitlines())) == (2, 1), result.output


def test_traces_and_audit_logs_are_imported_one_after_the_other(tmp_path: Path) -> None:
    for name in ("trace.csv", "audit.log"):
        (tmp_path / name).write_text(TRACE)
    files = [str(tmp_path / name) for name in ("trace.csv", "audit.log")]
    result = bayplan("history", "import", *files, "--to", tmp_path / "h", status=2)
    assert "import them one after the other" in result.output
