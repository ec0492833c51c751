"""The OpenAPI documents, and what kubectl reads from them."""

import json
import shutil

import pytest

from bayplan_devcluster.apiserver import HttpRequest

PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
WITH_UNSERVED_KIND = """
apiVersion: v1
kind: ConfigMap
metadata: {name: before}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: after}
"""
needs_kubectl = [
    pytest.mark.kubectl,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on the PATH"),
]


async def get(server, path, accept="application/json"):
    return await server.handle(HttpRequest("GET", path, headers={"Accept": accept}))


async def test_openapi_v2_is_protobuf_when_the_client_accepts_it(in_memory):
    response = await get(in_memory, "/openapi/v2", PROTOBUF)

    assert response.content_type == PROTOBUF.replace("@", ".")
    assert response.body.startswith(b"\x0a\x032.0\x12\x15\x0a\x0aKubernetes\x12\x07v1.36.2")


async def test_openapi_v2_is_json_by_default(in_memory):
    response = await get(in_memory, "/openapi/v2")

    assert response.content_type == "application/json"
    assert "io.k8s.api.core.v1.Pod" in json.loads(response.body)["definitions"]


async def test_openapi_v3_lists_the_possible_values_of_a_field(in_memory):
    schemas = json.loads((await get(in_memory, "/openapi/v3/api/v1")).body)["components"]["schemas"]

    policy = schemas["io.k8s.api.core.v1.Container"]["properties"]["imagePullPolicy"]
    modes = schemas["io.k8s.api.core.v1.PersistentVolumeClaimSpec"]["properties"]["accessModes"]
    assert policy["enum"] == ["Always", "IfNotPresent", "Never"]
    title, always, *others = policy["description"].splitlines()[-4:]
    assert title == "Possible enum values:"
    assert always.startswith(' - `"Always"` means that kubelet always attempts to pull the latest image. Container')
    assert [each.split()[1] for each in others] == ['`"IfNotPresent"`', '`"Never"`']
    assert "Possible enum values" not in modes["description"]
    assert modes["items"]["enum"] == ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"]


class TestKubectl:
    pytestmark = needs_kubectl

    async def test_apply_creates_the_other_objects_when_one_kind_is_not_served(self, kubectl):
        output = await kubectl("apply", "-f", "-", stdin=WITH_UNSERVED_KIND, status=1)

        assert "configmap/before created" in output
        assert "configmap/after created" in output
        assert 'no matches for kind "Gateway" in version "gateway.networking.k8s.io/v1"' in output

    async def test_explain_shows_possible_values_and_int_or_string(self, kubectl):
        container = await kubectl("explain", "pod.spec.containers.imagePullPolicy")
        restart = await kubectl("explain", "pod.spec.restartPolicy")
        ports = await kubectl("explain", "service.spec.ports")
        limits = await kubectl("explain", "pod.spec.containers.resources.limits")

        values = '    Possible enum values:\n     - `"Always"`\n     - `"Never"`\n     - `"OnFailure"`\n'
        assert values in restart

        assert "ENUM:\n    Always\n    IfNotPresent\n    Never" in container
        assert "enum: SCTP, TCP, UDP" in ports
        assert "targetPort\t<IntOrString>" in ports
        assert "<map[string]Quantity>" in limits
