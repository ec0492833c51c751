"""kubectl with the embedded cluster, for commands that need controllers and kubelets."""

import asyncio
import itertools
import json
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.binding import bind_all

from bayplan.core.api.kinds import POD
from bayplan.core.expansion.daemon_pods import target_node
from bayplan.foundations.clock import RunningClock
from bayplan_devcluster.cluster import DevCluster

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on the PATH"),
]

RATE = 30.0
CRON_JOB = """\
apiVersion: batch/v1
kind: CronJob
metadata: {name: tick}
spec:
  schedule: "* * * * *"
  jobTemplate:
    spec:
      template:
        spec: {restartPolicy: Never, containers: [{name: c, image: i}]}
"""


STATEFUL_SET = """\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: c, image: "db:1"}]}
"""
DAEMON_SET = """\
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: c, image: "agent:1"}]}
"""


class Kubectl:
    def __init__(self, kubeconfig: Path) -> None:
        self._environment = {"PATH": os.environ["PATH"], "HOME": str(kubeconfig.parent), "KUBECONFIG": str(kubeconfig)}

    async def __call__(self, *arguments: str, stdin: str = "") -> str:
        """Run kubectl, which must succeed, and return its output."""
        process = await asyncio.create_subprocess_exec(
            "kubectl",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._environment,
        )
        output, errors = await asyncio.wait_for(process.communicate(stdin.encode()), 60)
        assert process.returncode == 0, errors.decode()
        return output.decode()

    async def json(self, *arguments: str) -> Any:
        return json.loads(await self(*arguments, "-o", "json"))


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    async with DevCluster(4, clock=RunningClock(RATE)) as cluster:
        await cluster.nodes_ready()
        cluster.write_kubeconfig(tmp_path / "kubeconfig")
        binder = asyncio.create_task(bind_pods(cluster))
        try:
            yield Kubectl(tmp_path / "kubeconfig")
        finally:
            binder.cancel()


async def bind_pods(cluster: DevCluster) -> None:
    """Bind every pod that has no node, to the one it is made for or to the nodes in turn, until cancelled."""
    nodes = itertools.cycle(f"node-{number}" for number in range(4))
    await bind_all(cluster.client, cluster.informers.of(POD).objects, lambda pod: target_node(pod) or next(nodes))


async def test_a_deployment_rolls_out_scales_and_rolls_back(kubectl: Kubectl):
    await kubectl("create", "deployment", "web", "--image=nginx:1", "--replicas=3")
    assert "successfully rolled out" in await kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    await kubectl("set", "image", "deployment/web", "nginx=nginx:2")
    assert "successfully rolled out" in await kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    await kubectl("scale", "deployment/web", "--replicas=5")
    assert "successfully rolled out" in await kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    await kubectl("rollout", "undo", "deployment/web")
    assert "successfully rolled out" in await kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    pods = (await kubectl.json("get", "pods", "-l", "app=web"))["items"]
    active = [one for one in pods if "deletionTimestamp" not in one["metadata"]]
    assert [one["spec"]["containers"][0]["image"] for one in active] == ["nginx:1"] * 5
    assert "ScalingReplicaSet" in await kubectl("describe", "deployment", "web")
    assert len((await kubectl("rollout", "history", "deployment/web")).strip().splitlines()) == 4
    await kubectl("delete", "deployment", "web", "--cascade=foreground", "--timeout=30s")
    assert (await kubectl.json("get", "replicasets,pods"))["items"] == []


async def test_stateful_set_rolls_out_scales_restarts_and_goes_back(kubectl: Kubectl):
    async def rolled_out() -> dict[str, str]:
        """The images of the pods, once the rollout is complete."""
        assert "roll out complete" in await kubectl("rollout", "status", "statefulset/db", "--timeout=30s")
        pods = (await kubectl.json("get", "pods", "-l", "app=db"))["items"]
        return {one["metadata"]["name"]: one["spec"]["containers"][0]["image"] for one in pods}

    await kubectl("apply", "-f", "-", stdin=STATEFUL_SET)
    assert await rolled_out() == {"db-0": "db:1", "db-1": "db:1"}
    await kubectl("scale", "statefulset/db", "--replicas=3")
    assert len(await rolled_out()) == 3
    await kubectl("set", "image", "statefulset/db", "c=db:2")
    await kubectl("annotate", "statefulset/db", "kubernetes.io/change-cause=second")
    assert set((await rolled_out()).values()) == {"db:2"}
    assert "db:1" in await kubectl("rollout", "history", "statefulset/db", "--revision=1")
    await kubectl("rollout", "undo", "statefulset/db")
    assert set((await rolled_out()).values()) == {"db:1"}
    history = (await kubectl("rollout", "history", "statefulset/db")).split()
    assert [word for word in history if word.isdigit()] == ["2", "3"]
    before = (await kubectl.json("get", "pod", "db-0"))["metadata"]["uid"]
    await kubectl("rollout", "restart", "statefulset/db")
    await rolled_out()
    assert (await kubectl.json("get", "pod", "db-0"))["metadata"]["uid"] != before
    assert "3/3" in await kubectl("get", "statefulsets")
    assert "Create Pod db-2 in StatefulSet db successful" in await kubectl("describe", "statefulset", "db")
    await kubectl("delete", "statefulset", "db", "--cascade=foreground", "--timeout=30s")
    assert (await kubectl.json("get", "controllerrevisions,pods"))["items"] == []


