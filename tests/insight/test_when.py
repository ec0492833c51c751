"""when: in how long pods start, as the cluster goes on."""

import json
import os
import re
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner
from tests.history.small_histories import write_small
from tests.support.served_questions import new_pod, node

from bayplan import Plugin
from bayplan.answers.insight.asked.when import AskWhen, WhenPending
from bayplan.answers.insight.questions.forecast import NEVER
from bayplan.answers.insight.questions.starts import StartTimes
from bayplan.core.api.durations import EXPECTED_DURATION
from bayplan.faces.cli import main
from bayplan.insight import Foresight, Insight, QuestionError, Snapshot, Stopped

NOW = datetime(2026, 3, 2, 8, tzinfo=UTC)
SPREAD = "p50=20m,p90=1h"


def pod(name, cpu, *, on="", age=0.0, expected="", job="", priority=0, labels=None, **spec):
    """A pod that has run for `age` seconds, or was created before the snapshot."""
    document = new_pod(name, str(cpu), **spec)
    began = (NOW - timedelta(seconds=age)).isoformat(timespec="seconds").replace("+00:00", "Z")
    metadata = document["metadata"]
    metadata |= {"uid": name, "creationTimestamp": began, "labels": labels or {}}
    if expected:
        metadata["annotations"] = {EXPECTED_DURATION: expected}
    if job:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": job, "controller": True}
        metadata["ownerReferences"] = [owner]
    if priority:
        document["spec"]["priority"] = priority
    document["status"] = {"phase": "Pending"}
    if on:
        document["spec"]["nodeName"] = on
        document["status"] = {"phase": "Running", "startTime": began}
    return document


def insight_of(*objects, seed=0):
    return Insight(Snapshot.of(objects, source="a cluster", taken=NOW), seed=seed)


def one_node(*pods, cpu="4"):
    return insight_of(node("a", cpu=cpu, labels={"pool": "web"}), *pods)


OLD = pod("old", 3, on="a", age=600, expected="30m")
NEW = pod("new", 2, age=60)


def test_a_pod_starts_when_the_room_that_it_needs_is_free():
    found = one_node(OLD, NEW).when("default/new")
    assert found.start == found.first == StartTimes(1200.0, 1200.0, 1200.0)
    assert [(each.node, each.share) for each in found.nodes] == [("a", 1.0)]
    assert [(each.pod, each.share, each.source) for each in found.waits] == [("default/old", 1.0, "annotation")]
    assert (found.never, found.unless, found.runs) == (0.0, None, 39)
    document = found.to_dict()
    assert (document["p10"], document["p50"], document["p90"]) == (1200.0, 1200.0, 1200.0)
    assert document["waitsFor"] == ["default/old"]
    assert document["known"] == 0.5


def test_a_pod_that_fits_starts_now():
    found = one_node(NEW).when("default/new")
    assert found.start.p90 < 1
    assert found.sooner == ()
    assert "starts now" in found.text()


def test_drawn_run_times_make_a_spread_and_the_seed_repeats_it():
    cluster = [pod("old", 3, on="a", age=600, expected=SPREAD), NEW]
    found = one_node(*cluster).when("default/new")
    assert found.start.p10 < found.start.p50 < found.start.p90
    again = one_node(*cluster)
    assert [again.when("default/new") for _ in range(2)] == [found, found]
    other = insight_of(node("a", labels={"pool": "web"}), *cluster, seed=100).when("default/new", sooner="no")
    assert other.start != found.start


def test_a_pod_without_any_source_never_ends_and_the_answer_says_what_would_help():
    found = one_node(pod("old", 3, on="a"), NEW).when("default/new")
    assert found.start == StartTimes(None, None, None)
    assert found.never == 1.0
    assert found.unless.pod == "default/new"
    assert "Insufficient cpu" in found.unless.message
    assert any("old" in text or "node" in text for text in found.unless.help)
    assert "never starts, unless something changes" in found.text()
    assert found.to_dict()["p50"] is None
    assert found.known.share == 0.0


def test_what_would_be_sooner_is_tried_with_the_same_run_times():
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
    low = pod("old", 3, on="a", age=600, expected=SPREAD)
    found = insight_of(node("a", labels={"pool": "web"}), high, low, NEW).when("default/new")
    sooner = {each.change: each for each in found.sooner}
    assert sooner["one more node of web"].p50 < 1
    assert sooner["priority class high"].p50 < 10  # the victim needs its time to end
    assert sooner["50% of the requested cpu and memory"].p50 < 1
    same = sooner["75% of the requested cpu and memory"]
    assert (same.p50, same.sooner) == (found.start.p50, 0.0)
    assert one_node(OLD, NEW).when("default/new", sooner="no").sooner == ()


