"""A history at any of its moments: against an independent reading of its rows, and against itself."""

from dataclasses import replace
from datetime import timedelta

import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_histories import BEGIN, at, node, pod, write_small

from bayplan.answers.backtest.sample import write_sample
from bayplan.answers.history import moments as history_moments
from bayplan.answers.history.following import Following
from bayplan.answers.history.moments import HistoryMoments
from bayplan.answers.history.reading import History
from bayplan.answers.history.writing import write_history
from bayplan.answers.moments.steps import Step, StepKind
from bayplan.core.api.kinds import NODE, POD


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    folder = tmp_path_factory.mktemp("moments") / "sample"
    write_sample(folder, days=1.0)
    return folder


@pytest.fixture
def small(tmp_path):
    write_small(tmp_path / "small")
    return HistoryMoments(History.open(tmp_path / "small"))


def rows_until(folder, time):
    """The rows of the Parquet files up to a time, those of the start included."""
    table = pyarrow.parquet.read_table(folder / "events-000001.parquet")
    return [row for row in table.to_pylist() if row["initial"] or row["time_utc"] <= time]


def placed_and_not_ended(rows):
    """pod -> node, of the rows alone."""
    found = {}
    for row in rows:
        key = f"{row['namespace']}/{row['name']}"
        if row["event"] == "pod_bound":
            found[key] = row["node"]
        elif row["event"] == "pod_ended":
            found.pop(key, None)
    return found


def placed(snapshot):
    documents = {key: snapshot.document(POD, key) for key in snapshot.of_kind(POD)}
    return {key: each["spec"]["nodeName"] for key, each in documents.items() if each["spec"].get("nodeName")}


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0, 1))
def test_pods_on_nodes_are_those_placed_and_not_ended(sample, share):
    history = History.open(sample)
    moments = HistoryMoments(history)
    time = history.begin + (history.end - history.begin) * share
    rows = rows_until(sample, time)
    snapshot = moments.snapshot(moments.at(time))
    assert placed(snapshot) == placed_and_not_ended(rows)
    ended = {row["uid"] for row in rows if row["event"] == "pod_ended"}
    arrived = {row["uid"] for row in rows if row["event"] == "pod_arrived"}
    assert len(snapshot.of_kind(POD)) == len(arrived - ended)


def test_begin_is_the_start_of_the_history(sample):
    history = History.open(sample)
    assert HistoryMoments(history).snapshot(0).documents == history.start().documents


