"""What the server holds claims on devices to, and what offers devices."""

from __future__ import annotations

import pytest

BASE = "/apis/resource.k8s.io/v1"
CLAIMS = f"{BASE}/namespaces/default/resourceclaims"
TEMPLATES = f"{BASE}/namespaces/default/resourceclaimtemplates"
CLASSES = f"{BASE}/deviceclasses"
SLICES = f"{BASE}/resourceslices"

DEVICE = {"driver": "gpu.example.com", "pool": "node", "device": "gpu-0"}
ALLOCATION = {"devices": {"results": [{"request": "r", **DEVICE}]}}
POD = {"resource": "pods", "name": "p", "uid": "u"}


def exactly(name="r", **fields):
    return {"name": name, "exactly": {"deviceClassName": "gpu", **fields}}


def claim(*requests, **devices):
    spec = {"devices": {"requests": list(requests or [exactly()]), **devices}}
    return {"metadata": {"name": "c"}, "spec": spec}


def resource_slice(*devices, **spec):
    pool = {"name": "node", "generation": 1, "resourceSliceCount": 1}
    fields = {"driver": "gpu.example.com", "nodeName": "node", "pool": pool, "devices": list(devices), **spec}
    return {"metadata": {"name": "s"}, "spec": {key: value for key, value in fields.items() if value is not None}}


def device_class(**spec):
    return {"metadata": {"name": "gpu"}, "spec": spec}


def message(answer, kind, name):
    """What is wrong, without whose it is."""
    prefix = f'{kind}.resource.k8s.io "{name}" is invalid: '
    assert answer["message"].startswith(prefix)
    return answer["message"].removeprefix(prefix)


@pytest.mark.parametrize(
    ("request_", "mode", "count"),
    [
        pytest.param(exactly(), "ExactCount", 1, id="nothing said"),
        pytest.param(exactly(count=3), "ExactCount", 3, id="a count"),
        pytest.param(exactly(count=0), "ExactCount", 1, id="none"),
        pytest.param(exactly(allocationMode="All"), "All", None, id="all"),
    ],
)
async def test_a_request_is_for_exactly_one_device_if_it_does_not_say(api, request_, mode, count):
    made = await api.create(CLAIMS, claim(request_))
    template = {"metadata": {"name": "t"}, "spec": {"spec": claim(request_)["spec"]}}
    of_template = (await api.create(TEMPLATES, template))["spec"]["spec"]
    for spec in (made["spec"], of_template):
        [wanted] = [one["exactly"] for one in spec["devices"]["requests"]]
        assert (wanted["allocationMode"], wanted.get("count")) == (mode, count)


async def test_an_alternative_is_for_exactly_one_device_if_it_does_not_say(api):
    alternatives = [{"name": "a", "deviceClassName": "x"}, {"name": "b", "deviceClassName": "y", "count": 2}]
    made = await api.create(CLAIMS, claim({"name": "r", "firstAvailable": alternatives}))
    [request] = made["spec"]["devices"]["requests"]
    assert [(one["allocationMode"], one["count"]) for one in request["firstAvailable"]] == [
        ("ExactCount", 1),
        ("ExactCount", 2),
    ]


REQUEST = "spec.devices.requests[0]"
ONE_OF = "exactly one of `exactly` or `firstAvailable` is required"
NO_LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
NO_REQUEST = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
NO_ATTRIBUTE = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param(claim({"name": "r"}), f"{REQUEST}: Required value: {ONE_OF}", id="for nothing"),
        pytest.param(
            claim(exactly("R")), f'{REQUEST}.name: Invalid value: "R": {NO_LABEL}', id="a name that is no label"
        ),
        pytest.param(
            claim(exactly(), exactly()), 'spec.devices.requests[1]: Duplicate value: "r"', id="two of one name"
        ),
        pytest.param(
            claim({"name": "r", "exactly": {}}),
            f"{REQUEST}.exactly.deviceClassName: Required value",
            id="of no class",
        ),
        pytest.param(
            claim(exactly(allocationMode="Some")),
            f'{REQUEST}.exactly.allocationMode: Unsupported value: "Some": supported values: "All", "ExactCount"',
            id="of another mode",
        ),
        pytest.param(
            claim(exactly(allocationMode="All", count=1)),
            f"{REQUEST}.exactly.count: Invalid value: 1: must not be specified when allocationMode is 'All'",
            id="all, and so many",
        ),
        pytest.param(
            claim(exactly(count=-1)),
            f"{REQUEST}.exactly.count: Invalid value: -1: must be greater than zero",
            id="less than one",
        ),
        pytest.param(
            claim(exactly(selectors=[{}])),
            f"{REQUEST}.exactly.selectors[0].cel: Required value",
            id="a selector without an expression",
        ),
        pytest.param(
            claim(*(exactly(f"r{number}") for number in range(33))),
            "spec.devices.requests: Too many: 33: must have at most 32 items",
            id="too many requests",
        ),
        pytest.param(
            claim(constraints=[{"requests": ["other"], "matchAttribute": "a.example.com/b"}]),
            f'spec.devices.constraints[0].requests[0]: Invalid value: "other": {NO_REQUEST}',
            id="a constraint on what is not asked for",
        ),
        pytest.param(
            claim(constraints=[{"requests": ["r"]}]),
            f"spec.devices.constraints[0]: Required value: {NO_ATTRIBUTE}",
            id="a constraint of nothing",
        ),
        pytest.param(
            claim(config=[{"requests": ["r"]}]), "spec.devices.config[0].opaque: Required value", id="no configuration"
        ),
    ],
)
async def test_what_a_claim_may_ask_for(api, body, problem):
    assert message(await api.create(CLAIMS, body, 422), "ResourceClaim", "c") == problem
    template = {"metadata": {"name": "t"}, "spec": {"spec": body["spec"]}}
    in_template = problem.replace("spec.", "spec.spec.", 1)
    assert message(await api.create(TEMPLATES, template, 422), "ResourceClaimTemplate", "t") == in_template


