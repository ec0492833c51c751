"""Subresources of pods and workloads: resize, connections to containers, and tables of scales."""

import shutil

import pytest
from tests.support.tables import cases

from bayplan_devcluster.apiserver import HttpRequest

PODS = "/api/v1/namespaces/default/pods"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
DEPLOYMENT = {
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    },
}


def resources(cpu, memory="1Gi"):
    return {name: {"cpu": cpu, "memory": memory} for name in ("requests", "limits")}


def pod_with(given, **spec):
    return {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": given}], **spec},
    }


def resized(given, **container):
    return {"spec": {"containers": [{"name": "c", "resources": given, **container}]}}


async def test_resize_changes_the_resources_of_a_container(client):
    await client.create(PODS, pod_with(resources("1")))
    changed = await client.patch(f"{PODS}/p/resize", resized(resources("2"), image="other"), kind="strategic")

    container = changed["spec"]["containers"][0]
    assert (container["resources"], container["image"]) == (resources("2"), "i")
    assert changed["metadata"]["generation"] == 2
    assert (await client.get(f"{PODS}/p/resize"))["spec"] == changed["spec"]


@cases(
    "patch, message",
    {
        "quality of service": (
            resized({"requests": {"cpu": "500m"}}),
            'spec: Invalid value: "Guaranteed": Pod QOS Class may not change as a result of resizing',
        ),
        "container": (
            {"spec": {"containers": [{"name": "d", "image": "i"}]}},
            "spec.containers: Forbidden: containers may not be added or removed on resize",
        ),
        "other resource": (
            resized({"requests": {"ephemeral-storage": "1Gi"}}),
            "spec: Forbidden: only cpu and memory resources are mutable",
        ),
        "request above the limit": (
            resized({"requests": {"cpu": "3"}}),
            'spec.containers[0].resources.requests: Invalid value: "3": must be less than or equal to cpu limit of 1',
        ),
    },
)
async def test_invalid_resize_is_rejected(client, patch, message):
    await client.create(PODS, pod_with(resources("1")))
    error = await client.patch(f"{PODS}/p/resize", patch, status=422, kind="strategic")

    assert message in error["message"]


async def test_resize_that_exceeds_a_quota_is_rejected(client):
    await client.create(PODS, pod_with(resources("1")))
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"requests.cpu": "2"}}}
    await client.create("/api/v1/namespaces/default/resourcequotas", quota)
    error = await client.patch(f"{PODS}/p/resize", resized(resources("3")), status=403, kind="strategic")

    assert "exceeded quota: q, requested: requests.cpu=2, used: requests.cpu=1" in error["message"]
    await client.patch(f"{PODS}/p/resize", resized(resources("2")), kind="strategic")
    used = (await client.get("/api/v1/namespaces/default/resourcequotas/q"))["status"]["used"]
    assert used == {"requests.cpu": "2"}


@pytest.mark.parametrize("name", ["attach", "exec", "portforward", "proxy"])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_connection_to_a_container_is_refused_with_the_reason(client, make_pod, name, method):
    await client.create(PODS, make_pod())
    status, error = await client(method, f"{PODS}/p/{name}", **{"Content-Type": "application/json"})

    assert (status, error["reason"]) == (501, "NotImplemented")
    assert "simulates pods: nothing runs in their containers" in error["message"]
    assert (await client(method, f"{PODS}/none/{name}"))[0] == 404


async def test_scale_is_shown_as_a_table(in_memory, client):
    await client.create("/apis/apps/v1/namespaces/default/deployments", DEPLOYMENT)
    path = "/apis/apps/v1/namespaces/default/deployments/web/scale"
    response = await in_memory.handle(HttpRequest("GET", path, headers={"Accept": TABLE}))

    assert b'"cells":["web",3,0,"0s"]' in response.body
    assert [name in response.body for name in (b'"Desired"', b'"Available"')] == [True, True]


async def test_watch_from_before_the_start_of_the_server_expires(in_memory):
    query = {"watch": "1", "resourceVersion": "1"}
    response = await in_memory.handle(HttpRequest("GET", PODS, query))
    event = await anext(response.stream)
    await response.stream.aclose()

    assert b'"type":"ERROR"' in event
    assert b'"code":410' in event


@pytest.mark.kubectl
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on the PATH")
class TestKubectl:
    async def test_resize_and_scale(self, kubectl, api):
        await api.create(PODS, pod_with(resources("1")))
        await api.create("/apis/apps/v1/namespaces/default/deployments", DEPLOYMENT)
        patch = '{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"2"},"limits":{"cpu":"2"}}}]}}'

        assert "pod/p patched" in await kubectl("patch", "pod", "p", "--subresource", "resize", "--patch", patch)
        table = await kubectl("get", "deployment", "web", "--subresource", "scale")
        assert table.split() == ["NAME", "DESIRED", "AVAILABLE", "AGE", "web", "3", "0", table.split()[-1]]

    async def test_commands_that_need_a_container_fail_with_a_reason(self, kubectl, api, tmp_path):
        await api.create(PODS, pod_with(resources("1")))
        await api.patch(f"{PODS}/p/status", {"status": {"phase": "Running"}})

        for arguments in (
            ("exec", "p", "--", "ls"),
            ("cp", "p:/etc/hosts", str(tmp_path / "hosts")),
            ("port-forward", "p", "0:80"),
            ("logs", "p"),
            ("attach", "p"),
        ):
            output = await kubectl(*arguments, status=1)
            assert "the embedded API server simulates pods: nothing runs in their containers" in output, arguments
