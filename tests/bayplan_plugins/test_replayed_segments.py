"""Recordings with plugins that remember something between decisions: a replay of each segment decides as before.

In some, each decision begins a segment, also while pods are being bound.
"""

import asyncio
import random

import pytest
from tests.bayplan_plugins.test_redacted_plugins import (
    alone,
    check_replay,
    configuration,
    document,
    recorded,
)
from tests.bayplan_plugins.zone_stories import drawn_story
from tests.support.stories import in_virtual_time
from tests.support.tables import cases

from bayplan.answers.replay.outcome import lines_of
from bayplan.answers.replay.policies import recorded_policy
from bayplan.answers.replay.recorded_plugins import NamedPlugins
from bayplan.answers.replay.wanted import cluster_before
from bayplan.core.api.kinds import POD
from bayplan.core.config import parse_configuration
from bayplan.plugin import (
    ELASTIC_QUOTAS,
    LIGHTWEIGHT_LABEL,
    MIN_AVAILABLE_LABEL,
    POD_GROUP_LABEL,
    POD_GROUPS,
)
from bayplan.running.recording.files import Recording
from bayplan.running.recording.writing import Keep

ALWAYS = Keep(segment_seconds=-1, patience_seconds=0)
"""Each decision begins a segment."""


@pytest.mark.parametrize("seed", range(12))
def test_random_segments_with_zones_are_replayed_alike(seed, tmp_path):
    parsed, objects, story = drawn_story(random.Random(seed))
    keep = ALWAYS if seed % 3 == 0 else Keep(segment_seconds=10)
    found = recorded(tmp_path / "run", parsed, objects, story, keep=keep, redacted=False)
    assert in_virtual_time(found) > 0
    check_replay(tmp_path / "run", every=5 if keep is ALWAYS else 1)


def drawn_gangs(rng):
    """A configuration of Coscheduling, PodGroups, and a story in which members come and go."""
    arguments = {
        "podGroupBackoffSeconds": rng.choice([0, 0, 15, 60]),
        "podGroupRejectPercentage": rng.choice([0, 10, 60]),
        "permitWaitingTimeSeconds": rng.choice([5, 60]),
    }
    plugins = {"queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]}}
    parsed = parse_configuration(
        configuration(plugins | alone("multiPoint", "Coscheduling"), {"Coscheduling": arguments})
    )
    groups = []
    for name in "abc":
        least = {"minResources": {"cpu": str(rng.randrange(1, 6))}} if rng.random() < 0.5 else {}
        spec = {"minMember": rng.randrange(2, 5), **least}
        groups.append((POD_GROUPS, document("scheduling.x-k8s.io/v1alpha1", "PodGroup", name, spec=spec)))

    async def story(here):
        for number in range(2):
            await here.add_node(f"n{number}", "4")
        for number in range(25):
            name = rng.choice("abcl-")
            labels = {POD_GROUP_LABEL: name}
            if name in "l-":
                labels = {LIGHTWEIGHT_LABEL: "l", MIN_AVAILABLE_LABEL: "2"} if name == "l" else {}
            await came(here, f"p{number}", rng, "default", labels)
            if rng.random() < 0.3 and (there := sorted(here.nodes())):
                await here.delete(rng.choice(there))
        await here.settle()
        return len(here.nodes())

    return parsed, groups, story


def drawn_quotas(rng):
    """A configuration of CapacityScheduling, quotas, and a story in which pods come and go."""
    plugins = alone("multiPoint", "CapacityScheduling")
    plugins["postFilter"] = {"enabled": [{"name": "CapacityScheduling"}], "disabled": [{"name": "*"}]}
    quotas = []
    for name in ("default", "other"):
        most = {"max": {"cpu": str(rng.randrange(3, 9))}} if rng.random() < 0.7 else {}
        spec = {"min": {"cpu": str(rng.randrange(1, 5))}, **most}
        metadata = {"namespace": name}
        made = document("scheduling.x-k8s.io/v1alpha1", "ElasticQuota", name, spec=spec, metadata=metadata)
        quotas.append((ELASTIC_QUOTAS, made))

    async def story(here):
        for number in range(2):
            await here.add_node(f"n{number}", "4")
        for number in range(25):
            namespace = rng.choice(["default", "other", "third"])
            await came(here, f"{namespace}-{number}", rng, namespace, {})
            if rng.random() < 0.2 and (there := sorted(here.nodes())):
                name = rng.choice(there)
                await here.client.delete(POD, name, name.partition("-")[0])
        await here.settle()
        return len(here.nodes())

    return parse_configuration(configuration(plugins, {})), quotas, story


async def came(here, name, rng, namespace, labels):
    """A pod comes, and mostly others at once."""
    resources = {"requests": {"cpu": rng.choice(["500m", "1", "2"])}}
    spec = {"containers": [{"name": "c", "image": "i", "resources": resources}], "terminationGracePeriodSeconds": 0}
    await here.create(POD, {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": spec})
    await asyncio.sleep(rng.choice([0, 0, 0, 0.5, 20]))


@pytest.mark.parametrize("seed", range(4))
@cases(
    "drawn, redacted", {"gangs": (drawn_gangs, False), "quotas": (drawn_quotas, False), "hidden": (drawn_quotas, True)}
)
def test_random_segments_are_replayed_alike(drawn, seed, redacted, tmp_path):
    """Redacted gangs aren't among them: their members are placed in the order of names."""
    parsed, objects, story = drawn(random.Random(seed))
    found = in_virtual_time(recorded(tmp_path / "run", parsed, objects, story, keep=ALWAYS, redacted=redacted))
    assert found > 0
    recording = Recording.open(tmp_path / "run")
    assert recording.segments > 20
    for segment in range(0, recording.segments, 5):
        replayed = recorded_policy(recording).replay(recording).run(segment=segment)
        assert (replayed.problem, replayed.difference, replayed.notes) == ("", None, []), segment


def test_what_a_checkpoint_lacks_is_told(tmp_path, monkeypatch):
    """As of a recording that an older version made: the replay goes on, and a warning says what it begins without."""
    monkeypatch.setattr("bayplan.running.recording.recorder.memories_of", lambda *_: ())
    parsed, objects, story = drawn_quotas(random.Random(0))
    in_virtual_time(recorded(tmp_path / "run", parsed, objects, story, keep=Keep(segment_seconds=30), redacted=False))
    recording = Recording.open(tmp_path / "run")
    note = "plugin CapacityScheduling begins without what it remembered: the checkpoint doesn't have it"
    replayed = recorded_policy(recording).replay(recording).run(segment=1)
    assert replayed.notes == [note]
    assert f"  at the begin: {note}" in lines_of(replayed)
    warnings = []
    cluster_before(recording, None, NamedPlugins(), warnings.extend)
    assert warnings == [note]
    assert recorded_policy(recording).replay(recording).run().notes == []
