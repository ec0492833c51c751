"""Validation of resource claims, device classes and resource slices."""

from tests.support.tables import cases

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
    """The error message without the kind and the name."""
    prefix = f'{kind}.resource.k8s.io "{name}" is invalid: '
    assert answer["message"].startswith(prefix)
    return answer["message"].removeprefix(prefix)


@cases(
    "request_, mode, count",
    {
        "no mode": (exactly(), "ExactCount", 1),
        "count": (exactly(count=3), "ExactCount", 3),
        "zero count": (exactly(count=0), "ExactCount", 1),
        "all devices": (exactly(allocationMode="All"), "All", None),
    },
)
async def test_request_defaults_to_one_device(api, request_, mode, count):
    made = await api.create(CLAIMS, claim(request_))
    template = {"metadata": {"name": "t"}, "spec": {"spec": claim(request_)["spec"]}}
    of_template = (await api.create(TEMPLATES, template))["spec"]["spec"]
    for spec in (made["spec"], of_template):
        [request] = [one["exactly"] for one in spec["devices"]["requests"]]
        assert (request["allocationMode"], request.get("count")) == (mode, count)


async def test_alternative_defaults_to_one_device(api):
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


@cases(
    "body, problem",
    {
        "neither exactly nor firstAvailable": (claim({"name": "r"}), f"{REQUEST}: Required value: {ONE_OF}"),
        "invalid name": (claim(exactly("R")), f'{REQUEST}.name: Invalid value: "R": {NO_LABEL}'),
        "duplicate name": (claim(exactly(), exactly()), 'spec.devices.requests[1]: Duplicate value: "r"'),
        "no class": (claim({"name": "r", "exactly": {}}), f"{REQUEST}.exactly.deviceClassName: Required value"),
        "unknown mode": (
            claim(exactly(allocationMode="Some")),
            f'{REQUEST}.exactly.allocationMode: Unsupported value: "Some": supported values: "All", "ExactCount"',
        ),
        "all with a count": (
            claim(exactly(allocationMode="All", count=1)),
            f"{REQUEST}.exactly.count: Invalid value: 1: must not be specified when allocationMode is 'All'",
        ),
        "negative count": (
            claim(exactly(count=-1)),
            f"{REQUEST}.exactly.count: Invalid value: -1: must be greater than zero",
        ),
        "a selector without an expression": (
            claim(exactly(selectors=[{}])),
            f"{REQUEST}.exactly.selectors[0].cel: Required value",
        ),
        "too many requests": (
            claim(*(exactly(f"r{number}") for number in range(33))),
            "spec.devices.requests: Too many: 33: must have at most 32 items",
        ),
        "constraint on unknown request": (
            claim(constraints=[{"requests": ["other"], "matchAttribute": "a.example.com/b"}]),
            f'spec.devices.constraints[0].requests[0]: Invalid value: "other": {NO_REQUEST}',
        ),
        "constraint without attribute": (
            claim(constraints=[{"requests": ["r"]}]),
            f"spec.devices.constraints[0]: Required value: {NO_ATTRIBUTE}",
        ),
        "empty configuration": (claim(config=[{"requests": ["r"]}]), "spec.devices.config[0].opaque: Required value"),
    },
)
async def test_invalid_claim_is_rejected(api, body, problem):
    assert message(await api.create(CLAIMS, body, 422), "ResourceClaim", "c") == problem
    template = {"metadata": {"name": "t"}, "spec": {"spec": body["spec"]}}
    in_template = problem.replace("spec.", "spec.spec.", 1)
    assert message(await api.create(TEMPLATES, template, 422), "ResourceClaimTemplate", "t") == in_template


async def test_claim_spec_is_immutable(api):
    await api.create(CLAIMS, claim())
    await api.create(TEMPLATES, {"metadata": {"name": "t"}, "spec": {"spec": claim()["spec"]}})
    other = {"devices": {"requests": [exactly("other")]}}
    changed = await api.patch(f"{CLAIMS}/c", {"spec": other}, 422)
    assert message(changed, "ResourceClaim", "c").endswith(": field is immutable")
    changed = await api.patch(f"{TEMPLATES}/t", {"spec": {"spec": other}}, 422)
    assert message(changed, "ResourceClaimTemplate", "t").endswith(": field is immutable")
    await api.patch(f"{CLAIMS}/c", {"metadata": {"labels": {"a": "b"}}})


