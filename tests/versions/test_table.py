"""The table of versions: its data, and what is on by default."""

import json
from pathlib import Path

import pytest
from tests.support.tables import cases

from bayplan.core.plugins.registry import PLUGINS
from bayplan.core.versions import CHANGES, DEFAULT_GATES, GATES, NEWEST, VERSIONS, gates_of, with_gangs
from bayplan.core.versions.table import OTHER_COMPONENTS, ChangeState

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("gate", GATES.values(), ids=GATES)
def test_every_gate_is_complete(gate):
    assert gate.stages.keys() <= set(VERSIONS)
    assert gate.stages
    assert set(gate.needs) <= GATES.keys()
    assert gate.name not in OTHER_COMPONENTS
    for version in gate.stages:
        stage = gate.stage(version)
        assert not stage.locked or stage.default
        assert set(gate.plugins_in(version)) <= PLUGINS.keys()


@pytest.mark.parametrize("version", VERSIONS)
def test_the_defaults_are_consistent(version):
    gates = gates_of(version)
    for name in gates.on & GATES.keys():
        needs = [needed for needed in GATES[name].needs if GATES[needed].stage(version)]
        assert gates.on >= set(needs)
    assert gates.chosen == {}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_change_has_a_state(change):
    assert change.since in VERSIONS
    assert change.affects
    assert change.pull_requests or change.why
    if change.state is ChangeState.FOLLOWED:
        assert change.verified
        assert (ROOT / change.test.partition("::")[0]).is_file()
    assert change.name not in GATES
    assert (change.name in gates_of(NEWEST).on) == (change.state is ChangeState.FOLLOWED)


@cases(
    "name, values",
    {
        "storage capacity": ("StorageCapacityScoring", (False, True)),
        "volume limits": ("VolumeLimitScaling", (False, True)),
        "comparison": ("TaintTolerationComparisonOperators", (False, False)),
        "device taint rules": ("DRADeviceTaintRules", (False, True)),
        "only in 1.37": ("CompositePodGroup", (False, False)),
        "only in 1.36": ("GangScheduling", (False, False)),
        "locked": ("SchedulerQueueingHints", (True, True)),
    },
)
def test_the_defaults_of_both_versions(name, values):
    assert tuple(gates_of(version).enabled(name) for version in VERSIONS) == values


def test_a_name_that_does_not_exist_is_an_error():
    with pytest.raises(KeyError):
        DEFAULT_GATES.enabled("StorageCapacityScorin")


def test_other_values_of_gates():
    gates = DEFAULT_GATES.but("VolumeLimitScaling", off=("NodeDeclaredFeatures",))
    assert gates.chosen == {"NodeDeclaredFeatures": False, "VolumeLimitScaling": True}
    assert (gates.plugins, DEFAULT_GATES.plugins) == ((), ("NodeDeclaredFeatures",))


OF_1_37 = dict.fromkeys(("CompositePodGroup", "GenericWorkload", "TopologyAwareWorkloadScheduling"), True)


@cases(
    "version, chosen",
    {"1.36": ("1.36", {"GenericWorkload": True, "GangScheduling": True}), "1.37": ("1.37", OF_1_37)},
)
def test_gangs(version, chosen):
    gates = with_gangs(gates_of(version))
    assert gates.chosen == chosen
    assert "GangScheduling" in gates.plugins


NOTED = sorted((ROOT / "tests/data/release_notes").glob("*.json"))
"""Pull requests in the release notes of each version that are filed under scheduling, or change devices for it."""


@pytest.mark.parametrize("path", NOTED, ids=[path.stem for path in NOTED])
def test_every_pull_request_of_the_release_notes_has_a_state(path):
    noted = json.loads(path.read_bytes())
    found = {number for row in (*GATES.values(), *CHANGES.values()) for number in row.pull_requests}
    assert len(noted) > 100
    assert [number for number in noted if number not in found] == []
