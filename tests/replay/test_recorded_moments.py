"""A recording at any of its moments: against replays up to each decision, and other policies against `OtherPolicy`."""

import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.answers.backtest.settings import with_settings
from bayplan.answers.moments.steps import StepKind
from bayplan.answers.replay import cursor
from bayplan.answers.replay.candidates import OtherPolicy
from bayplan.answers.replay.moments import decisions_of, snapshot_at, snapshot_at_end
from bayplan.answers.replay.policies import Policy, other_policy, recorded_policy
from bayplan.answers.replay.recorded_moments import RecordingMoments
from bayplan.core.api.kinds import NODE, POD
from bayplan.running.recording.files import Recording, RecordingError

PATH = Path(__file__).parents[1] / "data" / "recordings" / "version-1.tar"
PACKING = (
    "bayplan-scheduler/NodeResourcesFit.scoringStrategy.type=MostAllocated",
    "bayplan-scheduler/NodeResourcesFit.weight=20",
)


class Enough(Exception):
    """Raised by a progress."""


@pytest.fixture
def run():
    return Recording.open(PATH)


@pytest.fixture
def moments(run):
    found = RecordingMoments([run])
    yield found
    found.close()


def before(run, number):
    """The cluster before a decision, by a replay of its own."""
    found = []

    def visit(moment):
        if moment.number == number and moment.recorded:
            found.append(snapshot_at(moment.scheduler, moment.time, ""))
        return bool(found)

    recorded_policy(run).replay(run).run(visit)
    return found[0]


def test_moments_are_the_clusters_before_decisions(run, moments):
    assert len(moments) == len(list(decisions_of(run))) == 13
    for number in range(13):
        assert moments.snapshot(number).documents == before(run, number + 1).documents, number
    assert moments.snapshot(13).documents == snapshot_at_end(recorded_policy(run).replay(run)).documents


@settings(max_examples=15)
@given(numbers=st.lists(st.integers(0, 13), min_size=2, max_size=8), kept=st.integers(1, 4))
def test_any_way_through_a_recording_leads_to_the_same_clusters(numbers, kept):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cursor, "KEPT", kept)
        patch.setattr(cursor, "BEFORE", 1)
        moments = RecordingMoments([Recording.open(PATH)])
        straight = RecordingMoments([Recording.open(PATH)])
        try:
            for number in numbers:
                found = moments.snapshot(number)
                assert found.documents == straight.snapshot(number).documents
                assert set(found.of_kind(NODE)) == {"node-0", "node-1"}
        finally:
            moments.close()
            straight.close()


def test_a_step_shares_what_stays(moments):
    here, there, again = moments.snapshot(3), moments.snapshot(4), moments.snapshot(0)
    for one, other in ((here, there), (here, again)):
        assert all(one.of_kind(NODE)[name] is other.of_kind(NODE)[name] for name in ("node-0", "node-1"))
    shared = here.of_kind(POD).keys() & there.of_kind(POD).keys()
    assert sum(here.of_kind(POD)[key] is there.of_kind(POD)[key] for key in shared) >= len(shared) - 2


def test_steps_name_what_was_decided(moments):
    assert [(step.number, step.what, step.subject, step.node) for step in moments.steps if step.number in {6, 7}] == [
        (6, StepKind.PLACED, "default/batch-7d8bb84dbf-lsttx", "node-1"),
        (7, StepKind.NOT_PLACED, "default/urgent", ""),
        (7, StepKind.EVICTED, "default/batch-7d8bb84dbf-k9jgk", "node-1"),
        (7, StepKind.EVICTED, "default/batch-7d8bb84dbf-lsttx", "node-1"),
    ]
    told = {step.number: step.message for step in moments.steps if step.what is StepKind.NOT_PLACED}
    assert told[7].endswith("2 Insufficient cpu.; it preempts 2 pods on node node-1")


def test_times_lead_to_moments(run, moments):
    decisions = list(decisions_of(run))
    assert [moments.at(each.time) for each in decisions] == list(range(1, 14))
    assert moments.at(moments.time(0)) == 0
    assert moments.time(13) == decisions[-1].time


def test_differences_are_those_of_another_policy(run, moments):
    policy = moments.policy
    packing = Policy(with_settings(policy.configuration, (), PACKING, policy.gates), (), policy.gates)
    everything = OtherPolicy(packing)
    policy.replay(run).run(everything.visit)
    number, found = 0, []
    while (each := moments.next_difference(packing, number)).step is not None:
        found.append((each.step, each.other))
        number = each.step
    assert found == [(each.number, each.other) for each in everything.found.differences]
    assert len(found) == 3
    assert each.reached == 13


def test_search_ends_where_it_is_enough_and_says_what_was_not_asked(moments):
    left = iter([False] * 4)
    same = other_policy(moments.policy, None, ())
    found = moments.next_difference(same, 2, lambda: next(left, True))
    assert (found.step, found.reached, found.skipped) == (None, 6, 0)
    configuration = with_settings(None, (), ("NodeResourcesFit.weight=1",))
    configuration.profiles = [each for each in configuration.profiles if each.schedulerName == "default-scheduler"]
    assert moments.next_difference(other_policy(moments.policy, configuration, ()), 0).skipped == 13


def test_progress_can_end_a_replay(moments):
    def stop(_):
        raise Enough

    with pytest.raises(Enough):
        moments.next_difference(other_policy(moments.policy, None, ()), 0, progress=stop)
    assert len(moments.snapshot(3).of_kind(POD)) == 6


def unpacked(folder):
    with tarfile.open(PATH) as archive:  # only some versions of Python have a filter for `extractall`
        for member in archive:
            path = folder / member.name
            path.parent.mkdir(parents=True, exist_ok=True)
            if member.isfile():
                path.write_bytes(archive.extractfile(member).read())
    return next(folder.rglob("decisions-000001.frames"))


def test_what_is_before_the_damage_can_be_gone_through(tmp_path):
    frames = unpacked(tmp_path)
    data = bytearray(frames.read_bytes())
    data[-20] ^= 0xFF
    frames.write_bytes(data)
    moments = RecordingMoments(Recording.runs(tmp_path))
    try:
        assert 0 < len(moments) <= 13
        assert any("damaged" in note for note in moments.notes)
        assert moments.snapshot(len(moments) - 1).of_kind(NODE)
    finally:
        moments.close()


def test_recording_without_decisions_is_one_message(tmp_path):
    unpacked(tmp_path).write_bytes(b"")
    with pytest.raises(RecordingError, match="has no decisions"):
        RecordingMoments(Recording.runs(tmp_path))


def test_runs_follow_each_other(tmp_path):
    unpacked(tmp_path)
    first = next(tmp_path.rglob("run-000001"))
    second = first.with_name("run-000002")
    second.mkdir()
    for file in first.iterdir():
        (second / file.name).write_bytes(file.read_bytes())
    moments = RecordingMoments(Recording.runs(tmp_path))
    try:
        assert len(moments) == 26
        assert [step.number for step in moments.steps if step.what is StepKind.EVICTED] == [7, 7, 20, 20]
        assert moments.snapshot(13).documents == moments.snapshot(0).documents
        assert moments.snapshot(20).documents == moments.snapshot(7).documents
        same = other_policy(moments.policy, None, ())
        assert moments.next_difference(same, 0).reached == 26
    finally:
        moments.close()
