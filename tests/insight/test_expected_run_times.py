"""How long pods run: which source counts, what a duration is, and one line for each that can't be read."""

import pytest
from tests.support.served_questions import new_pod

from bayplan.answers.insight.durations import SOURCES, DurationError, ExpectedRunTimes, run_time_of
from bayplan.answers.insight.durations_file import DurationsFileError, read_durations
from bayplan.answers.simulation.models.run_times import AtMost, Exactly, Lognormal, Seen
from bayplan.core.api.durations import EXPECTED_DURATION
from bayplan.core.api.objects import encode
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.insight import Snapshot

NOW = 1_767_225_600.0
BY_ANNOTATION, GIVEN, BY_HISTORY, BOUND = SOURCES


def pod_of(name="train-0", *, job="", cron_job="", annotation=None, deadline=None, labels=None, started=None):
    document = new_pod(name)
    metadata = document["metadata"]
    metadata["uid"] = name
    if labels is not None:
        metadata["labels"] = labels
    owner = f"{cron_job}-29000000" if cron_job else job
    if owner:
        metadata["ownerReferences"] = [
            {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": owner, "controller": True}
        ]
    if annotation is not None:
        metadata["annotations"] = {EXPECTED_DURATION: annotation}
    if deadline is not None:
        document["spec"]["activeDeadlineSeconds"] = deadline
    pod = PodInfo.from_raw(encode(document))
    if started is not None:
        pod.started = started
    return pod


def expected(pod, given=None, seen=None, objects=()):
    return ExpectedRunTimes(Snapshot.of(objects), NOW, given or {}, seen or {}).of(pod)


@pytest.mark.parametrize(
    ("value", "run_time"),
    [
        ("30m", Exactly(1800.0)),
        ("1h30m", Exactly(5400.0)),
        ("90", Exactly(90.0)),
        (90, Exactly(90.0)),
        (1.5, Exactly(1.5)),
        ({"p50": "20m", "p90": "1h"}, Lognormal.of(1200, 3600)),
        ("p50=20m, p90=1h", Lognormal.of(1200, 3600)),
        ({"p50": 60}, Exactly(60.0)),
        ({"p50": 60, "p90": "1m"}, Exactly(60.0)),
    ],
)
def test_durations(value, run_time):
    assert run_time_of(value) == run_time


@pytest.mark.parametrize(
    "value", ["-5m", "0", 0, -1, "0s", "87600h", 3.2e8, "soon", "", None, True, [], {}, {"p90": "1h"}, "p50=1h,p99=2h"]
)
def test_what_is_no_duration(value):
    with pytest.raises(DurationError, match="is no duration: expected more than 0s and at most 366 days, as in 30m"):
        run_time_of(value)


def test_a_p90_below_the_p50_is_no_distribution():
    with pytest.raises(DurationError, match="p90 10m is less than p50 20m"):
        run_time_of({"p50": "20m", "p90": "10m"})


def test_the_sources_come_in_their_order():
    given, seen = {"job default/train": "20m"}, {"job default/train": [60.0]}
    annotated = pod_of(job="train", annotation="10m")
    assert expected(annotated, given, seen).source == BY_ANNOTATION
    assert expected(pod_of(job="train"), given, seen).source == GIVEN
    assert expected(pod_of(job="train"), {}, seen).source == BY_HISTORY
    assert expected(pod_of(job="train", deadline=60)).source == BOUND
    assert expected(pod_of(job="train")) is None


def test_a_deadline_also_bounds_what_other_sources_say():
    found = expected(pod_of(annotation="10m", deadline=60))
    assert (found.source, found.run_time) == (BY_ANNOTATION, AtMost(60.0, Exactly(600.0)))


def test_the_deadline_of_a_job_begins_with_the_job():
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"activeDeadlineSeconds": 3600, "template": {}},
        "status": {"startTime": "2026-01-01T00:00:00Z"},
    }
    running = pod_of(job="train", started=NOW + 600)
    assert expected(running, objects=[job]).run_time == AtMost(3000.0)
    assert expected(pod_of("train-1", job="train"), objects=[job]).run_time == AtMost(3600.0)


