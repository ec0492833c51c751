"""kubectl against the embedded server. Each call costs a process, so the tests are few and broad."""

import asyncio
import json
import re
import shutil

import pytest

from bayplan_devcluster.apiserver import Address, ApiServer, Tls

pytestmark = [pytest.mark.kubectl, pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on the PATH")]

MANIFEST = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: nginx, image: "nginx:1.27", ports: [{containerPort: 80}], resources: {requests: {cpu: 0.5}}}
---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {zone: a}}
status: {capacity: {cpu: 4, memory: 8Gi, pods: 110}}
"""


async def test_apply_get_scale_describe_delete(kubectl):
    assert "deployment.apps/web created" in await kubectl("apply", "-f", "-", stdin=MANIFEST)
    again = await kubectl(
        "apply", "-f", "-", stdin=MANIFEST.replace("1.27", "1.28").replace("replicas: 3", "replicas: 4")
    )
    assert "deployment.apps/web configured" in again
    wide = await kubectl("get", "deployments", "-o", "wide")
    assert "0/4" in wide
    assert "nginx:1.28" in wide
    await kubectl("scale", "deployment", "web", "--replicas", "5")
    found = json.loads(await kubectl("get", "deployment", "web", "-o", "json"))
    assert (found["spec"]["replicas"], len(found["spec"]["template"]["spec"]["containers"])) == (5, 1)
    assert found["spec"]["template"]["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "500m"}}
    described = await kubectl("describe", "deployment", "web")
    assert "25% max unavailable, 25% max surge" in described
    assert 'deployment.apps "web" deleted' in await kubectl("delete", "deployment", "web")
    assert "NotFound" in await kubectl("get", "deployment", "web", status=1)


async def test_server_side_apply_and_diff(kubectl):
    assert "serverside-applied" in await kubectl("apply", "--server-side", "-f", "-", stdin=MANIFEST)
    assert await kubectl("diff", "-f", "-", stdin=MANIFEST) == ""


async def test_run_label_annotate_watch_delete(kubectl):
    async with kubectl.following("get", "pods", "-w") as lines:
        overrides = json.dumps({"spec": {"tolerations": [{"operator": "Exists"}], "nodeName": "n1"}})
        await kubectl("run", "p", "--image", "nginx", "--overrides", overrides)
        await kubectl("label", "pod", "p", "tier=web")
        await kubectl("annotate", "pod", "p", "why=test")
        yaml = await kubectl("get", "pod", "p", "-o", "yaml")
        assert "tier: web" in yaml
        assert "why: test" in yaml
        assert re.search(r"Node: +n1/", await kubectl("describe", "pod", "p"))
        await kubectl("delete", "pod", "p", "--now", "--wait=false")
        async with asyncio.timeout(20):
            first = await anext(lines)
            assert first.split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
            while "Terminating" not in await anext(lines):
                pass


async def test_cordon_and_taint_nodes(kubectl):
    await kubectl("apply", "-f", "-", stdin=MANIFEST)
    await kubectl("cordon", "n1")
    assert "Unknown,SchedulingDisabled" in await kubectl("get", "nodes")
    await kubectl("uncordon", "n1")
    await kubectl("taint", "node", "n1", "k=v:NoSchedule")
    described = await kubectl("describe", "node", "n1")
    assert "k=v:NoSchedule" in described
    assert "Unschedulable:      false" in described


async def test_create_subcommands(kubectl):
    await kubectl("create", "deployment", "d", "--image=nginx", "--replicas=2")
    await kubectl("create", "job", "j", "--image=busybox", "--", "date")
    await kubectl("create", "cronjob", "c", "--image=busybox", "--schedule=*/5 * * * *", "--", "date")
    await kubectl("create", "namespace", "team")
    await kubectl("-n", "team", "create", "configmap", "m", "--from-literal=a=b")
    listed = await kubectl("get", "all")
    assert all(name in listed for name in ("deployment.apps/d", "job.batch/j", "cronjob.batch/c", "service/kubernetes"))
    await kubectl("delete", "namespace", "team")
    assert "team" not in await kubectl("get", "namespaces")


async def test_discovery_and_explain(kubectl):
    assert "deployments" in await kubectl("api-resources", "--api-group=apps", "-o", "name")
    assert "effect" in await kubectl("explain", "pod.spec.tolerations")
    assert (await kubectl("auth", "can-i", "create", "pods")).strip() == "yes"
    assert "v1.36.2" in await kubectl("version")
    strict = MANIFEST.replace("replicas: 3", "replicas: 3\n  colour: red")
    rejected = await kubectl("create", "-f", "-", stdin=strict, status=1)
    assert 'unknown field "spec.colour"' in rejected


async def test_events_and_logs(kubectl, server):
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "default"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reason": "Scheduled",
        "action": "Binding",
        "type": "Normal",
        "note": "Successfully assigned default/p to n1",
        "reportingController": "bayplan",
        "reportingInstance": "bayplan-1",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
    }
    server.load([event])
    assert "Successfully assigned default/p to n1" in await kubectl("get", "events")
    assert "Scheduled" in await kubectl("events")
    await kubectl("run", "p", "--image", "nginx")
    assert "simulates pods" in await kubectl("logs", "p", status=1)


async def test_tls_with_a_token(make_kubectl):
    async with ApiServer(address=Address(tls=Tls.create()), tokens={"secret": "me"}) as server:
        assert "kube-system" in await make_kubectl(server)("get", "namespaces")
