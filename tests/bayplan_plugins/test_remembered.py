"""What plugins put into checkpoints: it is redacted, and what is bad in it costs the memory of one plugin only."""

from msgspec import convert, json
from tests.bayplan_plugins.numa_clusters import topology
from tests.bayplan_plugins.test_redacted_plugins import (
    KEY,
    MARK,
    alone,
    configuration,
)
from tests.support.tables import cases

from bayplan.answers.replay.redaction import RecordingRedactor
from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.client import kind_of
from bayplan.core.api.kinds import POD
from bayplan.core.config import build_profiles, parse_configuration
from bayplan.core.framework.profile import Point, Profile
from bayplan.foundations.failures import Failures
from bayplan.plugin import (
    LIGHTWEIGHT_LABEL,
    POD_GROUP_LABEL,
    POD_GROUPS,
    Plugin,
)
from bayplan.running.recording.entries import Checkpoint, RecordedMemory
from bayplan.running.recording.memories import memories_of, restore_memories
from bayplan.testing import make_cluster, make_node
from bayplan_plugins.node_resource_topology.topologies import TOPOLOGIES


def checkpoint_with(*remembered):
    given = tuple(RecordedMemory("default-scheduler", plugin, json.encode(memory)) for plugin, memory in remembered)
    return Checkpoint([], 0.0, 0, 0, (), (), (), (), (), (), (3, (), None), 0, memories=given)


def redacted_memory(plugin, memory):
    (entry,) = RecordingRedactor(KEY).entries([checkpoint_with((plugin, memory))])
    (found,) = entry.memories
    assert MARK not in repr(entry)
    return json.decode(found.raw)


def test_groups_have_the_names_of_their_labels():
    """Groups of both labels, and PodGroups, have one new name, so that a replay finds what was remembered of them."""
    key, time = f"{MARK}/{MARK}-crew", "2026-01-01T00:00:22Z"
    found = redacted_memory("Coscheduling", {"failed": {key: time}, "permitted": {key: {f"{MARK}-uid": f"{MARK}-n"}}})
    names = RecordingRedactor(KEY)._objects
    group = names.key(kind_of(POD_GROUPS), key)
    assert found["failed"] == {group: time}
    assert found["permitted"] == {group: {names.names.new("uid", f"{MARK}-uid"): names.names.new("node", f"{MARK}-n")}}
    for label in (POD_GROUP_LABEL, LIGHTWEIGHT_LABEL):
        pod = names(POD, f"{MARK}/p", {"metadata": {"name": "p", "namespace": MARK, "labels": {label: f"{MARK}-crew"}}})
        assert pod["metadata"]["labels"] == {label: group.partition("/")[2]}


def test_what_other_plugins_remember_is_left_out():
    redactor = RecordingRedactor(KEY)
    (entry,) = redactor.entries([checkpoint_with(("Mine", {MARK: MARK}))])
    assert entry.memories == ()
    assert redactor.left_out == ["what plugin Mine remembers at the start of a segment"]


class Counts(Plugin):
    """Remembers a number."""

    name = "Counts"

    def __init__(self):
        self.number = 3

    def permit(self, cycle, pod, node_name):
        """Takes part in Permit."""

    def checkpoint(self):
        return self.number

    def restore(self, checkpoint):
        self.number = convert(checkpoint, int)


class Fails(Counts):
    """Can't say what it remembers."""

    name = "Fails"

    def checkpoint(self):
        raise OSError("no disk")


def profile_of(*plugins):
    return Profile("default-scheduler", {Point.PERMIT: plugins})


def test_a_plugin_that_fails_costs_its_own_memory_only():
    failures = Failures(logged=False)
    found = memories_of([profile_of(Fails(), Counts())], failures)
    assert [(each.plugin, each.raw) for each in found] == [("Counts", b"3")]
    assert failures.counts == {("plugin Fails in Checkpoint", "OSError"): 1}


BEGINS = "plugin Counts begins without what it remembered: "
BAD = {
    "missing": ((), "the checkpoint doesn't have it"),
    "no JSON": ((RecordedMemory("default-scheduler", "Counts", b"{"),), "it is no JSON: "),
    "deep": ((RecordedMemory("default-scheduler", "Counts", b"[" * 100_000),), "it is no JSON: "),
    "no text": ((RecordedMemory("default-scheduler", "Counts", b'"\xff"'),), "it is no JSON: "),
    "another type": ((RecordedMemory("default-scheduler", "Counts", b"{}"),), "Expected `int`, got `object`"),
    "another profile": ((RecordedMemory("other", "Counts", b"7"),), "the checkpoint doesn't have it"),
}


@cases("given, why", BAD)
def test_a_bad_memory_is_told_and_costs_itself_only(given, why):
    good, bad = Counts(), Counts()
    good.name = "Good"
    memories = (*given, RecordedMemory("default-scheduler", "Good", b"8"))
    (problem,) = restore_memories(memories, {"default-scheduler": profile_of(good, bad)})
    assert problem.startswith(BEGINS + why)
    assert (good.number, bad.number) == (8, 3)


HOSTILE = {
    "CapacityScheduling": ({"u": {"namespace": "n", "requested": {"cpu": "1"}}}, {"u": {}}, []),
    "Coscheduling": ({"failed": {"a/b": "2026-01-01T00:00:00"}}, {"enough": {"a": 3}}, {"permitted": {"a": "b"}}),
    "NodeResourceTopologyMatch": (
        {"n": {"reserved": {"u": {"cpu": -1}}}},
        {"n": {"reserved": {"u": {"cpu": 2**60}}}},
        {"n": {"topology": {"zones": [{"name": "node-0", "type": "Node", "resources": [{"name": "cpu"}]}]}}},
        {"n": {"ran": [["u"]]}},
        {"n": None},
    ),
}


@cases(
    "plugin, memory", {f"{each}-{at}": (each, memory) for each in HOSTILE for at, memory in enumerate(HOSTILE[each])}
)
def test_a_plugin_refuses_what_it_cannot_have_remembered(plugin, memory):
    arguments = {"NodeResourceTopologyMatch": {"cacheResyncPeriodSeconds": 5}} if plugin.startswith("Node") else {}
    state = make_cluster(make_node("n"), (TOPOLOGIES, topology("n", [{"available": {"cpu": "4"}}]))).state
    sorting = {"enabled": [{"name": plugin}], "disabled": [{"name": "*"}]}
    plugins = alone("multiPoint", plugin) | ({"queueSort": sorting} if plugin == "Coscheduling" else {})
    parsed = parse_configuration(configuration(plugins, arguments))
    profiles = build_profiles(parsed, OfflineHandle(state))
    (found,) = (each for each in profiles["default-scheduler"].every() if each.name == plugin)
    before = json.encode(found.checkpoint())
    given = [RecordedMemory("default-scheduler", plugin, json.encode(memory))]
    (problem,) = restore_memories(given, profiles)
    assert problem.startswith(f"plugin {plugin} begins without what it remembered: ")
    assert json.encode(found.checkpoint()) == before