def test_steps_back_and_forth_lead_to_the_same_clusters(sample, monkeypatch):
    monkeypatch.setattr(history_moments, "_INTERVAL", 7)
    monkeypatch.setattr(history_moments, "MOST_CHECKPOINTS", 5)
    moments = HistoryMoments(History.open(sample))
    monkeypatch.undo()
    whole = HistoryMoments(History.open(sample))
    last = len(moments)
    assert last == len(whole) > 100
    for number in (0, 1, 2, 1, 0, last // 2, last // 2 + 1, last // 2, last, last - 1, last):
        assert moments.snapshot(number).documents == whole.snapshot(number).documents, number


def test_objects_that_stay_are_the_same_bytes(sample):
    moments = HistoryMoments(History.open(sample))
    here, there = moments.snapshot(100), moments.snapshot(101)
    shared = here.of_kind(POD).keys() & there.of_kind(POD).keys()
    assert len(shared) > 50
    changed = [key for key in shared if here.of_kind(POD)[key] is not there.of_kind(POD)[key]]
    assert len(changed) <= 1  # a step changes one object at most


def test_steps_of_a_small_history(small):
    assert [(step.number, step.what, step.subject, step.node, step.message) for step in small.steps] == [
        (1, StepKind.ARRIVED, "default/new", "", ""),
        (2, StepKind.PLACED, "default/new", "b", ""),
        (3, StepKind.NODE_CHANGED, "a", "", ""),
        (4, StepKind.ENDED, "default/new", "b", "Succeeded"),
        (5, StepKind.NODE_WENT, "a", "", ""),
    ]
    found = [(sorted(small.snapshot(n).of_kind(NODE)), placed(small.snapshot(n))) for n in range(6)]
    old = {"default/old": "a"}
    assert found == [
        (["a", "b"], old),
        (["a", "b"], old),
        (["a", "b"], {**old, "default/new": "b"}),
        (["a", "b"], {**old, "default/new": "b"}),
        (["a", "b"], old),
        (["b"], old),
    ]
    assert small.snapshot(2).document(NODE, "a")["status"]["allocatable"]["cpu"] == "4"
    assert small.snapshot(3).document(NODE, "a")["status"]["allocatable"]["cpu"] == "8"


def test_moment_of_a_time_is_after_all_steps_until_then(small):
    assert [small.at(at(seconds)) for seconds in (-5, 0, 9.9, 10, 10.5, 11, 20, 70, 80, 1000)] == [
        0, 0, 0, 1, 1, 2, 3, 4, 5, 5,
    ]  # fmt: skip
    assert [small.time(number) - BEGIN for number in (0, 1, 5)] == [
        timedelta(seconds=seconds) for seconds in (0, 10, 80)
    ]


def test_changes_lead_from_a_moment_to_the_end(small):
    documents = {kind: dict(known) for kind, known in small.snapshot(1).documents.items()}
    passed = []
    for change in small.changes(1):
        if isinstance(change, Step):
            passed.append(change.number)
        elif change.raw is None:
            del documents[change.kind][change.key]
        else:
            documents[change.kind][change.key] = change.raw
    assert passed == [2, 3, 4, 5]
    assert documents == small.snapshot(5).documents


def moments_of(folder, changes):
    write_history(folder, list(changes), source="the test")
    return HistoryMoments(History.open(folder))


def test_change_of_a_pod_is_no_step_and_keeps_its_node(tmp_path):
    following = Following()

    def changes():
        yield from following.put(NODE, node("a"), at(0), initial=True)
        yield from following.put(POD, pod("web"), at(1))
        yield from following.put(POD, pod("web", on="a"), at(2))
        labelled = pod("web", on="a")
        labelled["metadata"]["labels"] = {"app": "other"}
        yield from following.put(POD, labelled, at(3))
        yield from following.put(NODE, node("b"), at(4))

    moments = moments_of(tmp_path / "h", changes())
    assert [step.what for step in moments.steps] == [StepKind.ARRIVED, StepKind.PLACED, StepKind.NODE_CAME]
    changed = moments.snapshot(2).document(POD, "default/web")
    assert (changed["metadata"]["labels"], changed["spec"]["nodeName"]) == ({"app": "other"}, "a")
    assert changed["metadata"]["creationTimestamp"] == "2026-03-02T07:59:00Z"


def test_events_about_unknown_pods_change_nothing(tmp_path):
    following = Following()
    known = list(following.put(NODE, node("a"), at(0), initial=True))
    known += following.put(POD, pod("web"), at(1))
    bound = list(following.put(POD, pod("web", on="a"), at(2)))
    other = [replace_row(change, uid="another") for change in bound]
    ended = [replace_row(change, uid="another") for change in following.removed(POD, "default/web", at(3))]
    lost = [replace_row(change, name="never-seen") for change in bound]
    moments = moments_of(tmp_path / "h", [*known, *other, *ended, *lost])
    assert [step.what for step in moments.steps] == [StepKind.ARRIVED]
    assert list(moments.snapshot(1).of_kind(POD)) == ["default/web"]


def replace_row(change, **fields):
    row = type(change.row)(**{name: getattr(change.row, name) for name in change.row.__struct_fields__} | fields)
    return change._replace(row=row)


def test_evictions_are_told_from_ends(tmp_path):
    following = Following()

    def changes():
        yield from following.put(NODE, node("a"), at(0), initial=True)
        for name, reason in (("one", "PreemptionByScheduler"), ("two", "Deleted")):
            yield from following.put(POD, pod(name, on="a"), at(1))
            yield from following.removed(POD, f"default/{name}", at(2), reason)

    moments = moments_of(tmp_path / "h", changes())
    ends = {step.subject: (step.what, step.node) for step in moments.steps if step.time == at(2)}
    assert ends == {"default/one": (StepKind.EVICTED, "a"), "default/two": (StepKind.ENDED, "a")}


def test_progress_can_end_a_snapshot(sample, monkeypatch):
    class Enough(Exception):
        pass

    def stop(_):
        raise Enough

    monkeypatch.setattr(history_moments, "_OFTEN", 10)
    moments = HistoryMoments(History.open(sample))
    with pytest.raises(Enough):
        moments.snapshot(5, stop)
    assert placed(moments.snapshot(5))


def test_step_says_whether_it_is_about_a_node():
    step = Step(1, BEGIN, StepKind.NODE_CAME, "a")
    assert step.about_node
    assert not replace(step, what=StepKind.PLACED).about_node
