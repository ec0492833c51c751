"""`bayplan cluster --pod-groups`."""

from __future__ import annotations

import re
from pathlib import Path

from test_cluster_command import serving

from bayplan.api.kinds import CLUSTER_ROLE, POD_GROUP_V1ALPHA2
from bayplan.client import connect

EXAMPLE = Path(__file__).parents[2] / "examples" / "pod-groups" / "red-and-blue.yaml"


async def test_pod_groups_are_served_and_schedulers_may_read_them():
    with serving("--pod-groups", "--rbac", "--nodes", "0", "-f", str(EXAMPLE)) as (_, kubeconfig, printed):
        assert re.search(r"^4 objects created$", printed, re.MULTILINE)
        async with connect(kubeconfig) as client:
            groups = (await client.list(POD_GROUP_V1ALPHA2)).items
            role = await client.get(CLUSTER_ROLE, "system:kube-scheduler")
    assert {group.metadata.name: group.spec.schedulingPolicy.gang.minCount for group in groups} == {"red": 4, "blue": 4}
    assert any("podgroups/status" in (rule.resources or ()) for rule in role.rules)
