"""At rest, no pod waits that could be placed; and no pod gets what one of higher priority was about to get."""

import random

import pytest
from events_in_time import story
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.stories import in_virtual_time

pytestmark = pytest.mark.feature("Random events in time: nothing waits for ever, and priorities hold")


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32))
def test_nothing_waits_for_ever_and_priorities_hold(seed):
    assert not in_virtual_time(story(random.Random(seed), length=25))