def test_equal_pods_start_in_their_order_and_those_before_take_the_room():
    waiting = [pod(f"new-{each}", 2, age=100 - each, expected="10m") for each in range(4)]
    found = one_node(OLD, *waiting)
    starts = [found.when(f"default/new-{each}", sooner="no").start.p50 for each in range(4)]
    assert starts == sorted(starts)
    assert starts[0] == 1200.0
    assert starts[3] == pytest.approx(1800.0, abs=1)


def test_a_workload_has_started_when_the_last_of_its_pods_has():
    waiting = [pod(f"train-{each}", 2, age=100, expected="10m", job="train") for each in range(4)]
    found = one_node(pod("old", 4, on="a", age=600, expected="30m"), *waiting).when("job/train")
    assert (found.what, found.pods) == ("job default/train", 4)
    assert found.first.p50 == 1200.0
    assert found.start.p50 == pytest.approx(1800.0, abs=1)


def test_a_gang_starts_together():
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "gang", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }
    members = [pod(f"m-{each}", 2, schedulingGroup={"podGroupName": "gang"}) for each in range(2)]
    found = one_node(pod("one", 2, on="a", expected="5m"), pod("two", 2, on="a", expected="9m"), group, *members)
    answer = found.when("podgroup/gang")
    assert answer.start.p50 == answer.first.p50 == pytest.approx(540.0, abs=1)
    assert "default/two" in answer.to_dict()["waitsFor"]


def test_a_pod_of_a_higher_priority_comes_first():
    found = one_node(OLD, NEW, pod("urgent", 4, priority=10, expected="10m"))
    preempting = found.when("default/urgent", sooner="no")
    assert preempting.start.p50 < 60
    assert preempting.waits[0].pod == "default/old"
    assert found.when("default/new", sooner="no").start.p50 == pytest.approx(600.0 + preempting.start.p50, abs=5)


def test_an_autoscaler_adds_the_node_that_is_missing():
    without = one_node(pod("old", 3, on="a"), NEW)
    for rules, most in (("cluster-autoscaler", 90), ("karpenter", 90)):
        found = without.when("default/new", foresight=Foresight(autoscaler=rules), sooner="no")
        assert 60 <= found.start.p50 <= most
        assert found.nodes[0].node.startswith("web")


def test_an_autoscaler_that_may_not_grow_helps_nobody():
    question = AskWhen(
        what="new", autoscaler="karpenter", models={"autoscaler": {"groups": [{"pool": "web", "max": 1}]}}, sooner="no"
    )
    assert question.ask(one_node(pod("old", 3, on="a"), NEW)).start.p50 is None


def test_manifests_are_asked_about_before_they_are_submitted():
    found = one_node(OLD).when(objects=[new_pod("later", "2")])
    assert found.what == "pod default/later"
    assert found.start.p50 == 1200.0
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {
            "parallelism": 2,
            "completions": 2,
            "template": {"spec": {**new_pod("x", "2")["spec"], "restartPolicy": "Never"}},
        },
    }
    told = Foresight(durations={"job default/train": "10m"})
    both = one_node(OLD).when(objects=[job], foresight=told)
    assert (both.what, both.pods, both.first.p50) == ("job default/train", 2, 1200.0)
    assert both.known.sources["durations"] == 2


def test_the_world_is_as_before_after_each_question():
    insight = one_node(OLD, NEW)
    before = insight.explain("default/new").to_dict()
    insight.when("default/new")
    insight.when(objects=[new_pod("later", "2")])
    insight.when_pending()
    assert insight.explain("default/new").to_dict() == before


def test_all_pending_pods_in_the_order_of_their_starts():
    found = one_node(OLD, NEW, pod("huge", 20), pod("small", 1)).when_pending()
    assert [each.pod for each in found.pods] == ["default/small", "default/new", "default/huge"]
    assert [each.start.p50 for each in found.pods][1:] == [1200.0, None]
    document = found.to_dict()
    assert document["pods"][1]["waitsFor"] == ["default/old"]
    assert "2 of 3 pending pods will start" in found.text()
    assert one_node(OLD).when_pending().pods == ()


