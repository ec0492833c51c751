import subprocess
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.support.commands import bayplan
from tests.support.tables import cases

from bayplan.answers.backtest.sample import write_sample
from bayplan.answers.history.events import ObjectChanged, PodArrived, PodEnded
from bayplan.answers.history.format import HistoryError
from bayplan.answers.history.reading import History
from bayplan.answers.history.sample import sample_snapshot
from bayplan.answers.history.sources.synthesis import Synthesis, synthesize
from bayplan.core.api.kinds import CRON_JOB, DEPLOYMENT, NODE, POD
from bayplan.faces.cli import main
from bayplan.insight import Snapshot


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> History:
    folder = tmp_path_factory.mktemp("sample")
    synthesize(sample_snapshot(), folder, Synthesis(days=2, rollout_days=3.0))
    return History.open(folder)


def test_the_history_is_synthetic_and_complete(sample: History) -> None:
    assert sample.synthetic
    assert (sample.problems, sample.gaps) == ((), ())
    assert sample.length == timedelta(days=2)
    start = sample.start()
    assert (len(start.of_kind(NODE)), len(start.of_kind(POD)), start.problems) == (24, 93, ())
    assert sample.notes == ("arrivals are made up from a snapshot, with seed 0: they are no measurements",)


def test_events_tell_one_story(sample: History) -> None:
    """No pod ends that isn't there, and none arrives twice."""
    alive = {document["metadata"]["uid"] for document in sample.start().objects() if document["kind"] == "Pod"}
    last = sample.begin
    for event in sample.events():
        assert last <= event.time < sample.end
        last = event.time
        if isinstance(event, PodArrived):
            assert event.uid not in alive
            alive.add(event.uid)
        elif isinstance(event, PodEnded):
            alive.remove(event.uid)


def test_cron_jobs_follow_their_schedules_and_last_as_finished_jobs(sample: History) -> None:
    arrived = [event for event in sample.events() if isinstance(event, PodArrived)]
    train = [event for event in arrived if event.key.startswith("shop/train-model")]
    assert len(train) == 2 * 8
    assert {(event.time.hour, event.time.minute) for event in train} == {(1, 0)}
    assert all(event.runs is not None and 3600 <= event.runs <= 10800 for event in train)
    assert {event.owner.kind for event in train if event.owner is not None} == {"Job"}
    prices = Counter(event.time for event in arrived if event.key.startswith("shop/sync-prices"))
    assert len(prices) == 2 * 96 - 1
    assert set(prices.values()) == {2}


def test_replicas_follow_the_day(sample: History) -> None:
    replicas, by_hour = 18, {}
    for event in sample.events():
        if event.key.startswith("shop/web-") if isinstance(event, PodArrived | PodEnded) else False:
            replicas += 1 if isinstance(event, PodArrived) else -1
        by_hour[event.time.hour] = replicas
    assert by_hour[14] > by_hour[2] > 0


def test_workloads_are_scaled_with_their_pods(sample: History) -> None:
    replicas = {"deployments": 18, "replicasets": 18}
    pods = 18
    for event in sample.events():
        if isinstance(event, ObjectChanged) and event.key.startswith("shop/web"):
            replicas[event.kind.plural] = event.document["spec"]["replicas"]
        elif isinstance(event, PodArrived | PodEnded) and event.key.startswith("shop/web-"):
            pods += 1 if isinstance(event, PodArrived) else -1
    assert set(replicas.values()) == {pods}
    assert pods < 18
    assert "shop/web" in sample.start().of_kind(DEPLOYMENT)


def test_the_same_seed_makes_the_same_bytes_in_any_process(tmp_path: Path) -> None:
    write_sample(tmp_path / "here", days=1)
    script = "import sys; from pathlib import Path; from bayplan.answers.backtest.sample import write_sample; "
    script += "write_sample(Path(sys.argv[1]), days=1)"
    subprocess.run(
        [sys.executable, "-c", script, tmp_path / "there"], check=True, env={"PYTHONHASHSEED": "77", "TZ": "Asia/Tokyo"}
    )
    for path in (tmp_path / "here").iterdir():
        assert path.read_bytes() == (tmp_path / "there" / path.name).read_bytes()


