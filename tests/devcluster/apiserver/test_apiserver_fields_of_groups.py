"""Fields of PodGroups that need feature gates. Cases of upstream's podgroup and workload strategy_test.go."""

from contextlib import asynccontextmanager

import pytest
from tests.support.tables import cases

from bayplan.client import ApiError, ClusterAccess, HttpClient
from bayplan.core.api.kinds import POD_GROUP, POD_GROUP_V1ALPHA2, PRIORITY_CLASS, WORKLOAD, WORKLOAD_V1ALPHA2
from bayplan.core.versions import gates_of
from bayplan_devcluster.apiserver import ApiServer
from bayplan_devcluster.apiserver.kinds.gated_fields import CLAIMS_OF_GROUPS, PREEMPTION_OF_GROUPS

GANG = {"schedulingPolicy": {"gang": {"minCount": 3}}}
CLAIMS = {"resourceClaims": [{"name": "r", "resourceClaimName": "c"}]}
NEVER = {"preemptionPolicy": "Never"}
STATUS = {"status": {"resourceClaimStatuses": [{"name": "r", "resourceClaimName": "c"}]}}
KINDS = {"1.36": (POD_GROUP_V1ALPHA2, WORKLOAD_V1ALPHA2), "1.37": (POD_GROUP, WORKLOAD)}


@asynccontextmanager
async def serving(version, *gates):
    server = ApiServer(version=version, alpha=True, gates=gates_of(version).but(*gates))
    async with server, HttpClient(ClusterAccess(server=server.url)) as client:
        yield client


def named(name, spec):
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


@pytest.mark.parametrize("version", ["1.36", "1.37"])
@pytest.mark.parametrize("on", [True, False], ids=["on", "off"])
async def test_claims_of_groups_and_templates(version, on):
    group, workload = KINDS[version]
    async with serving(version, *(["DRAWorkloadResourceClaims"] if on else [])) as client:
        made = await client.create(group, named("crew", {**GANG, **CLAIMS}))
        assert bool(made.spec.resourceClaims) is on
        made = await client.patch(group, "crew", STATUS, "default", subresource="status")
        assert bool(made.status and made.status.resourceClaimStatuses) is on
        made = await client.create(workload, named("w", {"podGroupTemplates": [{"name": "t", **GANG, **CLAIMS}]}))
        assert bool(made.spec.podGroupTemplates[0].resourceClaims) is on


@cases(
    "gates, given, policy",
    {
        "off": ((), NEVER, None),
        "on": (("PodGroupPreemptionPolicy",), {}, "PreemptLowerPriority"),
        "of the class": (("PodGroupPreemptionPolicy",), {"priorityClassName": "calm"}, "Never"),
        "the same": (("PodGroupPreemptionPolicy",), {"priorityClassName": "calm", **NEVER}, "Never"),
    },
)
async def test_the_preemption_policy_of_a_group(gates, given, policy):
    async with serving("1.37", *gates) as client:
        await client.create(PRIORITY_CLASS, {"metadata": {"name": "calm"}, "value": 1, **NEVER})
        made = await client.create(POD_GROUP, named("crew", {**GANG, **given}))
        assert made.spec.preemptionPolicy == policy


async def test_another_policy_than_that_of_the_class_is_rejected():
    async with serving("1.37", CLAIMS_OF_GROUPS, PREEMPTION_OF_GROUPS) as client:
        with pytest.raises(ApiError, match=r"preemption policy set in the pod group \(Never\) must match"):
            await client.create(POD_GROUP, named("crew", {**GANG, **NEVER}))


async def test_composite_templates_have_no_policy_without_the_gate():
    child = {"name": "t", **GANG, **NEVER}
    parent = {"name": "p", "schedulingPolicy": {"gang": {"minGroupCount": 1}}, "podGroupTemplates": [child], **NEVER}
    async with serving("1.37", "CompositePodGroup") as client:
        made = await client.create(WORKLOAD, named("w", {"compositePodGroupTemplates": [parent]}))
        [found] = made.spec.compositePodGroupTemplates
        assert (found.preemptionPolicy, found.podGroupTemplates[0].preemptionPolicy) == (None, None)