async def test_new_claim_has_no_status(api):
    made = await api.create(CLAIMS, {**claim(), "status": {"allocation": ALLOCATION}})
    assert made["status"] == {}


@cases(
    "status, problem",
    {
        "reserved without allocation": (
            {"reservedFor": [POD]},
            "status.reservedFor: Forbidden: may not be specified when `allocated` is not set",
        ),
        "reserved twice": (
            {"allocation": ALLOCATION, "reservedFor": [POD, POD]},
            'status.reservedFor[1]: Duplicate value: "u"',
        ),
        "reservation without fields": (
            {"allocation": ALLOCATION, "reservedFor": [{"resource": "pods", "name": "p"}]},
            "status.reservedFor[0].uid: Required value",
        ),
        "result for unknown request": (
            {"allocation": {"devices": {"results": [{"request": "other", **DEVICE}]}}},
            f'status.allocation.devices.results[0].request: Invalid value: "other": {NO_REQUEST}',
        ),
        "result without driver": (
            {"allocation": {"devices": {"results": [{"request": "r", **DEVICE, "driver": ""}]}}},
            "status.allocation.devices.results[0].driver: Required value",
        ),
    },
)
async def test_invalid_claim_status_is_rejected(api, status, problem):
    await api.create(CLAIMS, claim())
    answer = await api.patch(f"{CLAIMS}/c/status", {"status": status}, 422)
    assert message(answer, "ResourceClaim", "c") == problem


async def test_allocation_is_immutable_until_it_is_removed(api):
    await api.create(CLAIMS, claim())
    await api.patch(f"{CLAIMS}/c/status", {"status": {"allocation": ALLOCATION}})
    other = {"devices": {"results": [{"request": "r", **DEVICE, "device": "gpu-1"}]}}
    answer = await api.patch(f"{CLAIMS}/c/status", {"status": {"allocation": other}}, 422)
    assert message(answer, "ResourceClaim", "c").endswith("field is immutable")
    await api.patch(f"{CLAIMS}/c/status", {"status": {"reservedFor": [POD]}})
    await api.patch(f"{CLAIMS}/c/status", {"status": {"reservedFor": None, "allocation": None}})
    await api.patch(f"{CLAIMS}/c/status", {"status": {"allocation": other}})


async def test_deleted_claim_gets_no_new_reservations(api):
    await api.create(CLAIMS, {**claim(), "metadata": {"name": "c", "finalizers": ["example.com/f"]}})
    await api.patch(f"{CLAIMS}/c/status", {"status": {"allocation": ALLOCATION, "reservedFor": [POD]}})
    await api.delete(f"{CLAIMS}/c")
    other = {"status": {"reservedFor": [POD, {**POD, "uid": "other"}]}}
    answer = await api.patch(f"{CLAIMS}/c/status", other, 422)
    detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
    assert message(answer, "ResourceClaim", "c") == f"status.reservedFor: Forbidden: {detail}"
    await api.patch(f"{CLAIMS}/c/status", {"status": {"reservedFor": None}})


async def test_device_status_is_removed_with_the_allocation(api):
    await api.create(CLAIMS, claim())
    strange = {"devices": [{**DEVICE, "device": "gpu-7"}], "allocation": ALLOCATION}
    answer = await api.patch(f"{CLAIMS}/c/status", {"status": strange}, 422)
    assert message(answer, "ResourceClaim", "c").endswith("must be an allocated device in the claim")
    updated = await api.patch(f"{CLAIMS}/c/status", {"status": {"devices": [DEVICE], "allocation": ALLOCATION}})
    assert updated["status"]["devices"] == [{**DEVICE, "conditions": None}]
    assert (await api.patch(f"{CLAIMS}/c/status", {"status": {"allocation": None}}))["status"] == {}


