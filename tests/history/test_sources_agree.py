"""A recording and the audit log of the same cluster tell the same story, whichever level the log has."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.history.audit_logs import lines
from tests.history.auditing import WRITES, AuditingTransport
from tests.support.control_plane import ASSETS, ControlPlane
from tests.support.waiting import until

from bayplan.answers.history.reading import History
from bayplan.answers.history.recording import HistoryRecorder
from bayplan.answers.history.recording_session import RecorderPace
from bayplan.answers.history.sources.audit import import_audit
from bayplan.client import Client, HttpClient, PatchType, load_kubeconfig
from bayplan.core.api.kinds import NODE, POD
from bayplan.testing import make_node, make_pod
from bayplan.testing.documents import as_sent
from bayplan.testing.in_memory import load
from bayplan_devcluster.apiserver import ApiServer
from bayplan_devcluster.in_memory import InMemoryClient


async def a_day(client: Client, folder: Path) -> None:
    """Everything that can happen to pods and nodes, each after the recorder has seen what was before."""

    async def create(name: str, **fields: Any) -> None:
        document = as_sent(make_pod(name, **fields))[1]
        await client.create(POD, document)
        await seen(f"pod_arrived {name}")

    async def seen(text: str) -> None:
        await until(lambda: text in "\n".join(f"{row[0]} {row[1]}" for row in rows_of(folder)), within=20)

    await client.create(NODE, as_sent(make_node("a"), status=True)[1])
    await client.create(NODE, as_sent(make_node("b"), status=True)[1])
    await seen("node_added b")
    for name in ("done", "evicted", "deleted", "waits", "preempted"):
        await create(name, cpu="100m")
    for name in ("done", "evicted", "deleted", "preempted"):
        await client.bind("default", name, "a")
        await seen(f"pod_bound {name}")
    status = {"status": {"phase": "Succeeded"}}
    await client.patch(POD, "done", status, "default", subresource="status", type=PatchType.STRATEGIC)
    await seen("pod_ended done")
    conditions = [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]
    status = {"status": {"phase": "Failed", "conditions": conditions}}
    await client.patch(POD, "preempted", status, "default", subresource="status", type=PatchType.STRATEGIC)
    await seen("pod_ended preempted")
    await client.delete(POD, "deleted", "default")
    await client.delete(POD, "deleted", "default", grace_period_seconds=0)
    await seen("pod_ended deleted")
    await client.delete(POD, "waits", "default")
    await seen("pod_ended waits")
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "evicted", "namespace": "default"}}
    path = "/api/v1/namespaces/default/pods/evicted/eviction"
    await client.request("POST", path, body=json.dumps(eviction).encode())
    await client.delete(POD, "evicted", "default", grace_period_seconds=0)
    await seen("pod_ended evicted")
    nameless = as_sent(make_pod("x", cpu="50m"))[1]
    nameless["metadata"] = {"generateName": "job-", "namespace": "default"}
    name = (await client.create(POD, nameless)).metadata.name
    await seen(f"pod_arrived {name}")
    await client.bind("default", name, "a")
    await seen(f"pod_bound {name}")
    await client.delete(POD, "done", "default", grace_period_seconds=0)
    await client.patch(NODE, "b", {"spec": {"unschedulable": True}}, type=PatchType.STRATEGIC)
    await seen("node_changed b")
    await client.delete(NODE, "b")
    await seen("node_removed b")


def rows_of(folder: Path) -> list[tuple[str, str, str, str, int | None, int | None]]:
    """The rows about pods and nodes, but for the times."""
    return [
        (row.event, row.name, row.node, row.reason, row.cpu_millicores, row.priority)
        for row in History.open(folder).rows()
        if row.kind in {"Pod", "Node"}
    ]


async def recorded_day(watching: Client, writing: Client, folder: Path) -> None:
    """Record a day of one client with another one."""
    recorder = HistoryRecorder(watching, folder, "a test", pace=RecorderPace(tick_seconds=0.01))
    task = asyncio.create_task(recorder.run())
    try:
        async with asyncio.timeout(20):
            await recorder.synced.wait()
        await a_day(writing, folder)
    finally:
        task.cancel()
        await asyncio.wait((task,))


@pytest.mark.parametrize("level", ["Request", "RequestResponse"])
async def test_a_recording_and_an_audit_log_agree(level: str, tmp_path: Path) -> None:
    server = ApiServer(address=None)
    load(server, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}})
    auditing = AuditingTransport(server, lambda _: level)
    await recorded_day(InMemoryClient(server), Client(auditing), tmp_path / "recorded")
    (tmp_path / "audit.log").write_bytes(lines(auditing.log))
    _, problems = import_audit([tmp_path / "audit.log"], tmp_path / "imported")
    assert [problem for problem in problems if "level Request" not in problem] == []
    assert rows_of(tmp_path / "imported") == rows_of(tmp_path / "recorded")


@pytest.mark.apiserver
@pytest.mark.parametrize("level", ["Request", "RequestResponse"])
async def test_a_recording_and_the_audit_log_of_kube_apiserver_agree(level: str, tmp_path: Path) -> None:
    if not os.environ.get(ASSETS):
        pytest.skip(f"{ASSETS} is not set: it names a folder with etcd and kube-apiserver")
    log, policy = tmp_path / "audit.log", tmp_path / "policy.yaml"
    resources = [{"group": "", "resources": ["nodes", "pods", "pods/*"]}]
    rules = [{"level": level, "verbs": WRITES, "resources": resources}, {"level": "None"}]
    kind = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy"}
    policy.write_text(json.dumps({**kind, "omitStages": ["RequestReceived"], "rules": rules}))
    flags = (f"--audit-policy-file={policy}", f"--audit-log-path={log}")
    async with ControlPlane(api_server_flags=flags) as plane:
        access = load_kubeconfig(plane.admin)
        async with HttpClient(access) as watching, HttpClient(access) as writing:
            await recorded_day(watching, writing, tmp_path / "recorded")
    _, problems = import_audit([log], tmp_path / "imported")
    assert [problem for problem in problems if "level Request" not in problem] == []
    assert rows_of(tmp_path / "imported") == rows_of(tmp_path / "recorded")
