"""Whether decisions are equal has one definition: compare, the page's next difference and shadow answer alike.

Histories are random: bindings are seen out of order, several schedulers decide, large clusters are sampled, and nodes
have equal scores.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from histories_out_of_order import BEGIN, DEFAULT, PACKING, configuration, random_history
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.answers.backtest.decisions import ask_again
from bayplan.answers.backtest.differences import next_difference
from bayplan.answers.backtest.lookahead import Lookahead
from bayplan.answers.backtest.running import SimulatedScheduler
from bayplan.answers.history.moments import HistoryMoments
from bayplan.answers.insight.prices import Prices
from bayplan.answers.moments.steps import Step, StepKind
from bayplan.answers.shadow.comparisons import ShadowCause
from bayplan.answers.shadow.shadow import Shadow
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import NODE, POD
from bayplan.core.api.objects import decode
from bayplan.core.cluster.pod_info import PodInfo

SEEDS = st.integers(0, 10**6)
SAME, PACKS = SimulatedScheduler(configuration()), SimulatedScheduler(configuration(packs=True))
WORLDS = {id(each): each.world(0) for each in (SAME, PACKS)}


def asked(history, scheduler):
    return ask_again(history, Lookahead(history, Prices({}).of), scheduler, None)


def world_at(moments, scheduler, number):
    world = WORLDS[id(scheduler)]
    world.move(moments.snapshot(number).documents, moments.history.begin)
    return world


def differences(moments, scheduler):
    """The numbers of all steps that are decided otherwise, each looked for from the one before."""
    number, found = 0, []
    while (each := next_difference(world_at(moments, scheduler, number), moments, number)).step is not None:
        found.append(each.step)
        number = each.step
    return found


def with_history(check, seed, *, changing):
    with TemporaryDirectory() as folder:
        check(random_history(Path(folder) / "h", seed, changing=changing))


@settings(max_examples=12, deadline=None)
@given(SEEDS, st.booleans())
def test_compare_and_next_difference_agree_from_every_step_on(seed, changing):
    def check(history):
        moments = HistoryMoments(history)
        for scheduler in (SAME, PACKS):
            found, again = differences(moments, scheduler), asked(history, scheduler)
            assert len(found) == again.recorded - again.equal
            for number in range(len(moments)):
                each = next_difference(world_at(moments, scheduler, number), moments, number)
                assert each.step == next((step for step in found if step > number), None)

    with_history(check, seed, changing=changing)


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_same_scheduler_decides_nothing_otherwise_whatever_the_order_of_bindings(seed):
    def check(history):
        again = asked(history, SAME)
        assert (again.asked, again.equal) == (again.recorded, again.recorded)
        assert differences(HistoryMoments(history), SAME) == []

    with_history(check, seed, changing=False)


class AsSeen(Shadow):
    """A shadow that has seen the start of a history."""

    def __init__(self, moments):
        super().__init__(World(configuration()), {DEFAULT, PACKING})
        for kind in (NODE, POD):
            for key, raw in moments.snapshot(0).of_kind(kind).items():
                self.load(kind, key, read(kind, raw), seconds=0.0, time=BEGIN)


def read(kind, raw):
    return PodInfo.from_raw(raw) if kind is POD else decode(kind.type, raw)


@settings(max_examples=12, deadline=None)
@given(SEEDS)
def test_shadow_finds_the_same_decisions_equal(seed):
    """Where the state as it is seen explains a decision, shadow says so; and in the order of the queue, so does it."""

    def check(history):
        moments, seconds = HistoryMoments(history), 0.0
        shadow, found = AsSeen(moments), {}
        for change in moments.changes(0):
            if isinstance(change, Step):
                seconds, time = (change.time - BEGIN).total_seconds(), change.time
            elif change.raw is None:
                shadow.removed(change.kind, change.key, seconds=seconds, time=time)
            else:
                new = read(change.kind, change.raw)
                for each in shadow.put(change.kind, change.key, new, seconds=seconds, time=time):
                    found[each.pod] = each
        found |= {each.pod: each for each in shadow.settle(seconds + 10, everything=True)}
        judged = {
            step.subject: next_difference(world_at(moments, SAME, step.number - 1), moments, step.number - 1).step
            == step.number
            for step in moments.steps
            if step.what is StepKind.PLACED and step.subject in found
        }
        assert judged == {key: not each.equal for key, each in found.items()}
        assert not [each for each in found.values() if each.cause is ShadowCause.UNKNOWN]

    with_history(check, seed, changing=False)