async def test_what_is_asked_for_stays(api):
    await api.create(CLAIMS, claim())
    await api.create(TEMPLATES, {"metadata": {"name": "t"}, "spec": {"spec": claim()["spec"]}})
    other = {"devices": {"requests": [exactly("other")]}}
    changed = await api.patch(f"{CLAIMS}/c", {"spec": other}, 422)
    assert message(changed, "ResourceClaim", "c").endswith(": field is immutable")
    changed = await api.patch(f"{TEMPLATES}/t", {"spec": {"spec": other}}, 422)
    assert message(changed, "ResourceClaimTemplate", "t").endswith(": field is immutable")
    await api.patch(f"{CLAIMS}/c", {"metadata": {"labels": {"a": "b"}}})


async def test_a_new_claim_has_no_status(api):
    made = await api.create(CLAIMS, {**claim(), "status": {"allocation": ALLOCATION}})
    assert made["status"] == {}


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        pytest.param(
            {"reservedFor": [POD]},
            "status.reservedFor: Forbidden: may not be specified when `allocated` is not set",
            id="reserved before it is allocated",
        ),
        pytest.param(
            {"allocation": ALLOCATION, "reservedFor": [POD, POD]},
            'status.reservedFor[1]: Duplicate value: "u"',
            id="reserved twice",
        ),
        pytest.param(
            {"allocation": ALLOCATION, "reservedFor": [{"resource": "pods", "name": "p"}]},
            "status.reservedFor[0].uid: Required value",
            id="reserved for nobody in particular",
        ),
        pytest.param(
            {"allocation": {"devices": {"results": [{"request": "other", **DEVICE}]}}},
            f'status.allocation.devices.results[0].request: Invalid value: "other": {NO_REQUEST}',
            id="a device for what is not asked for",
        ),
        pytest.param(
            {"allocation": {"devices": {"results": [{"request": "r", **DEVICE, "driver": ""}]}}},
            "status.allocation.devices.results[0].driver: Required value",
            id="a device of no driver",
        ),
    ],
)
async def test_what_can_be_allocated(api, status, problem):
    await api.create(CLAIMS, claim())
    answer = await api.patch(f"{CLAIMS}/c/status", {"status": status}, 422)
    assert message(answer, "ResourceClaim", "c") == problem


async def test_an_allocation_stays_until_it_goes(api):
    await api.create(CLAIMS, claim())
    await api.patch(f"{CLAIMS}/c/status", {"status": {"allocation": ALLOCATION}})
    other = {"devices": {"results": [{"request": "r", **DEVICE, "device": "gpu-1"}]}}
    answer = await api.patch(f"{CLAIMS}/c/status", {"status": {"allocation": other}}, 422)
    assert message(answer, "ResourceClaim", "c").endswith("field is immutable")
    await api.patch(f"{CLAIMS}/c/status", {"status": {"reservedFor": [POD]}})
    await api.patch(f"{CLAIMS}/c/status", {"status": {"reservedFor": None, "allocation": None}})
    await api.patch(f"{CLAIMS}/c/status", {"status": {"allocation": other}})


async def test_a_claim_that_is_being_deleted_is_reserved_for_nobody_else(api):
    await api.create(CLAIMS, {**claim(), "metadata": {"name": "c", "finalizers": ["example.com/f"]}})
    await api.patch(f"{CLAIMS}/c/status", {"status": {"allocation": ALLOCATION, "reservedFor": [POD]}})
    await api.delete(f"{CLAIMS}/c")
    other = {"status": {"reservedFor": [POD, {**POD, "uid": "other"}]}}
    answer = await api.patch(f"{CLAIMS}/c/status", other, 422)
    told = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
    assert message(answer, "ResourceClaim", "c") == f"status.reservedFor: Forbidden: {told}"
    await api.patch(f"{CLAIMS}/c/status", {"status": {"reservedFor": None}})