def test_another_seed_makes_another_history(tmp_path: Path) -> None:
    found = []
    for seed in (1, 2):
        synthesize(sample_snapshot(), tmp_path / str(seed), Synthesis(days=0.5, seed=seed))
        found.append([(event.time, event.key) for event in History.open(tmp_path / str(seed)).events()])
    assert found[0] != found[1]


def test_what_is_guessed_is_said(tmp_path: Path) -> None:
    """A cluster's snapshot has no CronJobs, and the Jobs of this one haven't finished."""
    objects = []
    for document in sample_snapshot().objects():
        if document["kind"] == "Job":
            document.pop("status")
        objects.append(document)
    without = Snapshot.of(objects).but(remove=[(CRON_JOB, key) for key in sample_snapshot().of_kind(CRON_JOB)])
    synthesize(without, tmp_path / "h", Synthesis(days=1.1, job_seconds=60))
    history = History.open(tmp_path / "h")
    assert (
        "the durations of 4 of 4 jobs are a guess of 60 s: no finished Job in the snapshot shows them" in history.notes
    )
    assert any(note.startswith("the schedules of 4 CronJobs are a guess from their Jobs") for note in history.notes)
    assert any(event.key.startswith("shop/train-model") for event in history.events() if isinstance(event, PodArrived))


def test_odd_workloads_cost_only_themselves(tmp_path: Path) -> None:
    objects = []
    for document in sample_snapshot().objects():
        name = document["metadata"]["name"]
        if document["kind"] == "CronJob" and name == "clean-up":
            document["spec"]["schedule"] = "sometimes"
        if document["kind"] == "CronJob" and name == "train-model":
            document["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"] = []
        objects.append(document)
    _, problems = synthesize(Snapshot.of(objects), tmp_path / "h", Synthesis(days=0.2))
    assert len(problems) == 2
    assert any("a CronJob has no valid schedule" in problem for problem in problems)
    assert any("new pods would be refused" in problem and "train-model" in problem for problem in problems)
    assert any(isinstance(event, PodArrived) for event in History.open(tmp_path / "h").events())


def test_an_empty_snapshot_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="has no nodes and no pods"):
        synthesize(Snapshot(), tmp_path / "h", Synthesis())


def test_the_commands(tmp_path: Path) -> None:
    sample_snapshot().save(tmp_path / "now.bayplan")
    arguments = ["history", "synthesize", str(tmp_path / "h"), "--from", str(tmp_path / "now.bayplan"), "--days", "0.1"]
    result = bayplan(*arguments)
    assert "pods and 24 nodes, 2026-03-02 00:00 to 2026-03-02 02:24 UTC" in result.output
    shown = CliRunner().invoke(main, ["history", "show", str(tmp_path / "h")])
    assert shown.output.startswith("synthesized from the sample cluster (synthetic)\n")


ODD = {
    "an owner that is a text": ("Pod", ("metadata", "ownerReferences"), ["odd"], "Pod shop/"),
    "an owner without a kind": ("Pod", ("metadata", "ownerReferences"), [{"controller": True, "name": "web"}], ""),
    "a pod whose spec is a number": ("Pod", ("spec",), 3, "Pod shop/"),
    "a cron job without a template": ("CronJob", ("spec", "jobTemplate"), None, "CronJob shop/"),
    "a template that is a number": ("Job", ("spec", "template"), 7, "Job shop/"),
    "a deployment of many": ("Deployment", ("spec", "replicas"), "many", "Deployment shop/"),
}


@cases("kind, path, value, problem", ODD)
def test_odd_object_costs_only_itself(
    tmp_path: Path, kind: str, path: tuple[str, ...], value: object, problem: str
) -> None:
    documents = list(sample_snapshot().objects())
    found = next(each for each in documents if each["kind"] == kind)
    holder = found
    for name in path[:-1]:
        holder = holder[name]
    holder[path[-1]] = value

    _, problems = synthesize(Snapshot.of(documents), tmp_path / "h", Synthesis(days=0.1))

    assert [line.startswith(problem) for line in problems] == [True] * bool(problem)
    assert len(list(History.open(tmp_path / "h").rows())) > len(documents) - 10
