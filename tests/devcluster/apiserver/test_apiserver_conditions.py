"""Conditions in the status of objects are checked as kube-apiserver does."""

import pytest
from tests.support.tables import cases

from bayplan.client import ApiError, ClusterAccess, HttpClient
from bayplan.core.api.kinds import POD_DISRUPTION_BUDGET, POD_GROUP, POD_GROUP_V1ALPHA2
from bayplan_devcluster.apiserver import ApiServer

CONDITION = {
    "type": "Ready",
    "status": "True",
    "reason": "Done",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
GROUP = {"schedulingPolicy": {"gang": {"minCount": 2}}}
OBJECTS = {
    "a PodGroup of 1.36": ("1.36", POD_GROUP_V1ALPHA2, GROUP, {}),
    "a PodGroup of 1.37": ("1.37", POD_GROUP, GROUP, {}),
    "a disruption budget": (
        "1.36",
        POD_DISRUPTION_BUDGET,
        {"minAvailable": 1, "selector": {}},
        {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0},
    ),
}


@pytest.fixture(params=OBJECTS.values(), ids=OBJECTS.keys())
async def patch(request):
    version, kind, spec, status = request.param
    async with ApiServer(version=version, alpha=True) as server, HttpClient(ClusterAccess(server=server.url)) as client:
        await client.create(kind, {"metadata": {"name": "one", "namespace": "default"}, "spec": spec})

        async def patch(*conditions):
            written = {"status": {**status, "conditions": list(conditions)}}
            return await client.patch(kind, "one", written, "default", subresource="status")

        yield patch


async def test_valid_conditions_are_stored(patch):
    stored = await patch(CONDITION, {**CONDITION, "type": "example.com/Started", "status": "Unknown"})
    assert [each.type for each in stored.status.conditions] == ["Ready", "example.com/Started"]


@cases(
    "conditions, why",
    {
        "a type twice": ([CONDITION, CONDITION], 'status.conditions[1].type: Duplicate value: "Ready"'),
        "no type": ([{**CONDITION, "type": ""}], "conditions[0].type: Invalid value"),
        "a type that is no label": ([{**CONDITION, "type": "a b"}], 'conditions[0].type: Invalid value: "a b"'),
        "another status": ([{**CONDITION, "status": "Maybe"}], 'conditions[0].status: Unsupported value: "Maybe"'),
        "no reason": ([{**CONDITION, "reason": ""}], "conditions[0].reason: Required value"),
        "a reason in words": ([{**CONDITION, "reason": "a b"}], 'reason: Invalid value: "a b": a condition reason'),
        "a long reason": ([{**CONDITION, "reason": "a" * 1025}], "reason: Too long: may not be more than 1024"),
        "a long message": ([{**CONDITION, "message": "a" * 32769}], "message: Too long: may not be more than 32768"),
        "no time": ([{**CONDITION, "lastTransitionTime": None}], "lastTransitionTime: Required value"),
        "a negative generation": (
            [{**CONDITION, "observedGeneration": -1}],
            "observedGeneration: Invalid value: -1: must be greater than or equal to zero",
        ),
    },
)
async def test_invalid_conditions_are_rejected(patch, conditions, why):
    with pytest.raises(ApiError) as rejected:
        await patch(*conditions)
    assert (rejected.value.status, why in str(rejected.value)) == (422, True), rejected.value
