"""A scheduler that starts anew before every pod decides as one that has followed every change."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from streams import World, stream


@settings(max_examples=25, deadline=None)
@given(st.randoms(use_true_random=True), st.booleans())
def test_decisions_are_the_same_after_a_restart(rng, reuse):
    followed, started_anew = World(reuse=reuse), World(anew=True)
    for number, step in enumerate(stream(rng, length=30, related=True)):
        for world in (followed, started_anew):
            world.apply(*step)
        assert followed.decisions[-1:] == started_anew.decisions[-1:], f"after step {number}, {step}"
