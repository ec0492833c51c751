"""Kubernetes' own workloads in their smallest sizes: every pod is scheduled. How fast doesn't matter here."""

import os
from pathlib import Path

import pytest

from bayplan.benchmarking.cluster_run import Target, run_on_cluster
from bayplan.benchmarking.core import run_on_core
from bayplan.benchmarking.selection import labelled
from bayplan.benchmarking.workloads import find_configs, read_workloads

VARIABLE = "BAYPLAN_SCHEDULER_PERF"
FOLDER = os.environ.get(VARIABLE)
ON_DEVCLUSTER = (
    "SchedulingWithMixedChurn/10Nodes",
    "EventHandlingPodUpdate/1Node_10Pods",
    "SchedulingWithResourceClaimTemplate/fast",
    "PreemptionPVs/5Nodes",
)
"""Each takes seconds: two processes are started. `bayplan perf --on devcluster --label short` runs all."""

pytestmark = pytest.mark.skipif(not FOLDER, reason=f"{VARIABLE} does not name Kubernetes' scheduler_perf folder")


def short_workloads():
    """The short integration tests, by name; not those with the same operations and another gate."""
    if not FOLDER:
        return {}
    found = [each for path in find_configs(FOLDER, None) for each in read_workloads(Path(path))]
    wanted = labelled("integration-test,short,-performance")
    return {
        each.name: each
        for each in found
        if wanted(each) and not each.name.endswith(("_QueueingHintsEnabled", "_AsyncAPICallsEnabled"))
    }


WORKLOADS = short_workloads()


def check(measured):
    assert sum(each.scheduled for each in measured) > 0
    assert all(each.attempts["error"].count == 0 for each in measured if "error" in each.attempts)


@pytest.mark.parametrize("name", WORKLOADS)
def test_all_pods_are_scheduled_on_core(name):
    assert WORKLOADS[name].unusual_gates == []
    check(run_on_core(WORKLOADS[name]))


@pytest.mark.parametrize("name", ON_DEVCLUSTER)
def test_all_pods_are_scheduled_on_devcluster(name):
    check(run_on_cluster(WORKLOADS[name], Target()))
