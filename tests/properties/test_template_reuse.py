"""Template reuse changes no decision: streams of pods and changes, decided with and without it."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streams import PLAIN, World, stream

pytestmark = pytest.mark.feature("Template reuse: decisions with and without it")


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_decisions_are_the_same_with_and_without_reuse(seed, related):
    rng = random.Random(seed)
    with_reuse, without = World(reuse=True), World()
    for number, step in enumerate(stream(rng, length=40, related=related)):
        for world in (with_reuse, without):
            world.apply(*step)
        assert with_reuse.decisions[-1:] == without.decisions[-1:], f"after step {number}, {step}"


@pytest.mark.parametrize("related", [False, True])
def test_most_decisions_of_a_stream_reuse_a_template(related):
    world = World(reuse=True)
    for step in stream(random.Random(1), length=400, related=related):
        world.apply(*step)
    assert world.templates.used > len(world.decisions) / 2


def test_pods_that_differ_only_in_labels_share_a_template():
    world = World(reuse=True)
    world.apply("set node", {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "64", "pods": "64"}}})
    for number in range(20):
        labels, namespace = {"app": f"app-{number}"}, f"namespace-{number}"
        world.apply("pod", {"name": f"pod-{number}", "namespace": namespace, "labels": labels, "spec": PLAIN})
    assert world.templates.used == 19  # all but the first
