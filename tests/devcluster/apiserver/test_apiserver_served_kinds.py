"""The kinds of networking, discovery, autoscaling, certificates and API services: defaults, rules and tables."""

import copy
import json
import shutil

import pytest
from valid_objects import VALID_OBJECTS

from bayplan.api import kinds
from bayplan.devcluster.apiserver import ApiServer, HttpRequest

TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
V1, V2 = (f"/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers" for version in ("v1", "v2"))
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
        (kinds.ENDPOINTS, ["a", "10.0.0.1:80", "0s"]),
        (kinds.ENDPOINT_SLICE, ["a", "IPv4", "80", "10.0.0.1", "0s"]),
        (kinds.INGRESS, ["a", "<none>", "web.example.com", "", "80, 443", "0s"]),
        (kinds.INGRESS_CLASS, ["a", "example.com/ingress", "K.a.b/k", "0s"]),
        (kinds.NETWORK_POLICY, ["a", "app=web", "0s"]),
        (kinds.HORIZONTAL_POD_AUTOSCALER, ["a", "Deployment/web", "cpu: <unknown>/80%", "1", 3, 0, "0s"]),
        (kinds.RUNTIME_CLASS, ["a", "runsc", "0s"]),
        (kinds.CONTROLLER_REVISION, ["a", "<none>", 1, "0s"]),
        (kinds.POD_TEMPLATE, ["a", "c", "i", "app=web"]),
        (kinds.LIMIT_RANGE, ["a", "0s"]),
        (
            kinds.RESOURCE_QUOTA,
            ["a", "count/configmaps: 0/100, pods: 0/100, requests.cpu: 0/100", "", "0s"],
        ),
        (
            kinds.CERTIFICATE_SIGNING_REQUEST,
            ["a", "0s", "example.com/signer", "system:admin", "<none>", "Pending"],
        ),
    ],
    ids=lambda value: value.resource if isinstance(value, kinds.Kind) else "",
)
async def test_kind_is_shown_as_a_table(in_memory, client, kind, cells):
    await create(client, kind)

    assert await row(in_memory, kind.path("default")) == cells


@pytest.mark.parametrize(
    ("kind", "spec", "message"),
    [
        (kinds.INGRESS, {"rules": []}, "either `defaultBackend` or `rules` must be specified"),
        (
            kinds.INGRESS,
            {"rules": [{"host": "10.0.0.1", "http": {"paths": []}}]},
            'spec.rules[0].host: Invalid value: "10.0.0.1": must be a DNS name, not an IP address',
        ),
        (
            kinds.INGRESS,
            {"defaultBackend": {}},
            'spec.defaultBackend: Invalid value: "": resource or service backend is',
        ),
        (kinds.INGRESS_CLASS, {"controller": "x"}, 'must be a domain-prefixed path (such as "acme.io/foo")'),
        (
            kinds.NETWORK_POLICY,
            {"ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}}]}]},
            'ipBlock.except[0]: Invalid value: "11.0.0.0/16": must be a strict subset of `cidr`',
        ),
        (kinds.NETWORK_POLICY, {"egress": [{"to": [{}]}]}, "spec.egress[0].to[0]: Required value: must specify a peer"),
        (kinds.HORIZONTAL_POD_AUTOSCALER, {"minReplicas": 5}, "must be greater than or equal to `minReplicas`"),
        (
            kinds.HORIZONTAL_POD_AUTOSCALER,
            {"metrics": [{"type": "Resource"}]},
            "spec.metrics[0].resource: Required value: must populate information for the given metric source",
        ),
        (kinds.RUNTIME_CLASS, {"handler": "A_b"}, "a lowercase RFC 1123 label must consist of"),
        (kinds.ENDPOINT_SLICE, {"addressType": "IPv6"}, "must be an IPv6 address"),
        (
            kinds.ENDPOINTS,
            {"subsets": [{"addresses": [{"ip": "127.0.0.1"}]}]},
            "may not be in the loopback range (127.0.0.0/8, ::1/128)",
        ),
        (kinds.CERTIFICATE_SIGNING_REQUEST, {"request": "YQ=="}, "PEM block type must be CERTIFICATE REQUEST"),
        (
            kinds.CERTIFICATE_SIGNING_REQUEST,
            {"signerName": "x"},
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        ),
    ],
)
async def test_invalid_object_is_rejected(client, kind, spec, message):
    error = await client.create(kind.path("default"), valid(kind, **spec), status=422)

    assert message in error["message"]


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        (kinds.INGRESS_CLASS, {"spec": {"controller": "a.b/c"}}, "spec.controller: Invalid value"),
        (kinds.RUNTIME_CLASS, {"handler": "other"}, "handler: Invalid value"),
        (kinds.ENDPOINT_SLICE, {"addressType": "FQDN"}, "addressType: Invalid value"),
    ],
    ids=["controller", "handler", "address type"],
)
async def test_immutable_field_is_protected(client, kind, change, message):
    await create(client, kind)
    error = await client.patch(kind.path("default", "a"), change, status=422)

    assert f"{message}" in error["message"]
    assert "field is immutable" in error["message"]