async def test_what_is_told_of_a_device_goes_with_its_allocation(api):
    await api.create(CLAIMS, claim())
    strange = {"devices": [{**DEVICE, "device": "gpu-7"}], "allocation": ALLOCATION}
    answer = await api.patch(f"{CLAIMS}/c/status", {"status": strange}, 422)
    assert message(answer, "ResourceClaim", "c").endswith("must be an allocated device in the claim")
    told = await api.patch(f"{CLAIMS}/c/status", {"status": {"devices": [DEVICE], "allocation": ALLOCATION}})
    assert told["status"]["devices"] == [{**DEVICE, "conditions": None}]
    assert (await api.patch(f"{CLAIMS}/c/status", {"status": {"allocation": None}}))["status"] == {}


async def test_a_change_of_the_status_leaves_the_metadata_alone(api):
    made = await api.create(CLAIMS, {**claim(), "metadata": {"name": "c", "labels": {"a": "b"}}})
    change = {"metadata": {"labels": {"a": "c"}, "finalizers": ["example.com/f"]}, "status": {"allocation": ALLOCATION}}
    metadata = (await api.patch(f"{CLAIMS}/c/status", change))["metadata"]
    assert {**metadata, "resourceVersion": ""} == {**made["metadata"], "resourceVersion": ""}


WAYS = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param(resource_slice(driver=""), "spec.driver: Required value", id="no driver"),
        pytest.param(resource_slice(nodeName=None), f"spec: Required value: {WAYS}", id="nowhere"),
        pytest.param(
            resource_slice(allNodes=True),
            f'spec: Invalid value: "{{`nodeName`, `allNodes`}}": {WAYS}, but multiple fields are set',
            id="in two ways",
        ),
        pytest.param(
            resource_slice({"name": "d"}, {"name": "d"}), 'spec.devices[1]: Duplicate value: "d"', id="two of one name"
        ),
        pytest.param(
            resource_slice({"name": "D"}),
            f'spec.devices[0].name: Invalid value: "D": {NO_LABEL}',
            id="a name that is no label",
        ),
        pytest.param(
            resource_slice(*({"name": f"d{number}"} for number in range(129))),
            "spec.devices: Too many: 129: must have at most 128 items",
            id="too many devices",
        ),
        pytest.param(
            resource_slice(pool={"name": "node", "generation": -1, "resourceSliceCount": 0}),
            "[spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero, "
            "spec.pool.generation: Invalid value: -1: must be greater than or equal to zero]",
            id="no slices",
        ),
    ],
)
async def test_what_a_slice_may_offer(api, body, problem):
    assert message(await api.create(SLICES, body, 422), "ResourceSlice", "s") == problem


async def test_whose_devices_a_slice_offers_stays(api):
    await api.create(SLICES, resource_slice({"name": "d"}))
    for change in ({"nodeName": "other"}, {"driver": "other.example.com"}, {"pool": {"name": "other"}}):
        answer = await api.patch(f"{SLICES}/s", {"spec": change}, 422)
        assert message(answer, "ResourceSlice", "s").endswith("field is immutable")
    changed = await api.patch(f"{SLICES}/s", {"spec": {"devices": [], "pool": {"generation": 2}}})
    assert changed["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        pytest.param(
            {"extendedResourceName": "cpu"},
            'spec.extendedResourceName: Invalid value: "cpu": must be a valid extended resource name',
            id="a native resource",
        ),
        pytest.param({"selectors": [{}]}, "spec.selectors[0].cel: Required value", id="an empty selector"),
        pytest.param({"config": [{}]}, "spec.config[0].opaque: Required value", id="an empty configuration"),
    ],
)
async def test_what_a_class_may_be(api, spec, problem):
    assert message(await api.create(CLASSES, device_class(**spec), 422), "DeviceClass", "gpu") == problem


@pytest.mark.parametrize(
    ("references", "problem"),
    [
        pytest.param(
            [{"name": "a", "resourceClaimName": "c"}, {"name": "a", "resourceClaimName": "d"}],
            'spec.resourceClaims[1].name: Duplicate value: "a"',
            id="two of one name",
        ),
        pytest.param([{"resourceClaimName": "c"}], "spec.resourceClaims[0].name: Required value", id="without a name"),
        pytest.param(
            [{"name": "a"}],
            'spec.resourceClaims[0]: Invalid value: {"Name":"a","ResourceClaimName":null,'
            '"ResourceClaimTemplateName":null}: '
            "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            id="without a claim",
        ),
        pytest.param(
            [{"name": "a", "resourceClaimName": "c", "resourceClaimTemplateName": "t"}],
            'spec.resourceClaims[0]: Invalid value: {"Name":"a","ResourceClaimName":"c","ResourceClaimTemplateName":'
            '"t"}: at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified',
            id="a claim and a template",
        ),
    ],
)
async def test_which_claims_a_pod_may_have(api, make_pod, references, problem):
    answer = await api.create("/api/v1/namespaces/default/pods", make_pod(resourceClaims=references), 422)
    assert answer["message"] == f'Pod "p" is invalid: {problem}'
