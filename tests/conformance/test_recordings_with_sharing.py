"""Recorded scenarios, decided with shared results. `make conformance` decides them all with the plain run."""

import random
from itertools import islice
from pathlib import Path

import pytest

from bayplan.core.scheduling import decide
from bayplan.core.sharing import Sharing
from bayplan.testing.scenarios import read_scenarios

ORACLE = Path(__file__).parents[1] / "data" / "oracle"
SCENARIOS = 12


def seen(decision):
    diagnosis = decision.diagnosis
    return decision.outcome, decision.node, decision.message, diagnosis.pre_filter_message, decision.nominated_node


@pytest.mark.parametrize("family", ["mixed", "preemption", "topology-spread"])
def test_shared_results_are_those_of_the_plain_run(family):
    shared_runs = 0
    for scenario in islice(read_scenarios(ORACLE / f"{family}.jsonl.gz"), SCENARIOS):
        rooms = {}
        for step in scenario.steps:
            pod = scenario.pending[step.pod]
            profile = scenario.profile_of(pod)
            room = rooms.setdefault(profile.scheduler_name, Sharing(profile))
            for _ in range(3):  # the first pod of a key has nothing to share
                shared = decide(profile, scenario.state, pod, random.Random(1), start=room.start)
                assert seen(shared) == seen(decide(profile, scenario.state, pod, random.Random(1)))
            if step.chosen:
                scenario.state.assume(pod, step.chosen)
        shared_runs += sum(room.used for room in rooms.values())
    assert shared_runs > SCENARIOS
