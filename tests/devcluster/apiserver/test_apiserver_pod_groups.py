"""The scheduler plugins' PodGroup, as users access it: with kubectl, and with the official Python client."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest
import yaml
from kubernetes import client, config, watch

from bayplan.client import HttpClient, Pace, load_kubeconfig
from bayplan.core.api.kinds import CUSTOM_RESOURCE_DEFINITION, custom_kind
from bayplan.running.client.reflector import Reflector

MANIFEST = Path(__file__).parents[2] / "data" / "apiserver" / "podgroup-crd.yaml"
GANG = """
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: gang}
spec:
  minMember: 3
  scheduleTimeoutSeconds: 10
  minResources: {cpu: 3, memory: 1Gi}
"""
needs_kubectl = [
    pytest.mark.kubectl,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on the PATH"),
]


class TestKubectl:
    pytestmark = needs_kubectl

    @pytest.fixture
    async def defined(self, kubectl):
        assert "created" in await kubectl("apply", "-f", str(MANIFEST))
        await kubectl("wait", "--for", "condition=Established", "crd/podgroups.scheduling.x-k8s.io", "--timeout=10s")
        return kubectl

    async def test_apply_patch_get_and_delete(self, defined):
        assert "podgroup.scheduling.x-k8s.io/gang created" in await defined("apply", "-f", "-", stdin=GANG)
        assert "unchanged" in await defined("apply", "-f", "-", stdin=GANG)
        changed = GANG.replace("minMember: 3", "minMember: 4")
        assert "configured" in await defined("apply", "-f", "-", stdin=changed)
        status = json.dumps({"status": {"phase": "Running", "running": 2, "scheduleStartTime": "2026-01-01T00:00:00Z"}})
        await defined("patch", "pg", "gang", "--subresource", "status", "--type", "merge", "-p", status)
        head, row = (await defined("get", "pgs")).splitlines()
        assert head.split() == ["NAME", "PHASE", "MINMEMBER", "RUNNING", "SUCCEEDED", "FAILED", "AGE"]
        assert row.split()[:4] == ["gang", "Running", "4", "2"]
        found = json.loads(await defined("get", "podgroup", "gang", "-o", "json"))
        assert found["spec"]["minResources"] == {"cpu": 3, "memory": "1Gi"}
        assert found["metadata"]["generation"] == 2
        assert "Min Member:" in await defined("describe", "pg", "gang")
        assert "serverside-applied" in await defined(
            "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=GANG
        )
        assert 'podgroup.scheduling.x-k8s.io "gang" deleted' in await defined("delete", "pg", "gang")

    async def test_invalid_group_is_rejected(self, defined):
        wrong = GANG.replace("minMember: 3", "minMember: many")
        rejected = await defined("apply", "-f", "-", stdin=wrong, status=1)
        assert "spec.minMember: Invalid value" in rejected
        unknown = GANG.replace("minMember: 3", "minMembers: 3")
        assert 'unknown field "spec.minMembers"' in await defined("create", "-f", "-", stdin=unknown, status=1)
        amount = GANG.replace("cpu: 3", "cpu: lots")
        assert "spec.minResources.cpu in body should match" in await defined("apply", "-f", "-", stdin=amount, status=1)

    async def test_explain(self, defined):
        assert "pg,pgs" in await defined("api-resources", "--api-group", "scheduling.x-k8s.io")
        explained = await defined("explain", "podgroup.spec.minMember")
        assert "How many pods have to be there" in explained
        assert "<integer>" in explained
        assert "scheduleStartTime" in await defined("explain", "podgroup", "--recursive")

    async def test_watch_and_delete(self, defined):
        async with defined.following("get", "pg", "-w") as lines:
            await defined("apply", "-f", "-", stdin=GANG)
            async with asyncio.timeout(20):
                assert (await anext(lines)).split()[:3] == ["NAME", "PHASE", "MINMEMBER"]
                assert (await anext(lines)).split()[:2] == ["gang", "3"]
        await defined("delete", "crd", "podgroups.scheduling.x-k8s.io")
        assert "NotFound" in await defined("get", "podgroups", status=1)


GROUP, VERSION, PLURAL = "scheduling.x-k8s.io", "v1alpha1", "podgroups"
PLACE = (GROUP, VERSION, "default", PLURAL)


def exercise(server_config):
    """Defines, creates, reads, changes, watches and deletes; returns the watch events."""
    with client.ApiClient(server_config) as api:
        definitions = client.ApiextensionsV1Api(api)
        definitions.create_custom_resource_definition(yaml.safe_load(MANIFEST.read_text()))
        found = definitions.read_custom_resource_definition("podgroups.scheduling.x-k8s.io")
        assert {one.type: one.status for one in found.status.conditions}["Established"] == "True"

        groups = client.CustomObjectsApi(api)
        body = yaml.safe_load(GANG)
        created = groups.create_namespaced_custom_object(*PLACE, body)
        listed = groups.list_namespaced_custom_object(*PLACE)
        assert listed["kind"] == "PodGroupList"
        assert listed["items"] == [created]
        assert created["kind"] == "PodGroup"

        with pytest.raises(client.ApiException) as caught:
            groups.patch_namespaced_custom_object(*PLACE, "gang", {"spec": {"minMember": "x"}})
        assert caught.value.status == 422
        groups.patch_namespaced_custom_object(*PLACE, "gang", {"spec": {"minMember": 5}})
        status = {"status": {"phase": "Scheduled", "failed": 1, "occupiedBy": "default/job"}}
        groups.patch_namespaced_custom_object_status(*PLACE, "gang", status)
        groups.delete_namespaced_custom_object(*PLACE, "gang")

        version = listed["metadata"]["resourceVersion"]
        events = watch.Watch().stream(
            groups.list_namespaced_custom_object, *PLACE, resource_version=version, timeout_seconds=1
        )
        seen = [
            (event["type"], event["object"]["spec"]["minMember"], event["object"].get("status")) for event in events
        ]
        definitions.delete_custom_resource_definition("podgroups.scheduling.x-k8s.io")
        return seen


async def test_python_client_uses_the_custom_resource(server):
    settings = client.Configuration()
    await asyncio.to_thread(config.load_kube_config_from_dict, yaml.safe_load(server.kubeconfig()), None, settings)
    seen = await asyncio.to_thread(exercise, settings)
    status = {"phase": "Scheduled", "failed": 1, "occupiedBy": "default/job"}
    assert seen == [("MODIFIED", 5, None), ("MODIFIED", 5, status), ("DELETED", 5, status)]


class Seen:
    """Records the calls of a reflector."""

    def __init__(self):
        self.changes = asyncio.Queue()

    def added(self, new):
        self.changes.put_nowait(("added", new["spec"]["minMember"]))

    def updated(self, old, new):
        self.changes.put_nowait(("updated", new["spec"]["minMember"]))

    def deleted(self, old):
        self.changes.put_nowait(("deleted", old["spec"]["minMember"]))

    def undecodable(self, raw, error):
        raise error


async def test_reflector_survives_removal_of_the_definition(server, tmp_path):
    kind, seen = custom_kind("podgroups.v1alpha1.scheduling.x-k8s.io"), Seen()
    (tmp_path / "config").write_text(server.kubeconfig())
    api = HttpClient(load_kubeconfig(tmp_path / "config"))
    definition = yaml.safe_load(MANIFEST.read_text())
    reflector = Reflector(api, kind, seen, pace=Pace(sleep=lambda _seconds: asyncio.sleep(0)))
    following = asyncio.create_task(reflector.run())
    try:
        async with asyncio.timeout(20):
            server.load([definition, yaml.safe_load(GANG)])
            assert await seen.changes.get() == ("added", 3)
            group = await api.get(kind, "gang", "default")
            assert group["kind"] == "PodGroup"
            patched = await api.patch(kind, "gang", {"spec": {"minMember": 5}}, "default")
            assert patched["spec"]["minMember"] == 5
            assert await seen.changes.get() == ("updated", 5)
            await api.delete(CUSTOM_RESOURCE_DEFINITION, "podgroups.scheduling.x-k8s.io")
            assert await seen.changes.get() == ("deleted", 5)
            server.load([definition, yaml.safe_load(GANG)])
            assert await seen.changes.get() == ("added", 3)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await api.close()