async def test_network_policy_and_autoscaler_get_defaults(client):
    policy = await create(client, kinds.NETWORK_POLICY)
    autoscaler = await create(client, kinds.HORIZONTAL_POD_AUTOSCALER, behavior={"scaleUp": {}})

    assert policy["spec"]["policyTypes"] == ["Ingress"]
    assert policy["spec"]["ingress"][0]["ports"] == [{"port": 80, "endPort": 90, "protocol": "TCP"}]
    assert autoscaler["spec"]["minReplicas"] == 1
    assert autoscaler["spec"]["behavior"]["scaleUp"]["policies"][0] == {"type": "Pods", "value": 4, "periodSeconds": 15}


# Autoscalers in two versions


async def test_autoscaler_of_v1_is_stored_as_v2(client):
    created = await client.create(V1, valid(kinds.HORIZONTAL_POD_AUTOSCALER_V1, targetCPUUtilizationPercentage=33))
    stored = await client.get(f"{V2}/a")

    assert created["spec"]["targetCPUUtilizationPercentage"] == 33
    target = {"type": "Utilization", "averageUtilization": 33}
    assert stored["spec"]["metrics"] == [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]


async def test_update_by_autoscaling_v1_keeps_fields_that_it_lacks(client):
    memory = {
        "type": "Resource",
        "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 5}},
    }
    await client.create(V2, valid(kinds.HORIZONTAL_POD_AUTOSCALER, metrics=[memory], behavior={"scaleDown": {}}))
    before = await client.get(f"{V2}/a")
    await client.put(
        f"{V1}/a",
        {
            **await client.get(f"{V1}/a"),
            "metadata": {**(await client.get(f"{V1}/a"))["metadata"], "labels": {"changed": "yes"}},
        },
    )
    after = await client.get(f"{V2}/a")

    assert after["metadata"]["labels"] == {"changed": "yes"}
    assert after["spec"] == before["spec"]


# Certificate requests


async def test_request_records_its_user_and_is_approved_by_a_subresource(client):
    created = await create(client, kinds.CERTIFICATE_SIGNING_REQUEST, username="eve")
    assert created["spec"]["username"] == "system:admin"

    error = await client.patch(f"{REQUESTS}/a/status", {"status": {"conditions": [APPROVED]}}, status=422)
    assert 'updates may not add a condition of type "Approved"' in error["message"]

    approved = await client.patch(f"{REQUESTS}/a/approval", {"status": {"conditions": [APPROVED]}})
    assert approved["status"]["conditions"][0]["lastUpdateTime"] == "2026-01-01T00:00:00Z"
    both = {"status": {"conditions": [APPROVED, {**APPROVED, "type": "Denied"}]}}
    error = await client.patch(f"{REQUESTS}/a/approval", both, status=422)
    assert "Approved and Denied conditions are mutually exclusive" in error["message"]


# API services


async def test_api_services_follow_what_is_served(client, make_definition):
    names = {item["metadata"]["name"] for item in (await client.get(API_SERVICES))["items"]}
    assert {"v1.", "v1.apps", "v2.autoscaling"} <= names
    assert "v1.example.com" not in names

    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await client.create(definitions, make_definition())
    service = await client.get(f"{API_SERVICES}/v1.example.com")
    assert (service["spec"]["groupPriorityMinimum"], service["spec"]["versionPriority"]) == (1000, 100)
    assert service["status"]["conditions"][0]["reason"] == "Local"


@pytest.mark.parametrize(("method", "path"), [("POST", ""), ("PUT", "/v1.apps"), ("DELETE", "/v1.apps")])
async def test_api_services_are_read_only(client, method, path):
    status, error = await client(method, f"{API_SERVICES}{path}", {}, **{"Content-Type": "application/json"})

    assert (status, error["reason"]) == (405, "MethodNotAllowed")


@pytest.mark.kubectl
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on the PATH")
async def test_kubectl_applies_every_kind(kubectl, tmp_path):
    objects = [
        {"apiVersion": kind.api_version, "kind": kind.kind, **VALID_OBJECTS[kind.kind]}
        for kind in kinds.KINDS
        if kind not in {kinds.API_SERVICE, kinds.EVENT, kinds.CORE_EVENT, kinds.HORIZONTAL_POD_AUTOSCALER_V1}
    ]
    file = tmp_path / "objects.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    output = await kubectl("apply", "-f", str(file))

    assert output.count(" created\n") == len(objects)
    again = await kubectl("apply", "-f", str(file))
    assert again.count(" unchanged\n") + again.count(" configured\n") == len(objects)


async def test_service_of_the_api_server_exists():
    async with ApiServer(listen=False) as server:
        response = await server.handle(HttpRequest("GET", "/api/v1/namespaces/default/services/kubernetes"))

    assert json.loads(response.body)["spec"]["clusterIP"] == "10.96.0.1"