def test_a_pod_with_a_node_has_started():
    found = one_node(OLD).when("default/old")
    assert found.start == StartTimes(0.0, 0.0, 0.0)
    assert "has its node already" in found.text()


def test_a_gated_pod_never_starts_until_its_gate_is_gone():
    found = one_node(pod("new", 1, schedulingGates=[{"name": "example.com/wait"}])).when("default/new")
    assert found.start.p50 is None
    assert "gate" in f"{found.unless.message}{found.unless.help}"


def test_bad_durations_are_one_line_each_and_the_answer_is_given():
    durations = {"job default/x": "-5m", "pod default/old": "30m", "nonsense": "1h", "job default/absent": "1h"}
    found = one_node(pod("old", 3, on="a", age=600), NEW).when("default/new", foresight=Foresight(durations=durations))
    assert found.start.p50 == 1200.0
    assert len(found.notes) == 3
    assert found.notes[0].startswith("durations: job default/x: -5m is no duration")
    assert found.notes[2] == "durations: job default/absent: no pod here belongs to it"


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("default/absent", "there is no pod default/absent in a cluster"),
        ("job/absent", "there is no job default/absent with pods in a cluster"),
        ("node/a", "expected a pod, or one of deployment"),
        ("a/b/c", "a is no type"),
        ("", "expected a pod or TYPE/NAME"),
        ("//", "expected a pod or TYPE/NAME"),
    ],
)
def test_what_does_not_exist(what, message):
    with pytest.raises(QuestionError, match=message):
        one_node(OLD).when(what)


def test_an_interrupted_question_shows_the_runs_so_far():
    heard = []

    def progress(text):
        heard.append(text)
        if len(heard) == 3:
            raise Stopped

    found = one_node(OLD, NEW).when("default/new", progress=progress)
    assert found.interrupted
    assert (found.runs, found.start.p50) == (3, 1200.0)
    assert heard[0] == "1 run: starts in 20m"


def test_quantiles_of_runs():
    """With 9 and 19 runs, p10 and p90 are order statistics between which 8 of 10 further values are."""
    assert StartTimes.of(list(range(9))) == StartTimes(0, 4, 8)
    assert StartTimes.of(list(range(19))) == StartTimes(1, 9, 17)
    assert StartTimes.of([1.0, 2.0, NEVER]) == StartTimes(1.0, 2.0, None)
    assert StartTimes.of([]) == StartTimes(None, None, None)


def test_a_pod_for_which_a_plugin_fails_is_given_up_and_costs_itself_only():
    class Fails(Plugin):
        name = "Fails"

        def filter(self, cycle, pod, node):
            if pod.name == "odd":
                raise ValueError("odd")

    cluster = [node("a", labels={"pool": "web"}), OLD, pod("odd", 1, age=90), NEW]
    insight = Insight(Snapshot.of(cluster, taken=NOW), plugins=[Fails])
    found = insight.when_pending(foresight=Foresight(runs=1))
    assert {each.pod: each.start.p50 for each in found.pods} == {"default/new": 1200.0, "default/odd": None}


def test_a_priority_class_that_pods_cannot_have_is_left_out():
    huge = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "huge"}, "value": 2**33}
    found = insight_of(node("a", labels={"pool": "web"}), huge, OLD, NEW).when("default/new")
    assert [each.change for each in found.sooner if "huge" in each.change] == []
    assert len(found.sooner) == 3


def test_a_redacted_snapshot_has_the_same_answer(tmp_path):
    told = pod("old", 3, on="a", age=600, expected=SPREAD)
    bound = pod("new", 2, age=60, activeDeadlineSeconds=600)
    odd = pod("odd", 1, on="a", expected="as long as Ann says")
    plain = Snapshot.of([node("a", labels={"pool": "web"}), told, bound, odd], taken=NOW)
    plain.save(tmp_path / "redacted.snapshot", redact=True)
    redacted = Snapshot.open(tmp_path / "redacted.snapshot")
    assert "Ann" not in str(redacted.documents)
    found = [Insight(each).when_pending(foresight=Foresight(runs=3)) for each in (plain, redacted)]
    assert [each.start.p50 is not None for each in found[1].pods] == [True]
    assert found[0].known.sources == found[1].known.sources


