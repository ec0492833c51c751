"""The official Python client against the embedded server. It blocks, so it runs in a thread."""

import asyncio

import pytest
import yaml
from kubernetes import client, config, watch

from bayplan_devcluster.apiserver import Address, ApiServer, Tls


@pytest.fixture(params=["http", "https"])
async def core(request):
    secure = request.param == "https"
    options = {"address": Address(tls=Tls.create()), "tokens": {"secret": "me"}} if secure else {}
    async with ApiServer(**options) as server:
        api = await asyncio.to_thread(config.new_client_from_config_dict, yaml.safe_load(server.kubeconfig()))
        yield client.CoreV1Api(api)
        await asyncio.to_thread(api.close)


def pod(name):
    container = client.V1Container(
        name="c", image="nginx", resources=client.V1ResourceRequirements(requests={"cpu": "100m"})
    )
    return client.V1Pod(metadata=client.V1ObjectMeta(name=name), spec=client.V1PodSpec(containers=[container]))


def exercise(core):
    """Creates, lists, watches, binds, patches and deletes a pod."""
    core.create_node(client.V1Node(metadata=client.V1ObjectMeta(name="n")))
    created = core.create_namespaced_pod("default", pod("p"))
    assert created.spec.scheduler_name == "default-scheduler"

    waiting = core.list_namespaced_pod("default", field_selector="spec.nodeName=")
    assert [item.metadata.name for item in waiting.items] == ["p"]

    target = client.V1ObjectReference(api_version="v1", kind="Node", name="n")
    binding = client.V1Binding(metadata=client.V1ObjectMeta(name="p"), target=target)
    core.create_namespaced_pod_binding("p", "default", binding, _preload_content=False)
    with pytest.raises(client.ApiException) as caught:
        core.create_namespaced_binding("default", binding, _preload_content=False)
    assert caught.value.status == 409

    core.patch_namespaced_pod("p", "default", {"metadata": {"labels": {"a": "b"}}})
    core.patch_namespaced_pod_status("p", "default", {"status": {"phase": "Running"}})
    core.delete_namespaced_pod("p", "default", grace_period_seconds=0)

    version = waiting.metadata.resource_version
    events = watch.Watch().stream(core.list_namespaced_pod, "default", resource_version=version, timeout_seconds=1)
    seen = [(event["type"], event["object"].spec.node_name, event["object"].status.phase) for event in events]
    assert seen == [
        ("MODIFIED", "n", "Pending"),
        ("MODIFIED", "n", "Pending"),
        ("MODIFIED", "n", "Running"),
        ("DELETED", "n", "Running"),
    ]
    assert core.list_pod_for_all_namespaces().items == []


async def test_pod_lifecycle(core):
    await asyncio.to_thread(exercise, core)
