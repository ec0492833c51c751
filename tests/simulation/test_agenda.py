"""Recurring calls that would do nothing are left out, and nothing else changes."""

from __future__ import annotations

import math

from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from bayplan.answers.backtest.sample import write_sample
from bayplan.answers.simulation.agenda import Agenda, never_idle
from bayplan.answers.simulation.timeline import Timeline
from bayplan.faces.cli import main

TIMES = st.integers(1, 40).map(float)


class Lamps:
    """Recurring calls, each of which does something only if one-off calls have asked for it, or once a time has come.

    `made`: what was done, with its time. `calls`: how many recurring calls were made.
    """

    def __init__(self, periods, wakes, orders, *, leave_out):
        self.agenda, self.now, self.made, self.calls = Agenda(), 0.0, [], 0
        self.asked = dict.fromkeys(range(len(periods)), False)
        self.wakes = list(wakes)
        for index, seconds in enumerate(periods):
            idle_until = (lambda index=index: self.idle_until(index)) if leave_out else never_idle
            self.agenda.add_recurring(seconds, seconds, lambda index=index: self.look(index), idle_until)
        for when, index, later in orders:
            self.agenda.add(when, self.ask, index % len(periods), later)

    def idle_until(self, index):
        return -math.inf if self.asked[index] else self.wakes[index]

    def ask(self, index, later):
        self.asked[index] = True
        self.made.append((self.now, "asked", index))
        if later:
            self.agenda.add(self.now + later, self.ask, index, 0)

    def look(self, index):
        self.calls += 1
        if self.asked[index] or self.now >= self.wakes[index]:
            self.asked[index] = False
            self.wakes[index] = math.inf
            self.made.append((self.now, "looked", index))
            self.agenda.add(self.now + 3, self.made.append, (self.now, "done", index))

    def run(self, until):
        while True:
            self.agenda.leave_out_idle(until)
            then = self.agenda.next_time
            if then >= until:
                return self.made
            self.now = then
            self.agenda.call_first(self.now)


@given(
    st.lists(st.integers(1, 7).map(float), min_size=1, max_size=4),
    st.lists(st.one_of(TIMES, st.just(math.inf)), min_size=4, max_size=4),
    st.lists(st.tuples(TIMES, st.integers(0, 3), st.integers(0, 5)), max_size=6),
)
def test_the_same_is_done_in_the_same_order(periods, wakes, orders):
    every = Lamps(periods, wakes, orders, leave_out=False)
    some = Lamps(periods, wakes, orders, leave_out=True)
    assert some.run(60.0) == every.run(60.0)
    assert some.calls <= every.calls


def test_idle_calls_are_left_out():
    lamps = Lamps([1.0, 5.0], [math.inf] * 2, [(1000.5, 0, 0)], leave_out=True)
    assert lamps.run(100_000.0) == [(1000.5, "asked", 0), (1001.0, "looked", 0), (1001.0, "done", 0)]
    assert lamps.calls == 1


def test_a_comparison_is_the_same_if_no_scan_is_left_out(tmp_path, monkeypatch):
    def answers(folder):
        write_sample(folder, days=0.04)
        yield b"".join(file.read_bytes() for file in sorted(folder.iterdir()))
        asked = ["compare", "--history", str(folder), "--autoscaler", "karpenter", "-o", "json"]
        done = CliRunner().invoke(main, [*asked, "--set", "NodeResourcesFit.scoringStrategy.type=MostAllocated"])
        assert done.exit_code == 0, done.output
        yield done.stdout.replace(str(folder), "")

    some = list(answers(tmp_path / "some"))
    plain = Timeline.every
    monkeypatch.setattr(Timeline, "every", lambda self, seconds, do, _=None: plain(self, seconds, do))
    assert list(answers(tmp_path / "every")) == some
