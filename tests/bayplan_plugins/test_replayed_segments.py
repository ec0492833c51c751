"""Recordings with plugins that remember something between decisions: a replay of each segment decides as before."""

import random

import pytest
from tests.bayplan_plugins.test_redacted_plugins import check_replay, recorded
from tests.bayplan_plugins.zone_stories import drawn_story
from tests.support.stories import in_virtual_time


@pytest.mark.parametrize("seed", range(24))
def test_random_segments_with_zones_are_replayed_alike(seed, tmp_path):
    parsed, objects, story = drawn_story(random.Random(seed))
    found = recorded(tmp_path / "run", parsed, objects, story, segment_seconds=10, redacted=False)
    assert in_virtual_time(found) > 0
    check_replay(tmp_path / "run")
