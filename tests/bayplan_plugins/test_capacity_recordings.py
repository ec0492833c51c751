"""Recorded decisions of CapacityScheduling: see `recorded_scenarios.py`."""

import pytest
from quota_clusters import elastic_quota, quota_cluster
from recorded_scenarios import check, objects_of, recorded

FAULTS = {"capacity-34": "no corresponding pod p3 in pods of node n0"}
"""Scenarios in which the compiled scheduler fails: it removes a pod twice if nominated pods count."""


@pytest.mark.parametrize("each", recorded("capacity_scheduling"), ids=lambda each: each["scenario"]["name"])
def test_a_recorded_scenario_is_decided_alike(each, tmp_path):
    scenario = each["scenario"]
    quotas = [
        elastic_quota(quota["namespace"], **{bound: quota[bound] for bound in ("min", "max") if bound in quota})
        for quota in scenario["quotas"]
    ]
    cluster = quota_cluster(tmp_path, *objects_of(scenario), *quotas)
    check(scenario, each["decisions"], cluster, FAULTS.get(scenario["name"], ""))
