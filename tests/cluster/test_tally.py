"""Tallies: numbers by row, with sums that are kept up to date."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.core.cluster import tally as tally_module
from bayplan.core.cluster.columns import CodedColumn
from bayplan.core.cluster.tally import Tally, Usage

ZONES = np.array([1, 2, 0, 2], dtype=np.intp)


@pytest.fixture
def tally():
    tally = Tally(4)
    for row, number in enumerate((1, 10, 100, 1000)):
        tally.add(row, number)
    return tally


def test_sums_follow_additions(tally):
    assert tally.sum_by(ZONES, 4).tolist() == [100, 1, 1010, 0]
    tally.add(3, -1000)
    tally.add(0, 5)
    assert tally.sum_by(ZONES, 4).tolist() == [100, 6, 10, 0]
    assert tally.dense(4).tolist() == [6, 10, 100, 0]


def test_sums_are_copies(tally):
    tally.sum_by(ZONES, 3)[0] = 7
    before = tally.sum_by(ZONES, 3)
    tally.add(2, 1)
    assert (before[0], tally.sum_by(ZONES, 3)[0]) == (100, 101)


def test_new_rows_do_not_affect_sums_by_older_codes(tally):
    assert tally.sum_by(ZONES[:2], 3).tolist() == [0, 1, 10]
    tally.grow(8)
    tally.add(5, 3)
    assert tally.sum_by(ZONES[:2], 3).tolist() == [0, 1, 10]
    assert tally.sum_by(np.array([1, 1, 1, 1, 1, 2]), 3).tolist() == [0, 1111, 3]


def test_evicted_sums_are_recomputed(tally, monkeypatch):
    monkeypatch.setattr(tally_module, "_MIN_DENSE", 0)
    monkeypatch.setattr(tally_module, "_MAX_GROUPINGS", 1)
    other = ZONES[::-1].copy()
    for _ in range(2):
        assert tally.sum_by(ZONES, 3).tolist() == [100, 1, 1010]
        assert tally.sum_by(other, 3).tolist() == [10, 1000, 101]
        tally.add(0, 1)
        tally.add(0, -1)


@settings(max_examples=200)
@given(
    changes=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(-3, 3)), max_size=80),
    least=st.integers(0, 8),
    capacity=st.sampled_from([10, 64 * 8]),
)
def test_tally_equals_an_array(changes, least, capacity):
    usage = Usage()
    tallies = [(Tally(capacity, usage), np.zeros(10, dtype=np.int64)) for _ in range(3)]
    codes = np.array([1, 2, 0, 2, 1, 1, 0, 3, 3, 3], dtype=np.intp)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tally_module, "_MIN_DENSE", least)
        for which, row, number in changes:
            tally, plain = tallies[which]
            tally.add(row, number)
            plain[row] += number
            assert tally.dense(10).tolist() == plain.tolist()
            assert tally.dense(4).tolist() == plain[:4].tolist()
            assert tally.sum_by(codes, 5).tolist() == np.bincount(codes, weights=plain, minlength=5).tolist()
            assert (
                tally.sum_by(codes[:4], 4).tolist() == np.bincount(codes[:4], weights=plain[:4], minlength=4).tolist()
            )
            assert bool(tally) == plain.any()
        for tally, plain in tallies:
            tally.grow(2 * capacity)
            assert tally.dense(10).tolist() == plain.tolist()


def test_memory_follows_the_rows_that_have_a_number():
    tally = Tally(4096)
    for row in range(4096):
        tally.add(row, 1)
    assert tally.bytes == 4 * 4096
    for row in range(3, 4096):
        tally.add(row, -1)
    assert tally.bytes < 500
    assert tally.dense(5).tolist() == [1, 1, 1, 0, 0]


def test_rows_are_counted():
    tally = Tally(64)
    tally.count_rows(np.array([3, 1, 3]))
    assert tally.dense(4).tolist() == [0, 1, 0, 2]
    many = Tally(64)
    many.count_rows(np.arange(64).repeat(2))
    assert many.dense(64).tolist() == [2] * 64


def test_frozen_codes_stay_the_same_array_until_a_code_changes():
    column = CodedColumn(4, None)
    column.set(0, "a")
    frozen = column.frozen(2)
    column.set(0, "a")
    column.set(1, None)
    assert column.frozen(2) is frozen
    column.set(1, "a")
    assert (frozen.tolist(), column.frozen(2).tolist(), column.frozen(3).tolist()) == ([1, 0], [1, 1], [1, 1, 0])