# The command


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """Write the file with the cluster, which was read at NOW; again with other objects."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "cluster.json"

    def write(*objects):
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        os.utime(file, (NOW.timestamp(), NOW.timestamp()))

    write(node("a", labels={"pool": "web"}), OLD, NEW, pod("huge", 20))
    return write


def asked(*arguments):
    return CliRunner().invoke(main, ["when", *arguments, "--from", "cluster.json"])


def test_the_command_answers_and_exits_by_the_answer(cluster):
    found = asked("new")
    assert (found.exit_code, found.stdout.splitlines()[0]) == (0, "pod default/new starts in 20m")
    never = asked("huge", "-o", "json")
    assert (never.exit_code, json.loads(never.stdout)["p50"]) == (1, None)
    table = asked("--all-pending", "-o", "json")
    assert [each["p50"] for each in json.loads(table.stdout)["pods"]] == [1200.0, None]


def test_the_command_reads_durations_and_says_which_lines_it_left_out(cluster, tmp_path):
    (tmp_path / "d.csv").write_text("workload,duration\npod default/huge,ten\nnonsense\n")
    found = asked("new", "--durations", "d.csv")
    assert found.exit_code == 0
    assert "d.csv (line 3): nonsense: expected a workload and a duration" in found.stderr
    assert "note: durations: pod default/huge: ten is no duration" in found.stdout


def test_the_command_takes_run_times_from_a_history(cluster, tmp_path):
    write_small(tmp_path / "history")  # a pod of the ReplicaSet web ran for 59 seconds
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}
    web = pod("web-0", 3, on="a")
    web["metadata"]["ownerReferences"] = [owner]
    cluster(node("a"), web, NEW)
    found = json.loads(asked("new", "--history", "history", "--sooner", "no", "-o", "json").stdout)
    assert found["sources"]["history"] == 1
    assert 50 < found["p50"] < 70
    assert found["waits"][0]["source"] == "history"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected one of a pod, a workload such as job/train, -f and --all-pending"),
        (["new", "--all-pending"], "expected one of a pod, a workload such as job/train, -f and --all-pending"),
        (["new", "--durations", "absent.yaml"], "absent.yaml: No such file or directory"),
        (["new", "--models", "m.yaml"], "autoscaler.preset is 'x'"),
        (["new", "--history", "absent"], "absent"),
        (["new", "--runs", "0"], "0 is not in the range"),
        (["new", "--autoscaler", "magic"], "'magic' is not one of"),
        (["absent"], "there is no pod default/absent in cluster.json"),
    ],
)
def test_bad_input_ends_with_one_message(cluster, tmp_path, arguments, message):
    (tmp_path / "m.yaml").write_text("autoscaler: {preset: x}\n")
    found = asked(*arguments)
    assert found.exit_code == 2
    assert message in found.stderr
    assert "Traceback" not in found.output


def test_questions_need_exactly_one_subject():
    with pytest.raises(QuestionError, match="one of them"):
        AskWhen().ask(one_node())
    with pytest.raises(QuestionError, match="one of them"):
        AskWhen(what="a", objects=[]).ask(one_node())
    with pytest.raises(QuestionError, match="seen: x: expected seconds greater than 0"):
        WhenPending(seen={"x": [0.0]}).ask(one_node())


def test_a_job_with_more_completions_than_parallelism_keeps_its_room():
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "default", "uid": "train"},
        "spec": {"parallelism": 1, "completions": 4, "template": {}},
        "status": {"succeeded": 1},
    }
    first = pod("train-0", 3, on="a", age=600, expected="30m", job="train")
    found = one_node(job, first, pod("new", 2, age=60), pod("small", 1, on="a"))
    assert found.when("default/new", sooner="no").start.p50 == 1200.0  # it waited before the job's next pod came
    later = one_node(job, first, pod("small", 1, on="a")).when(objects=[new_pod("later", "4")], sooner="no")
    assert later.start.p50 is None


def test_few_notes_are_shown_of_many():
    durations = {f"job default/none-{number}": "5m" for number in range(1000)}
    answer = one_node(OLD, NEW).when("default/new", foresight=Foresight(durations=durations))

    assert len(answer.notes) >= 1000
    assert answer.text().count("note: ") == 21


def test_a_pod_that_ends_because_it_is_preempted_is_said_to_be_evicted():
    found = one_node(pod("old", 3, on="a", age=600), pod("urgent", 2, priority=10)).when("default/urgent", sooner="no")

    assert [(each.pod, each.source) for each in found.waits] == [("default/old", "")]
    assert re.search(r"default/old +100% +evicted\n", found.text())
