"""At rest, no gang and no pod with volumes waits that a new scheduler would place, or let preempt."""

import random

import pytest
from groups_and_volumes import wider_story
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.stories import in_virtual_time

pytestmark = pytest.mark.feature("Random events about gangs and volumes: nothing waits for ever, and priorities hold")


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32))
def test_a_new_scheduler_has_nothing_to_do(seed):
    assert not in_virtual_time(wider_story(random.Random(seed), length=30))
