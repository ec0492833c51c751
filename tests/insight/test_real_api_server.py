"""The commands on a real kube-apiserver, with the rights of the insight ClusterRole only.

The stock kube-scheduler has placed the pods, if its program is next to that of kube-apiserver; otherwise Bayplan has.
The same objects, on the embedded API server and from files, have the same answers.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import threading
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from bayplan_documents import document
from click.testing import CliRunner
from tests.support.control_plane import ASSETS, ControlPlane
from tests.support.waiting import until

from bayplan.answers.snapshots.rights import EFFECTS, REQUIRED, ROLE, cluster_role
from bayplan.client import ApiError, HttpClient, load_kubeconfig
from bayplan.core.api.kinds import (
    CONFIG_MAP,
    DEPLOYMENT,
    JOB,
    NODE,
    POD,
    POD_DISRUPTION_BUDGET,
    PRIORITY_CLASS,
    REPLICA_SET,
    SECRET,
)
from bayplan.faces.cli import main
from bayplan.insight import Snapshot
from bayplan.testing.in_memory import load
from bayplan_devcluster.apiserver import ApiServer

# A cancelled request over TLS closes its connection later, possibly after the test's event loop has ended.
pytestmark = [pytest.mark.apiserver, pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]

NOT_READY = "node.kubernetes.io/not-ready"
GPU = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
LABELS = {"app": "web"}
HASH = {"pod-template-hash": "1"}
needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on the PATH")


# The cluster


def node(name, cpu, *taints):
    room = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    status = {"allocatable": room, "capacity": room, "conditions": [{"type": "Ready", "status": "True"}]}
    return document("Node", name, namespace="", spec={"taints": taints}, status=status)


def pod(name, cpu, owner=None, labels=(), **spec):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    made = document("Pod", name, spec={"containers": [container], "automountServiceAccountToken": False, **spec})
    made["metadata"]["labels"] = dict(labels)
    if owner is not None:
        made["metadata"]["ownerReferences"] = [reference(owner)]
    return made


def reference(owner):
    api_version = "batch/v1" if owner.metadata.name == "train" else "apps/v1"
    kind = {"train": "Job", "web": "Deployment"}.get(owner.metadata.name, "ReplicaSet")
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
    }


async def fill(client):
    """Create nodes, and a Deployment and a Job with their pods, one of which needs more than any node has.

    There are no controllers on this control plane: the pods are made here.
    """

    async def make(kind, made):
        return await client.create(kind, made, namespace=made["metadata"].get("namespace", ""))

    await make(PRIORITY_CLASS, document("PriorityClass", "high", "scheduling.k8s.io/v1", namespace="", value=100))
    for made in (node("small", "1"), node("large", "4"), node("special", "8", GPU)):
        created = await make(NODE, made)
        created.spec.taints = [taint for taint in created.spec.taints or () if taint.key != NOT_READY]
        await client.update(NODE, created)
    template = {"metadata": {"labels": LABELS}, "spec": pod("any", "1500m")["spec"]}
    workload = {"replicas": 3, "selector": {"matchLabels": LABELS}, "template": template}
    deployment = await make(DEPLOYMENT, document("Deployment", "web", "apps/v1", spec=workload))
    replicas = document("ReplicaSet", "web-1", "apps/v1", spec=workload)
    replicas["metadata"]["ownerReferences"] = [reference(deployment)]
    replica_set = await make(REPLICA_SET, replicas)
    job = {"parallelism": 2, "template": {"spec": pod("any", "1", restartPolicy="Never")["spec"]}}
    train = await make(JOB, document("Job", "train", "batch/v1", spec=job))
    budget = {"minAvailable": 2, "selector": {"matchLabels": LABELS}}
    await make(POD_DISRUPTION_BUDGET, document("PodDisruptionBudget", "web", "policy/v1", spec=budget))
    await make(SECRET, document("Secret", "password"))
    for number, cpu in enumerate(("1500m", "1500m", "9")):
        await make(POD, pod(f"web-1-{number}", cpu, replica_set, LABELS | HASH))
    for number in range(2):
        await make(POD, pod(f"train-{number}", "1", train, nodeSelector={"disk": "nvme"}))


def decided(pod):
    return pod.spec.nodeName or any(each.type == "PodScheduled" for each in pod.status.conditions or ())


async def scheduler(plane):
    """The command of the scheduler."""
    program = Path(os.environ[ASSETS]) / "kube-scheduler"
    flags = ("--leader-elect=false", "--secure-port=0")
    if program.exists():
        kubeconfig = plane.user("system:kube-scheduler")
        access = [f"--{name}kubeconfig={kubeconfig}" for name in ("", "authentication-", "authorization-")]
        return program, *access, *flags
    kubeconfig = await plane.service_account("scheduler")
    own = ("--kubeconfig", kubeconfig, "--scheduler-name", "default-scheduler")
    return sys.executable, "-m", "bayplan", "run", *own, *flags


async def schedule(plane, client):
    """Run a scheduler until it has decided about every pod."""
    command, log = await scheduler(plane), plane.folder / "scheduler.log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(*command, stdout=output, stderr=output)
    try:

        async def all_decided():
            assert process.returncode is None, log.read_text()
            return all(map(decided, (await client.list(POD)).items))

        await until(all_decided, within=60, step=0.1)
    finally:
        with suppress(ProcessLookupError):  # it has ended
            process.kill()
        await process.wait()


@dataclass
class Cluster:
    """Kubeconfig files: of the role's account, of one without rights, and of the administrator."""

    plane: ControlPlane
    reader: Path
    unprivileged: Path
    saved: Path
    """A snapshot of it."""
    dump: Path
    """What `kubectl get -o json` prints; empty without kubectl."""


