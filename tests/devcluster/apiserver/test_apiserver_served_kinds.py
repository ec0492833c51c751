"""Kinds that the server only stores, and others that no scheduler reads: defaults, rules, warnings and tables."""

import copy
import json
import shutil

import pytest
from valid_objects import VALID_OBJECTS

from bayplan.core.api import kinds
from bayplan_devcluster.apiserver import ApiServer, HttpRequest
from bayplan_devcluster.apiserver.kinds.catalog import catalog, facts

TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
APPROVED = {"type": "Approved", "status": "True", "reason": "Test"}


def valid(kind, **spec):
    obj = copy.deepcopy(VALID_OBJECTS[kind.kind])
    obj.get("spec", obj).update(spec)
    return obj


async def create(client, kind, **spec):
    return await client.create(kind.path("default"), valid(kind, **spec))


async def row(server, path):
    """The cells of the only row."""
    response = await server.handle(HttpRequest("GET", path, headers=TABLE))
    (only,) = json.loads(response.body)["rows"]
    return only["cells"]


@pytest.mark.parametrize(
    ("kind", "cells"),
    [
        (kinds.ENDPOINTS, ["a", "10.0.0.1", "0s"]),
        (kinds.ENDPOINT_SLICE, ["a", "IPv4", "80", "10.0.0.1", "0s"]),
        (kinds.INGRESS, ["a", "<none>", "web.example.com", "", "80, 443", "0s"]),
        (kinds.INGRESS_CLASS, ["a", "example.com/ingress", "K.a.b/k", "0s"]),
        (kinds.NETWORK_POLICY, ["a", "app=web", "0s"]),
        (kinds.HORIZONTAL_POD_AUTOSCALER, ["a", "Deployment/web", "1", 3, 0, "0s"]),
        (kinds.RUNTIME_CLASS, ["a", "runsc", "0s"]),
        (kinds.CONTROLLER_REVISION, ["a", "<none>", 1, "0s"]),
        (kinds.POD_TEMPLATE, ["a", "c", "i", "app=web"]),
        (kinds.LIMIT_RANGE, ["a", "0s"]),
        (kinds.RESOURCE_QUOTA, ["a", "count/configmaps: 0/100, pods: 0/100, requests.cpu: 0/100", "", "0s"]),
        (kinds.CERTIFICATE_SIGNING_REQUEST, ["a", "0s", "example.com/signer", "", "<none>", "Pending"]),
    ],
    ids=lambda value: value.resource if isinstance(value, kinds.Kind) else "",
)
async def test_kind_is_shown_as_a_table(in_memory, client, kind, cells):
    await create(client, kind)

    assert await row(in_memory, kind.path("default")) == cells


@pytest.mark.parametrize(
    ("kind", "spec", "message"),
    [
        (
            kinds.INGRESS,
            {"rules": [{"http": {"paths": [{"backend": {"service": {}}, "path": "/"}]}}]},
            "[spec.rules[0].http.paths[0].pathType: Required value, spec.rules[0].http.paths[0].backend.service.name",
        ),
        (
            kinds.NETWORK_POLICY,
            {"policyTypes": ["Ingress", "Both"]},
            'spec.policyTypes[1]: Unsupported value: "Both": supported values: "Egress", "Ingress"',
        ),
        (kinds.HORIZONTAL_POD_AUTOSCALER, {"scaleTargetRef": {"kind": "Deployment"}}, "scaleTargetRef.name: Required"),
        (kinds.RUNTIME_CLASS, {"handler": "A_b"}, "a lowercase RFC 1123 label must consist of"),
        (kinds.ENDPOINT_SLICE, {"addressType": "IPv5"}, 'addressType: Unsupported value: "IPv5"'),
        (kinds.CERTIFICATE_SIGNING_REQUEST, {"signerName": ""}, "spec.signerName: Required value"),
        (
            kinds.MUTATING_WEBHOOK_CONFIGURATION,
            {"webhooks": [{"name": "w", "sideEffects": "Many", "clientConfig": {"service": {"name": "s"}}}]},
            'webhooks[0].sideEffects: Unsupported value: "Many": supported values: "None", "NoneOnDryRun", "Some", ',
        ),
        (kinds.FLOW_SCHEMA, {"priorityLevelConfiguration": {}}, "priorityLevelConfiguration.name: Required value"),
    ],
    ids=lambda value: value.resource if isinstance(value, kinds.Kind) else "",
)
async def test_invalid_object_is_rejected(client, kind, spec, message):
    error = await client.create(kind.path("default"), valid(kind, **spec), status=422)

    assert message in error["message"]


async def test_handler_of_a_runtime_class_is_immutable(client):
    await create(client, kinds.RUNTIME_CLASS)
    error = await client.patch(kinds.RUNTIME_CLASS.path("default", "a"), {"handler": "other"}, status=422)

    assert "handler: Invalid value" in error["message"]
    assert "field is immutable" in error["message"]


# Kinds that are only stored


STORED = [resource for resource in catalog() if "stored" in facts().get(resource.kind.resource, {})]


