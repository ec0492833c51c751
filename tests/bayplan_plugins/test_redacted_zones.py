"""Random redacted recordings of NodeResourceTopologyMatch and of SySched: replays of all segments decide as before."""

import random

import pytest
from tests.bayplan_plugins.numa_clusters import topology
from tests.bayplan_plugins.test_redacted_plugins import MARK, check_replay, recorded
from tests.bayplan_plugins.zone_stories import drawn_story
from tests.support.stories import in_virtual_time

from bayplan.answers.history.redacting import Redactor
from bayplan.client import kind_of
from bayplan.running.recording.writing import Keep
from bayplan_plugins.node_resource_topology.topologies import TOPOLOGIES, read


@pytest.mark.parametrize("seed", range(24))
def test_random_redacted_recordings_are_replayed_alike(seed, tmp_path):
    parsed, objects, story = drawn_story(random.Random(seed))
    assert in_virtual_time(recorded(tmp_path / "run", parsed, objects, story, keep=Keep(segment_seconds=60))) > 0
    check_replay(tmp_path / "run")


def test_parts_of_topologies_that_say_nothing_are_left_out():
    """Attributes, zones and costs with names of others don't make a redacted topology one that can't be used."""
    zones = {
        "node-0": {"available": {"cpu": "4"}, "costs": {0: 10, f"{MARK}-1": 20}, "attributes": {"vendor": MARK}},
        f"{MARK}-1": {"available": {"cpu": "8"}},
    }
    attributes = {"vendor": MARK, "topologyManagerPolicy": MARK, "topologyManagerScope": "pod"}
    document = topology(f"{MARK}-n", zones, attributes=attributes)
    redacted = Redactor(b"k" * 32)(kind_of(TOPOLOGIES), f"{MARK}-n", document)
    assert MARK not in repr(redacted)
    before, after = read(document), read(redacted)
    assert (after.problem, after.settings) == ("", before.settings)
    assert [(each.number, each.available, each.costs) for each in after.zones] == [(0, {"cpu": 4000}, {0: 10})]