async def test_daemon_set_rolls_out_restarts_and_goes_back(kubectl: Kubectl):
    async def rolled_out() -> dict[str, str]:
        """The images of the pods by node, once the rollout is complete."""
        assert "successfully rolled out" in await kubectl("rollout", "status", "daemonset/agent", "--timeout=30s")
        pods = (await kubectl.json("get", "pods", "-l", "app=agent"))["items"]
        active = [one for one in pods if "deletionTimestamp" not in one["metadata"]]
        return {one["spec"]["nodeName"]: one["spec"]["containers"][0]["image"] for one in active}

    nodes = [f"node-{number}" for number in range(4)]
    await kubectl("apply", "-f", "-", stdin=DAEMON_SET)
    assert await rolled_out() == dict.fromkeys(nodes, "agent:1")
    await kubectl("set", "image", "daemonset/agent", "c=agent:2")
    assert await rolled_out() == dict.fromkeys(nodes, "agent:2")
    await kubectl("rollout", "undo", "daemonset/agent", "--to-revision=1")
    assert await rolled_out() == dict.fromkeys(nodes, "agent:1")
    history = (await kubectl("rollout", "history", "daemonset/agent")).split()
    assert [word for word in history if word.isdigit()] == ["2", "3"]
    await kubectl("rollout", "restart", "daemonset/agent")
    await rolled_out()
    assert (await kubectl("get", "daemonsets", "--no-headers")).split()[:6] == ["agent", "4", "4", "4", "4", "4"]
    await kubectl("drain", "node-0", "--ignore-daemonsets", "--timeout=30s")
    assert len(await rolled_out()) == 4
    await kubectl("delete", "daemonset", "agent", "--cascade=foreground", "--timeout=30s")
    assert (await kubectl.json("get", "controllerrevisions,pods"))["items"] == []


async def test_cron_jobs_fire_and_can_be_started_by_hand(kubectl: Kubectl):
    await kubectl("apply", "-f", "-", stdin=CRON_JOB)
    await kubectl("create", "job", "by-hand", "--from=cronjob/tick")
    await kubectl("wait", "--for=condition=complete", "job/by-hand", "--timeout=30s")
    await kubectl("wait", "--for=jsonpath={.status.lastSuccessfulTime}", "cronjob/tick", "--timeout=30s")
    table = await kubectl("get", "jobs,cronjobs")
    assert "job.batch/by-hand" in table
    assert "Complete" in table


async def test_cordoned_nodes_drain_within_the_budget(kubectl: Kubectl):
    await kubectl("create", "deployment", "web", "--image=nginx", "--replicas=4")
    await kubectl("create", "poddisruptionbudget", "web", "--selector=app=web", "--max-unavailable=1")
    await kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    await kubectl("drain", "node-0", "--timeout=30s")
    node = await kubectl.json("get", "node", "node-0")
    assert [one["key"] for one in node["spec"]["taints"]] == ["node.kubernetes.io/unschedulable"]
    assert "SchedulingDisabled" in await kubectl("get", "nodes")
    await kubectl("uncordon", "node-0")
    await kubectl("rollout", "status", "deployment/web", "--timeout=30s")


async def test_deleting_a_namespace_deletes_its_content(kubectl: Kubectl):
    await kubectl("create", "namespace", "team")
    await kubectl("create", "configmap", "c", "--from-literal=a=b", "-n", "team")
    await kubectl("delete", "namespace", "team", "--timeout=30s")
    assert "team" not in await kubectl("get", "namespaces")


async def test_every_namespace_has_the_certificate_authority(kubectl: Kubectl) -> None:
    await kubectl("create", "namespace", "team")
    await kubectl("wait", "--for=create", "configmap/kube-root-ca.crt", "-n", "team", "--timeout=10s")
    assert "10.96.0.1" in await kubectl("get", "service", "kubernetes", "-n", "default")


async def test_quota_counts_pods(kubectl: Kubectl) -> None:
    await kubectl("create", "quota", "small", "--hard=pods=1")
    await kubectl("run", "first", "--image=i")
    await kubectl("wait", "--for=condition=Ready", "pod/first", "--timeout=30s")
    assert "pods: 1/1" in await kubectl("get", "quota", "small")
    await kubectl("delete", "pod", "first", "--timeout=30s")
    assert "pods: 0/1" in await kubectl("get", "quota", "small")