async def test_status_update_keeps_the_metadata(api):
    made = await api.create(CLAIMS, {**claim(), "metadata": {"name": "c", "labels": {"a": "b"}}})
    change = {"metadata": {"labels": {"a": "c"}, "finalizers": ["example.com/f"]}, "status": {"allocation": ALLOCATION}}
    metadata = (await api.patch(f"{CLAIMS}/c/status", change))["metadata"]
    assert {**metadata, "resourceVersion": ""} == {**made["metadata"], "resourceVersion": ""}


WAYS = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"


@cases(
    "body, problem",
    {
        "no driver": (resource_slice(driver=""), "spec.driver: Required value"),
        "no node": (resource_slice(nodeName=None), f"spec: Required value: {WAYS}"),
        "two kinds of node selection": (
            resource_slice(allNodes=True),
            f'spec: Invalid value: "{{`nodeName`, `allNodes`}}": {WAYS}, but multiple fields are set',
        ),
        "duplicate name": (resource_slice({"name": "d"}, {"name": "d"}), 'spec.devices[1]: Duplicate value: "d"'),
        "invalid name": (resource_slice({"name": "D"}), f'spec.devices[0].name: Invalid value: "D": {NO_LABEL}'),
        "too many devices": (
            resource_slice(*({"name": f"d{number}"} for number in range(129))),
            "spec.devices: Too many: 129: must have at most 128 items",
        ),
        "no slices in the pool": (
            resource_slice(pool={"name": "node", "generation": -1, "resourceSliceCount": 0}),
            (
                "[spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero, "
                "spec.pool.generation: Invalid value: -1: must be greater than or equal to zero]"
            ),
        ),
    },
)
async def test_invalid_slice_is_rejected(api, body, problem):
    assert message(await api.create(SLICES, body, 422), "ResourceSlice", "s") == problem


async def test_pool_and_node_of_a_slice_are_immutable(api):
    await api.create(SLICES, resource_slice({"name": "d"}))
    for change in ({"nodeName": "other"}, {"driver": "other.example.com"}, {"pool": {"name": "other"}}):
        answer = await api.patch(f"{SLICES}/s", {"spec": change}, 422)
        assert message(answer, "ResourceSlice", "s").endswith("field is immutable")
    changed = await api.patch(f"{SLICES}/s", {"spec": {"devices": [], "pool": {"generation": 2}}})
    assert changed["metadata"]["generation"] == 2


@cases(
    "spec, problem",
    {
        "native resource": (
            {"extendedResourceName": "cpu"},
            'spec.extendedResourceName: Invalid value: "cpu": must be a valid extended resource name',
        ),
        "empty selector": ({"selectors": [{}]}, "spec.selectors[0].cel: Required value"),
        "empty configuration": ({"config": [{}]}, "spec.config[0].opaque: Required value"),
    },
)
async def test_invalid_class_is_rejected(api, spec, problem):
    assert message(await api.create(CLASSES, device_class(**spec), 422), "DeviceClass", "gpu") == problem


@cases(
    "references, problem",
    {
        "duplicate name": (
            [{"name": "a", "resourceClaimName": "c"}, {"name": "a", "resourceClaimName": "d"}],
            'spec.resourceClaims[1].name: Duplicate value: "a"',
        ),
        "no name": ([{"resourceClaimName": "c"}], "spec.resourceClaims[0].name: Required value"),
        "no claim": (
            [{"name": "a"}],
            (
                'spec.resourceClaims[0]: Invalid value: {"Name":"a","ResourceClaimName":null,'
                '"ResourceClaimTemplateName":null}: '
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            ),
        ),
        "claim and template": (
            [{"name": "a", "resourceClaimName": "c", "resourceClaimTemplateName": "t"}],
            (
                'spec.resourceClaims[0]: Invalid value: {"Name":"a","ResourceClaimName":"c",'
                '"ResourceClaimTemplateName":"t"}: at most one of `resourceClaimName` or '
                "`resourceClaimTemplateName` may be specified"
            ),
        ),
    },
)
async def test_invalid_claims_of_a_pod_are_rejected(api, make_pod, references, problem):
    answer = await api.create("/api/v1/namespaces/default/pods", make_pod(resourceClaims=references), 422)
    assert answer["message"] == f'Pod "p" is invalid: {problem}'
