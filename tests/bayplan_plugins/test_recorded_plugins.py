"""Plugins of scheduler-plugins: random clusters and queues that upstream's plugins have decided, too.

`recorded_scores.py`, `recorded_queues.py` and `recorded_gangs.py` say what is recorded, and compare.
"""

import re

import pytest
from recorded_gangs import differences as of_gangs
from recorded_queues import differences as of_queues
from recorded_scenarios import recorded
from recorded_scores import SORTING
from recorded_scores import differences as of_scores

PLUGINS = [
    "Coscheduling",
    "LoadVariationRiskBalancing",
    "LowRiskOverCommitment",
    "NetworkOverhead",
    "NodeMetadata",
    "NodeResourcesAllocatable",
    "Peaks",
    "PodState",
    "QOSSort",
    "SySched",
    "TargetLoadPacking",
    "TopologicalSort",
]


@pytest.mark.parametrize("plugin", PLUGINS)
def test_recorded_scenarios_are_decided_alike(plugin, tmp_path):
    differences = of_gangs if plugin == "Coscheduling" else of_queues if plugin in SORTING else of_scores
    scenarios = recorded(re.sub("(?<=[a-z])(?=[A-Z])|(?<=QOS)", "_", plugin).lower())
    found = {
        each["scenario"]["name"]: list(differences(plugin, each["scenario"], each["decisions"], tmp_path))
        for each in scenarios
    }
    assert len(found) == 60
    assert {name: different for name, different in found.items() if different} == {}