@asynccontextmanager
async def running_cluster():
    async with ControlPlane() as plane:
        async with HttpClient(load_kubeconfig(plane.admin)) as client:
            await fill(client)
            await schedule(plane, client)
            await client.create(POD, pod("new", "2", priorityClassName="high"), namespace="default")
        reader = await plane.service_account("reader", cluster_roles=(), rules=cluster_role()["rules"])
        unprivileged = await plane.service_account("unprivileged", cluster_roles=())
        yield Cluster(plane, reader, unprivileged, plane.folder / "saved", plane.folder / "dump.json")


@pytest.fixture(scope="module")
def cluster():
    if not os.environ.get(ASSETS):
        pytest.skip(f"{ASSETS} is not set: it names a folder with etcd and kube-apiserver")
    with asyncio.Runner() as runner:
        context = running_cluster()
        try:
            found = runner.run(context.__aenter__())
            asked("snapshot", found.saved, "--kubeconfig", found.reader)
            if shutil.which("kubectl"):
                found.dump.write_text(kubectl(found, "get", DUMPED, "--all-namespaces", "-o", "json"))
            yield found
        finally:
            runner.run(context.__aexit__(None, None, None))


DUMPED = "nodes,pods,deployments,replicasets,jobs,poddisruptionbudgets,priorityclasses"


def kubectl(cluster, *arguments):
    """What kubectl prints, with the rights of the role. It finds its plugin next to Python."""
    environment = os.environ | {"KUBECONFIG": str(cluster.reader)}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        ["kubectl", *arguments], env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def asked(*arguments, status=0):
    result = CliRunner().invoke(main, [*map(str, arguments)])
    assert result.exit_code == status, result.output
    return result


def answer(*arguments, status=0):
    result = asked(*arguments, "-o", "json", status=status)
    assert result.stderr == ""
    return json.loads(result.stdout)


# The commands

PENDING = {"default/web-1-2", "default/new", "default/train-0", "default/train-1"}
COMMANDS = {
    "explain new": lambda found: (
        (found["outcome"], found["node"], found["victims"]) == ("preempts", "large", ["default/web-1-0"])
    ),
    "explain pod/web-1-2": lambda found: found["message"].startswith("0/3 nodes are available:"),
    "explain web-1-0": lambda found: (found["bound"], found["node"], found["now"]) == (True, "large", "large"),
    "explain --all-pending": lambda found: {pod for cause in found["causes"] for pod in cause["pods"]} == PENDING,
    "explain deployment/web": lambda found: [cause["pods"] for cause in found["causes"]] == [["default/web-1-2"]],
    "explain job/train": lambda found: [cause["count"] for cause in found["causes"]] == [2],
    "why-not new small": lambda found: (
        [each["text"] for each in found["blockers"]] == ["Insufficient cpu: the pod requests 2, the whole node has 1"]
    ),
    "fit -f one.json": lambda found: [each["node"] for each in found["pods"]] == ["small"],
    "fit -f nine.json": lambda found: not found["fits"],
    "capacity -f one.json": lambda found: found["fits"] == 1,
    "drain special": lambda found: found["drains"],
    "drain large --force": lambda found: (
        {each["pod"]: each["outcome"] for each in found["pods"]}["default/web-1-1"] == "pending"
    ),
    "shrink": lambda found: {"small", "special"} == set(found["removable"]),
    "what-if --remove-node large": lambda found: "default/web-1-1" in {each["pod"] for each in found["pods"]},
    "what-if --add-nodes 2xlike:large": lambda found: (
        {each["pod"]: each["after"] for each in found["pods"]}["default/web-1-0"] == "placed"
    ),
    "what-if --scale deployment/web=2": lambda found: found["steps"] == ["scale deployment default/web from 3 to 2"],
    "balance": lambda found: [each["name"] for each in found["nodes"]] == ["large", "small", "special"],
    "diff {saved}": lambda found: (found["nodes"], found["pods"]) == ([], []),
}
"""By command: whether its answer is right."""
STATUS = {"fit -f nine.json": 1, "drain large --force": 1}


