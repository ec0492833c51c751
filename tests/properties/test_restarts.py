"""A scheduler that starts anew before every pod decides as one that has followed every change."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from streams import World, stream


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_decisions_are_the_same_after_a_restart(seed, reuse):
    rng = random.Random(seed)
    followed, started_anew = World(reuse=reuse), World(anew=True)
    for number, step in enumerate(stream(rng, length=30, related=True)):
        for world in (followed, started_anew):
            world.apply(*step)
        assert followed.decisions[-1:] == started_anew.decisions[-1:], f"after step {number}, {step}"
