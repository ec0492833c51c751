"""A scheduler that restarts before every pod makes the same decisions as one that received every change."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from streams import World, stream


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.booleans())
def test_decisions_are_the_same_after_a_restart(seed, reuse):
    rng = random.Random(seed)
    followed, restarted = World(reuse=reuse), World(rebuilt=True)
    for number, step in enumerate(stream(rng, length=30, related=True)):
        for world in (followed, restarted):
            world.apply(*step)
        assert followed.decisions[-1:] == restarted.decisions[-1:], f"after step {number}, {step}"