@pytest.fixture(scope="module")
def embedded(cluster):
    """The kubeconfig of an embedded API server with the objects of the cluster, and the rights of the role."""
    saved = Snapshot.load(cluster.saved)
    kinds = (NODE, POD, DEPLOYMENT, REPLICA_SET, JOB, POD_DISRUPTION_BUDGET)
    objects = [saved.document(kind, key) for kind in kinds for key in saved.of_kind(kind)]
    server = ApiServer(alpha=True, rbac=True, tokens={"token": "reader"})
    load(server, saved.document(PRIORITY_CLASS, "high"), *objects)
    rbac = "rbac.authorization.k8s.io"
    binding = document("ClusterRoleBinding", ROLE, f"{rbac}/v1", namespace="")
    ref = {"kind": "ClusterRole", "name": ROLE, "apiGroup": rbac}
    server.load([cluster_role(), binding | {"subjects": [{"kind": "User", "name": "reader"}], "roleRef": ref}])
    path = cluster.plane.folder / "embedded.kubeconfig"
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(server.start(), loop).result()
        path.write_text(server.kubeconfig())
        yield path
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def comparable(found):
    """An answer without the names of the sides of a diff, and without whole objects: servers add fields to them."""
    if isinstance(found, list):
        return [comparable(each) for each in found]
    if not isinstance(found, dict):
        return found
    return {name: comparable(each) for name, each in found.items() if name not in {"a", "b", "apply"}}


@pytest.mark.parametrize("command", COMMANDS)
def test_command_has_the_same_answer_everywhere(cluster, embedded, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    for name, cpu in (("one", "1"), ("nine", "9")):
        (tmp_path / f"{name}.json").write_text(json.dumps(pod(name, cpu)))
    arguments, status = command.format(saved=cluster.saved).split(), STATUS.get(command, 0)

    found = answer(*arguments, "--kubeconfig", cluster.reader, status=status)
    assert COMMANDS[command](found), found
    sources = [("--kubeconfig", embedded), ("--from", cluster.saved)]
    if cluster.dump.exists():
        sources.append(("--from", cluster.dump))
    for source in sources:
        there = answer(*arguments, *source, status=status)
        assert comparable(there) == comparable(found), source


@needs_kubectl
def test_kubectl_plugin_has_the_same_answer(cluster):
    expected = answer("explain", "pod/new", "--kubeconfig", cluster.reader)
    assert json.loads(kubectl(cluster, "bayplan", "explain", "pod/new", "-o", "json")) == expected


def test_answers_agree_with_the_scheduler(cluster):
    saved = Snapshot.load(cluster.saved)
    for key in saved.of_kind(POD):
        if key != "default/new":
            stored, found = saved.document(POD, key), answer("explain", Path(key).name, "--kubeconfig", cluster.reader)
            (condition,) = (each for each in stored["status"]["conditions"] if each["type"] == "PodScheduled")
            node_name = stored["spec"].get("nodeName")
            assert found["now"] == node_name
            assert node_name or found["message"] == condition["message"]


def test_snapshot_has_neither_secrets_nor_gaps(cluster):
    saved = Snapshot.load(cluster.saved)

    assert set(saved.of_kind(NODE)) == {"small", "large", "special"}
    assert set(saved.of_kind(POD)) == PENDING | {"default/web-1-0", "default/web-1-1"}
    assert not saved.of_kind(SECRET)
    assert not saved.of_kind(CONFIG_MAP)
    assert not saved.gaps


# Rights


async def test_role_allows_nothing_else(cluster):
    async with HttpClient(load_kubeconfig(cluster.reader)) as client:
        for attempt in (client.list(SECRET), client.delete(POD, "new", namespace="default")):
            with pytest.raises(ApiError) as error:
                await attempt
            assert error.value.status == 403


async def account_without(cluster, *kinds):
    """The kubeconfig of an account with the role's rights, but for these kinds."""
    gone = {(kind.group, kind.plural) for kind in kinds}
    rules = []
    for rule in cluster_role()["rules"]:
        (group,) = rule["apiGroups"]
        resources = [plural for plural in rule["resources"] if (group, plural) not in gone]
        rules += [rule | {"resources": resources}] if resources else []
    name = f"without-{len(kinds)}-{kinds[0].plural}"
    return await cluster.plane.service_account(name, cluster_roles=(), rules=rules)


@pytest.mark.parametrize("kind", REQUIRED, ids=lambda kind: kind.plural)
def test_missing_right_to_list_nodes_or_pods_is_one_message(cluster, kind):
    kubeconfig = asyncio.run(account_without(cluster, kind))
    result = asked("balance", "--kubeconfig", kubeconfig, status=2)

    (line,) = result.stderr.splitlines()
    assert f"no right to list {kind.plural}; `bayplan manifests --insight` prints the ClusterRole" in line


def test_every_other_missing_right_is_a_warning_that_names_it(cluster):
    kubeconfig = asyncio.run(account_without(cluster, *EFFECTS))
    result = asked("explain", "new", "--kubeconfig", kubeconfig)

    served = [kind for kind in EFFECTS if kind.model]
    expected = {f"warning: {kind.resource}: no right to list {kind.resource}: {EFFECTS[kind]}" for kind in served}
    assert set(result.stderr.splitlines()) == expected


def test_account_without_rights_gets_one_message(cluster):
    result = asked("explain", "new", "--kubeconfig", cluster.unprivileged, status=2)

    (line,) = result.stderr.splitlines()
    assert "no right to list nodes; `bayplan manifests --insight` prints the ClusterRole" in line