@pytest.mark.parametrize(
    ("key", "pod"),
    [
        ("job default/train", pod_of(job="train")),
        ("job/train", pod_of(job="train")),
        ("Job default/train", pod_of(job="train")),
        ("job default/train-*", pod_of(job="train-17")),
        ("cronjob default/nightly", pod_of(cron_job="nightly")),
        ("pod default/train-0", pod_of(job="train")),
    ],
)
def test_names_of_workloads(key, pod):
    assert expected(pod, {key: 60}).source == GIVEN


def test_what_cannot_be_read_is_one_line_and_the_next_source_counts():
    given = {"job default/a": "-5m", "job default/b": "1m", "nonsense": "1m", "job default/c": "87600h"}
    durations = ExpectedRunTimes(Snapshot.of([]), NOW, given, {"job default/a": [60.0]})
    assert durations.of(pod_of("a-0", job="a", annotation="soon")).source == BY_HISTORY
    assert len(durations.problems) == 4
    assert all("\n" not in line for line in durations.problems)
    assert [line.partition(": ")[2][:13] for line in durations.problems[:3]] == [
        "job default/a",
        "nonsense: exp",
        "job default/c",
    ]
    assert durations.problems[3].startswith(f"pod default/a-0: annotation {EXPECTED_DURATION}: soon is no duration")
    assert list(durations.unused()) == ["durations: job default/b: no pod here belongs to it"]


def test_pods_of_jobs_that_run_once_are_known_by_their_labels():
    seen = {"default, priority 0, app=train": [60.0, 80.0]}
    pod = pod_of("x", job="train-17", labels={"app": "train", "batch.kubernetes.io/job-name": "train-17"})
    assert expected(pod, seen=seen).run_time == Seen.of([60.0, 80.0])


# Files


def test_a_csv_file_names_each_line_that_cannot_be_read(tmp_path):
    file = tmp_path / "durations.csv"
    file.write_text("workload,p50,p90\njob default/a,20m,1h\njob default/b,5m\n\nnonsense\njob default/a,30m,2h\n")
    found, problems = read_durations(file)
    assert found == {"job default/a": {"p50": "30m", "p90": "2h"}, "job default/b": "5m"}
    assert problems == [
        f"{file} (line 5): nonsense: expected a workload and a duration, or p50 and p90",
        f"{file} (line 6): job default/a is on line 2 already: this line counts",
    ]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_table_is_known_by_its_header_whatever_the_file_is_called(tmp_path, separator):
    file = tmp_path / "63"  # as in /dev/fd/63, the pipe of `<(...)`
    rows = [["Workload", "p50", "p90"], ["job default/a", "20m", "1h"]]
    file.write_bytes("\r\n".join(separator.join(row) for row in rows).encode("utf-8-sig"))
    assert read_durations(file) == ({"job default/a": {"p50": "20m", "p90": "1h"}}, [])


def test_yaml_and_json_files(tmp_path):
    yaml, json = tmp_path / "durations.yaml", tmp_path / "durations.json"
    yaml.write_text("job default/a: 20m\njob default/b: {p50: 5m, p90: 10m}\n")
    json.write_text('{"job default/a": 1200}')
    assert read_durations(yaml) == ({"job default/a": "20m", "job default/b": {"p50": "5m", "p90": "10m"}}, [])
    assert read_durations(json) == ({"job default/a": 1200}, [])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.yaml", b"[]", "expected durations by workload, as in `job default/train: 30m`"),
        ("a.yaml", b"a: [", "while parsing|expected|not YAML"),
        ("a.csv", b"\xff\xfe\x00", "not a text file in UTF-8"),
        ("a.csv", b"\xfe\xff", "expected durations by workload"),
        ("missing.csv", None, "No such file"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DurationsFileError, match=message) as raised:
        read_durations(tmp_path / name)
    assert str(raised.value).startswith(str(tmp_path))
