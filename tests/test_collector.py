"""The garbage collector's full collections visit new objects only, and frozen cycles are collected in the end."""

import asyncio
import gc
import multiprocessing
import weakref
from contextlib import suppress
from unittest.mock import patch

import pytest

from bayplan.foundations import collector
from bayplan.foundations.collector import CHECK_SECONDS, PATIENCE, THRESHOLDS, Collector, keep_pauses_short
from bayplan.testing.virtual_time import VirtualTime


class Cycle:
    def __init__(self):
        self.itself = self


@pytest.fixture
def begun():
    collecting = Collector()
    collecting.begin()
    yield collecting
    collecting.end()
    gc.unfreeze()


def test_what_a_full_collection_leaves_is_frozen(begun):
    frozen = gc.get_freeze_count()
    kept = [[] for _ in range(1000)]
    gc.collect()
    assert gc.get_freeze_count() >= frozen + len(kept)
    assert not gc.get_objects(generation=2)


def test_garbage_is_collected_before_it_is_frozen(begun):
    garbage = weakref.ref(Cycle())
    gc.collect()
    assert garbage() is None


def test_usual_collections_do_not_freeze_after_the_end():
    thresholds, collecting = gc.get_threshold(), Collector()
    collecting.begin()
    collecting.end()
    assert gc.get_threshold() == thresholds
    frozen, kept = gc.get_freeze_count(), [[]]
    gc.collect()
    assert (gc.get_freeze_count(), kept) == (frozen, [[]])
    gc.unfreeze()


def run_for(collecting, seconds, *, idle):
    async def run():
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await collecting.run(lambda: idle)

    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        runner.run(run())


def frozen_garbage(number):
    """Return a reference to a frozen cycle that nothing else refers to, and freeze as many other objects."""
    cycle, others = Cycle(), [[] for _ in range(number)]
    gc.collect()
    return weakref.ref(cycle), others


@pytest.mark.parametrize(("idle", "checks"), [(True, 1), (False, PATIENCE + 1)])
def test_frozen_cycles_are_collected_when_many_objects_are_frozen(idle, checks):
    # In a process of its own: the frozen objects have to double, and here there may be millions.
    process = multiprocessing.get_context("spawn").Process(target=collect_frozen_cycle, args=(idle, checks))
    process.start()
    process.join()
    assert process.exitcode == 0


def collect_frozen_cycle(idle, checks):
    begun = Collector()
    begun.begin()
    with patch.object(collector, "_LEAST", 1000):
        garbage, _others = frozen_garbage(gc.get_freeze_count() + 2000)
        run_for(begun, (checks - 0.5) * CHECK_SECONDS, idle=idle)
        assert garbage() is not None
        run_for(begun, (checks + 0.5) * CHECK_SECONDS, idle=idle)
        assert garbage() is None


def test_few_frozen_objects_are_left_alone(begun):
    garbage, _others = frozen_garbage(1000)
    run_for(begun, 10 * CHECK_SECONDS, idle=True)
    assert garbage() is not None


def test_automatic_full_collections_visit_few_objects(begun):
    visited = []

    def note(phase, info):
        if phase == "start" and info["generation"] == 2:
            visited.append(len(gc.get_objects()))

    gc.callbacks.append(note)
    kept = [[] for _ in range(400_000)]
    gc.callbacks.remove(note)
    assert len(kept) == 400_000
    assert max(visited, default=0) < 150_000


def test_pauses_are_kept_short_until_the_task_is_cancelled():
    async def run():
        before = gc.get_threshold()
        task = asyncio.create_task(keep_pauses_short())
        await asyncio.sleep(0)
        meanwhile = gc.get_threshold()
        task.cancel()
        await asyncio.wait({task})
        return before, meanwhile, gc.get_threshold()

    before, meanwhile, after = asyncio.run(run())
    gc.unfreeze()
    assert (meanwhile, after) == (THRESHOLDS, before)


def test_command_that_ends_soon_collects_rarely_and_leaves_the_thresholds():
    before = gc.get_threshold()
    with collector.collecting_rarely():
        assert gc.get_threshold()[0] > before[0]
        cycle = weakref.ref(Cycle())
        gc.collect()
        assert cycle() is None
    assert gc.get_threshold() == before


def test_what_exists_before_a_pause_is_visited_again_after_the_end():
    collecting = Collector()
    gc.collect()
    older = weakref.ref(Cycle())
    collecting.pause()
    newer = weakref.ref(Cycle())
    assert not gc.isenabled()
    collecting.begin()
    assert gc.isenabled()
    assert (older() is None, newer() is None) == (False, True)
    collecting.end()
    assert gc.get_freeze_count() == 0
    gc.collect()
    assert older() is None