@pytest.mark.parametrize("resource", STORED, ids=lambda resource: f"{resource.kind.resource}/{resource.kind.version}")
async def test_writes_of_a_stored_kind_say_that_it_is_only_stored(in_memory, resource):
    kind = resource.kind
    body = {"apiVersion": kind.api_version, "kind": kind.kind, **VALID_OBJECTS[kind.kind]}
    path = kind.path("default", body["metadata"]["name"])

    async def warnings(method, path, content_type="application/json", **query):
        headers = {"Content-Type": content_type}
        response = await in_memory.handle(HttpRequest(method, path, query, headers, json.dumps(body).encode()))
        assert response.status in {200, 201}, response.body
        return response.warnings

    written = [
        await warnings("POST", kind.path("default")),
        await warnings("PATCH", path, "application/merge-patch+json"),
        await warnings("PATCH", path, "application/apply-patch+yaml", fieldManager="test"),
    ]
    assert len(written[0]) == 1
    assert written[0][0].startswith('299 - "stored; ')
    assert written == [written[0]] * 3
    assert await warnings("GET", path) == []


@pytest.mark.parametrize(
    ("kind", "where", "expected"),
    [
        (
            kinds.VALIDATING_WEBHOOK_CONFIGURATION,
            lambda obj: obj["webhooks"][0],
            {"failurePolicy": "Fail", "matchPolicy": "Equivalent", "namespaceSelector": {}, "timeoutSeconds": 10},
        ),
        (
            kinds.MUTATING_WEBHOOK_CONFIGURATION,
            lambda obj: (
                obj["webhooks"][0] | obj["webhooks"][0]["rules"][0] | obj["webhooks"][0]["clientConfig"]["service"]
            ),
            {"reinvocationPolicy": "IfNeeded", "scope": "*", "port": 443},
        ),
        (
            kinds.VALIDATING_ADMISSION_POLICY,
            lambda obj: obj["spec"] | obj["spec"]["matchConstraints"],
            {"failurePolicy": "Fail", "matchPolicy": "Equivalent", "objectSelector": {}},
        ),
        (kinds.API_SERVICE, lambda obj: obj["spec"]["service"], {"port": 443}),
        (kinds.FLOW_SCHEMA, lambda obj: obj["spec"], {"matchingPrecedence": 1000}),
        (
            kinds.PRIORITY_LEVEL_CONFIGURATION,
            lambda obj: obj["spec"]["limited"] | obj["spec"]["limited"]["limitResponse"]["queuing"],
            {"nominalConcurrencyShares": 30, "lendablePercent": 0, "queues": 64, "handSize": 8, "queueLengthLimit": 50},
        ),
        (kinds.ENDPOINT_SLICE, lambda obj: obj["ports"][0], {"protocol": "TCP"}),
        (kinds.ENDPOINTS, lambda obj: obj["subsets"][0]["ports"][0], {"protocol": "TCP"}),
        (kinds.INGRESS_CLASS, lambda obj: obj["spec"]["parameters"], {"scope": "Cluster"}),
    ],
    ids=lambda value: value.resource if isinstance(value, kinds.Kind) else "",
)
async def test_stored_object_gets_the_defaults_of_its_types(client, kind, where, expected):
    created = where(await create(client, kind))

    assert created == {**created, **expected}


async def test_network_policy_and_autoscaler_get_defaults(client):
    policy = await create(client, kinds.NETWORK_POLICY)
    autoscaler = await create(client, kinds.HORIZONTAL_POD_AUTOSCALER, behavior={"scaleUp": {}})

    assert policy["spec"]["policyTypes"] == ["Ingress"]
    assert policy["spec"]["ingress"][0]["ports"] == [{"port": 80, "endPort": 90, "protocol": "TCP"}]
    assert autoscaler["spec"]["minReplicas"] == 1
    assert autoscaler["spec"]["behavior"]["scaleUp"]["policies"][0] == {"type": "Pods", "value": 4, "periodSeconds": 15}


# Certificate requests


async def test_request_is_approved_by_a_subresource(client):
    await create(client, kinds.CERTIFICATE_SIGNING_REQUEST)
    approved = await client.patch(f"{REQUESTS}/a/approval", {"status": {"conditions": [APPROVED]}})

    assert approved["status"]["conditions"] == [
        {**APPROVED, "lastUpdateTime": None, "lastTransitionTime": None}
    ] or approved["status"]["conditions"] == [APPROVED]


# API services


async def test_table_of_api_services_says_what_serves_them(in_memory, client):
    await create(client, kinds.API_SERVICE)
    response = await in_memory.handle(HttpRequest("GET", API_SERVICES, headers=TABLE))

    assert [row["cells"] for row in json.loads(response.body)["rows"]] == [
        ["v1beta1.metrics.example.com", "default/metrics", "Unknown", "0s"]
    ]


@pytest.mark.kubectl
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on the PATH")
async def test_kubectl_applies_every_kind(kubectl, tmp_path):
    objects = [
        {"apiVersion": kind.api_version, "kind": kind.kind, **VALID_OBJECTS[kind.kind]}
        for kind in kinds.KINDS
        if kind not in {kinds.EVENT, kinds.CORE_EVENT}
    ]
    file = tmp_path / "objects.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    output = await kubectl("apply", "-f", str(file))

    assert output.count(" created\n") == len(objects)
    again = await kubectl("apply", "-f", str(file))
    assert again.count(" unchanged\n") + again.count(" configured\n") == len(objects)


async def test_service_of_the_api_server_exists():
    async with ApiServer(address=None) as server:
        response = await server.handle(HttpRequest("GET", "/api/v1/namespaces/default/services/kubernetes"))

    assert json.loads(response.body)["spec"]["clusterIP"] == "10.96.0.1"
