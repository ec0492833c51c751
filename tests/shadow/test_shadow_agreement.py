"""Agreement over time: every comparison is counted once, in at most so many intervals, and old files are read."""

import re
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.answers.shadow import agreement
from bayplan.answers.shadow.agreement import LENGTHS, MOST_INTERVALS, ShadowAgreement
from bayplan.answers.shadow.comparisons import ShadowComparison, ShadowOutcome, ShadowSubject
from bayplan.answers.shadow.record import ShadowFileError, ShadowRecord
from bayplan.answers.shadow.report import write_shadow_report

BEGIN = datetime(2026, 3, 2, 8, tzinfo=UTC)


def compared(seconds=0.0, outcome=ShadowOutcome.SAME, pod="default/web"):
    time = BEGIN + timedelta(seconds=seconds)
    subject = ShadowSubject.BINDING
    return ShadowComparison(time=time, subject=subject, pod=pod, uid=pod, theirs="a", ours="b", outcome=outcome)


@given(
    st.lists(
        st.tuples(st.floats(0, 3 * 86_400 * MOST_INTERVALS / 2), st.sampled_from(ShadowOutcome)),
        min_size=1,
        max_size=60,
    ),
    st.integers(2, 12),
)
def test_every_comparison_is_in_the_interval_of_its_time(found, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agreement, "MOST_INTERVALS", most)
        kept = ShadowAgreement()
        for seconds, outcome in found:
            kept.add(compared(seconds, outcome))
    begins = [each.begin for each in kept.intervals]
    assert begins == sorted(set(begins))
    assert len(begins) <= most
    assert all(begin.timestamp() % kept.seconds == 0 for begin in begins)
    if kept.seconds < max(LENGTHS):
        assert sum(each.total for each in kept.intervals) == len(found)
    for each in kept.intervals:
        end = each.begin + timedelta(seconds=kept.seconds)
        inside = [outcome for seconds, outcome in found if each.begin <= BEGIN + timedelta(seconds=seconds) < end]
        assert dict(each.counts) == {outcome.value: inside.count(outcome) for outcome in ShadowOutcome} or (
            kept.seconds == max(LENGTHS)
        )


def test_intervals_get_longer_and_then_the_oldest_go():
    kept = ShadowAgreement()
    lengths = set()
    for day in range(2 * MOST_INTERVALS):
        kept.add(compared(day * 86_400))
        lengths.add(kept.seconds)
    assert kept.seconds == 86_400
    assert lengths <= LENGTHS.keys()
    assert len(kept.intervals) == MOST_INTERVALS
    assert kept.intervals[-1].begin.date() == (BEGIN + timedelta(days=2 * MOST_INTERVALS - 1)).date()
    assert kept.length == "a day"


def test_share_is_of_equal_decisions():
    kept = ShadowAgreement()
    for outcome in ShadowOutcome:
        kept.add(compared(outcome=outcome))
    assert (kept.intervals[0].total, kept.intervals[0].share) == (4, 0.5)


def test_chart_has_a_bar_for_each_interval_and_its_shares():
    kept = ShadowAgreement()
    assert kept.chart() == ""
    for seconds, outcome in ((0, ShadowOutcome.SAME), (1, ShadowOutcome.OTHER), (180, ShadowOutcome.BEST)):
        kept.add(compared(seconds, outcome))
    chart = kept.chart()
    bars = re.findall(r'<rect class="(\w+)" x="(\d+)" y="([\d.]+)" width="10" height="([\d.]+)"/>', chart)
    assert bars == [("same", "0", "50.00", "50.00"), ("other", "0", "0.00", "50.00"), ("best", "30", "0.00", "100.00")]
    assert re.findall("<title>(.*?)</title>", chart) == [
        "2026-03-02 08:00 UTC: 1 same, 1 other",
        "2026-03-02 08:03 UTC: 1 among the best",
    ]


def record_of(*found):
    record = ShadowRecord(["default-scheduler"], began=BEGIN, until=BEGIN)
    for each in found:
        record.tally.add(each)
        record.add(each)
    return record


def test_file_keeps_agreement(tmp_path):
    record = record_of(compared(), compared(70, ShadowOutcome.OTHER))
    record.save(tmp_path / "state")
    assert ShadowRecord.load(tmp_path / "state", ["default-scheduler"]) == record
    assert len(record.agreement.intervals) == 2


def test_file_of_version_1_is_read_and_goes_on(tmp_path):
    path = tmp_path / "state"
    document = msgspec.to_builtins(record_of(compared(0, ShadowOutcome.OTHER)))
    del document["agreement"]
    path.write_bytes(msgspec.json.encode({**document, "version": 1}))
    record = ShadowRecord.load(path)
    assert (record.version, record.tally.total(), len(record.differences)) == (2, 1, 1)
    assert record.agreement.intervals == []
    record.add(compared(5))
    assert [each.same for each in record.agreement.intervals] == [1]


@pytest.mark.parametrize(
    "change",
    [
        {"version": 3},
        {"agreement": {"seconds": 0, "intervals": []}},
        {"agreement": {"seconds": 60, "intervals": [{"begin": "2026-03-02T08:00:00"}]}},
    ],
    ids=["a later version", "no length", "a time without a zone"],
)
def test_other_files_are_one_message(tmp_path, change):
    path = tmp_path / "state"
    path.write_bytes(msgspec.json.encode({**msgspec.to_builtins(record_of()), **change}))
    with pytest.raises(ShadowFileError, match="name another"):
        ShadowRecord.load(path)


def test_report_shows_agreement_over_time(tmp_path):
    write_shadow_report(record_of(compared()), tmp_path / "found.html")
    page = (tmp_path / "found.html").read_text()
    assert "Agreement over time" in page
    assert "Each bar has the decisions of a minute" in page
    assert '<rect class="same"' in page
    write_shadow_report(record_of(), tmp_path / "empty.html")
    assert "Agreement over time" not in (tmp_path / "empty.html").read_text()
