"""What the manifests let a scheduler do is what it does: enough to work, and nothing of their own that is not used.

One scheduler works under the account, the rights and the token that the manifests give it, on a cluster that enforces
them, and all that it asks for is written down.
"""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

import aiohttp
import pytest
import yaml
from click.testing import CliRunner
from clusters import ADMIN_TOKEN, Embedded, _alive
from running import FAST, bayplan_run
from workloads import NAME, pod, pods

from bayplan.api.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, LEASE, PRIORITY_CLASS, ROLE, SERVICE_ACCOUNT
from bayplan.cli.manifests import manifests
from bayplan.client import HttpClient
from bayplan.config import default_profile, parse_configuration
from bayplan.devcluster.apiserver import ADMIN, ApiServer, Fault
from bayplan.devcluster.apiserver.authorization.attributes import Attributes
from bayplan.devcluster.apiserver.authorization.rules import Rule
from bayplan.devcluster.apiserver.authorization.users import service_account_name
from bayplan.devcluster.controllers.manager import WORKLOADS
from bayplan.service.leader_election import LeaderElection, LeaderElectionSettings
from bayplan.service.scheduler import Scheduler
from bayplan.service.serving.endpoints import Endpoints
from bayplan.service.serving.options import ServingOptions

ACCOUNT = service_account_name("kube-system", NAME)
DOCUMENTS = list(yaml.safe_load_all(CliRunner().invoke(manifests, ["--image", "i"], catch_exceptions=False).stdout))

SHIPS_NONETHELESS = {
    "system:volume-scheduler": "pods with volumes need it, and this run has none",
    "system:auth-delegator": (
        "its rules are in system:kube-scheduler as well; with both, who tightens that role keeps the endpoints"
    ),
    "extension-apiserver-authentication-reader": (
        "one ConfigMap with public certificates, which schedulers read to know whose client certificates to believe"
    ),
}
"""Roles that the manifests bind although no request of this run needs them, and why."""

NEEDED = [
    "create events.events.k8s.io",
    "create leases.coordination.k8s.io",
    "create pods/binding",
    "create subjectaccessreviews.authorization.k8s.io",
    "create tokenreviews.authentication.k8s.io",
    "delete pods",
    "get leases.coordination.k8s.io",
    "get pods",
    "list namespaces",
    "list nodes",
    "list poddisruptionbudgets.policy",
    "list pods",
    "list replicasets.apps",
    "list replicationcontrollers",
    "list services",
    "list statefulsets.apps",
    "patch events.events.k8s.io",
    "patch pods/status",
    "update leases.coordination.k8s.io",
    "watch namespaces",
    "watch nodes",
    "watch poddisruptionbudgets.policy",
    "watch pods",
    "watch replicasets.apps",
    "watch replicationcontrollers",
    "watch services",
    "watch statefulsets.apps",
]
"""Rights without which a scheduler does not do its work, at the least. Plugins may need more."""


def right(asked: Attributes) -> str:
    """A request as the right to it."""
    return f"{asked.verb} {asked.combined}.{asked.group}" if asked.group else f"{asked.verb} {asked.combined}"


@dataclass
class Record:
    """What was asked for under the account, what was refused of it, and what came of it."""

    asked: set[Attributes] = field(default_factory=set)
    refused: set[Attributes] = field(default_factory=set)
    bound: dict[str, str] = field(default_factory=dict)
    reasons: set[str] = field(default_factory=set)
    metrics: list[int] = field(default_factory=list)
    """What nobody, a reader of metrics, and somebody else are told at /metrics."""
    holder: str | None = None
    """Who holds the lease in the end."""
    still_allowed: dict[str, list[Attributes]] = field(default_factory=dict)
    """What may be asked for although the right to it was taken away."""
    needs: dict[str, set[str]] = field(default_factory=dict)
    """What would be refused without a role, by the role."""


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    """Of one run for all tests."""
    with asyncio.Runner() as runner:
        return runner.run(asyncio.wait_for(run_and_record(tmp_path_factory.mktemp("rights")), 60))


async def run_and_record(folder) -> Record:
    record = Record()

    def listen(user, asked, verdict):
        if user.name == ACCOUNT:
            record.asked.add(asked)
            if not verdict.allowed:
                record.refused.add(asked)

    async with ApiServer(tokens={ADMIN_TOKEN: ADMIN}, rbac=True) as server:
        server.load(DOCUMENTS)
        server.access.audit.append(listen)
        cluster = Embedded(server, folder)
        async with cluster.client, _alive(cluster, WORKLOADS):
            token = await token_of(cluster, NAME, "kube-system")
            cluster.scheduler_kubeconfig = cluster._kubeconfig(folder / "account.yaml", token)
            await work(cluster, server, record)
            await take_away_each_right(cluster.client, record)
    return record


async def token_of(cluster, name, namespace):
    """A token of a service account."""
    path = SERVICE_ACCOUNT.path(namespace, name, "token")
    return json.loads(await cluster.client.request("POST", path, body=b"{}"))["status"]["token"]


async def monitoring(cluster):
    """The tokens of two accounts: of one that may read metrics, and of one that may not."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:monitoring"}
    binding = {"metadata": {"name": "prometheus"}, "roleRef": role, "subjects": []}
    for name in ("prometheus", "somebody"):
        await cluster.client.create(SERVICE_ACCOUNT, {"metadata": {"name": name, "namespace": "default"}})
    binding["subjects"].append({"kind": "ServiceAccount", "name": "prometheus", "namespace": "default"})
    await cluster.client.create(CLUSTER_ROLE_BINDING, binding)
    return [await token_of(cluster, name, "default") for name in ("prometheus", "somebody")]


async def status_of(port, path, token=""):
    """What an endpoint answers."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = f"https://127.0.0.1:{port}{path}"
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers, ssl=False) as response:
        return response.status


async def work(cluster, server, record):
    """Pods that fit, one that never will, and one that others make room for; and somebody reads metrics.

    As soon as something is refused there is nothing more to wait for: the tests say what it was.
    """
    witness = cluster.witness

    async def until(condition):
        await witness.until(lambda: record.refused or condition())

    await cluster.client.create(PRIORITY_CLASS, {"metadata": {"name": "high"}, "value": 100})
    await cluster.add_nodes(1, cpu="1")
    server.faults.add(Fault(verb="create", resource="pods", subresource="binding", answer=500, times=1))
    async with HttpClient(cluster.access) as client:
        settings = election_settings()
        async with LeaderElection(partial(HttpClient, cluster.access), settings) as election:
            scheduler = Scheduler(
                client, lambda handle: {NAME: default_profile(NAME, handle)}, FAST, leadership=election
            )
            stop = asyncio.Event()
            connect = partial(HttpClient, cluster.access)
            with Endpoints(ServingOptions(port=0, bind_address="127.0.0.1"), scheduler, connect) as endpoints:
                for token in ("", *await monitoring(cluster)):
                    record.metrics.append(await status_of(endpoints.port, "/metrics", token))
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(scheduler.run(stop))
                await cluster.create(*pods("low", 4, cpu="250m"), pod("huge", cpu="30"))
                names = [f"default/low-{number:04d}" for number in range(4)]
                await until(lambda: all(witness.node_of(name) for name in names))
                await cluster.create(pod("vip", cpu="800m", priorityClassName="high"))
                await until(lambda: witness.node_of("default/vip"))
                await until(lambda: any(event.get("series") for event in witness.events))
                await until(lambda: "update leases.coordination.k8s.io" in map(right, record.asked))
                stop.set()
    record.bound = {key: witness.node_of(key) for key in witness.pods if key.startswith("default/")}
    record.reasons = {event["reason"] for event in witness.events}
    if not record.refused:
        lease = await cluster.client.get(LEASE, settings.name, settings.namespace)
        record.holder = lease.spec.holderIdentity or ""


def election_settings() -> LeaderElectionSettings:
    """As the manifests' configuration has it, but that it renews without delay."""
    (text,) = (each["data"]["scheduler.yaml"] for each in DOCUMENTS if each["kind"] == "ConfigMap")
    election = parse_configuration(yaml.safe_load(text)).leaderElection
    return LeaderElectionSettings(name=election.resourceName, namespace=election.resourceNamespace, retry_period=0.05)


async def take_away_each_right(client, record):
    """One after the other, from all roles, and each role as a whole; and ask the server what may be done then."""
    roles = {
        (kind, name): json.loads(await client.request("GET", kind.path("kube-system", name)))
        for kind, name in bound_roles()
    }
    for asked in sorted(record.asked - record.refused, key=right):
        if right(asked) in record.still_allowed or asked.path:
            continue
        for (kind, name), role in roles.items():
            await write_rules(client, kind, name, without(role["rules"], asked))
        same = [each for each in record.asked if right(each) == right(asked)]
        record.still_allowed[right(asked)] = [each for each in same if await allowed(client, each)]
        for (kind, name), role in roles.items():
            await write_rules(client, kind, name, role["rules"])
    for (kind, name), role in roles.items():
        await write_rules(client, kind, name, [])
        needed = [each for each in record.asked - record.refused if not await allowed(client, each)]
        record.needs[name] = set(map(right, needed))
        await write_rules(client, kind, name, role["rules"])


def bound_roles():
    """The roles that the manifests bind."""
    refs = [each["roleRef"] for each in DOCUMENTS if "roleRef" in each]
    return [(CLUSTER_ROLE if ref["kind"] == "ClusterRole" else ROLE, ref["name"]) for ref in refs]


def without(rules, asked: Attributes):
    """The rules, broken down, without what allows a request of this verb and resource, under whatever name."""
    kept = [single for rule in rules for single in Rule.of(rule).broken_down() if not allows(single, asked)]
    return [single.as_path_rule() if single.urls else single.as_resource_rule() for single in kept]


def allows(single: Rule, asked: Attributes) -> bool:
    name = single.names[0] if single.names else asked.name
    return single.allows(Attributes(asked.verb, asked.group, asked.resource, asked.subresource, asked.namespace, name))


async def write_rules(client, kind, name, rules: Iterable):
    await client.patch(kind, name, {"rules": list(rules)}, "kube-system" if kind is ROLE else None)


async def allowed(client, asked: Attributes) -> bool:
    if asked.path:
        return True
    fields = ("verb", "group", "resource", "subresource", "namespace", "name")
    groups = ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"]
    attributes = {name: getattr(asked, name) for name in fields}
    body = {"spec": {"user": ACCOUNT, "groups": groups, "resourceAttributes": attributes}}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    return json.loads(await client.request("POST", path, body=json.dumps(body).encode()))["status"]["allowed"]


def test_the_scheduler_does_its_work(record):
    assert record.bound == {"default/huge": "", "default/vip": "node-0"}, "all others made room"
    assert {"Scheduled", "FailedScheduling", "Preempted", "LeaderElection"} <= record.reasons
    assert record.metrics == [403, 200, 403]
    assert record.holder == "", "it gave the lease back"


def test_nothing_was_refused(record):
    refused = sorted(set(map(right, record.refused)))
    assert refused == [], f"the manifests give no right to {', '.join(refused)}"


@pytest.mark.parametrize("needed", NEEDED)
def test_each_right_is_used_and_lies_in_the_roles_alone(record, needed):
    assert needed in set(map(right, record.asked)), f"the right to {needed} was not used: is it needed?"
    assert record.still_allowed[needed] == [], f"{needed} is allowed by something that the manifests do not bind"


def test_no_right_is_given_by_anything_else(record):
    assert {name: left for name, left in record.still_allowed.items() if left} == {}


@pytest.mark.parametrize("role", [name for _, name in bound_roles()])
def test_each_role_is_needed_or_ships_for_a_reason(record, role):
    assert record.needs[role] or SHIPS_NONETHELESS.get(role), f"nothing needs {role}: do not bind it"


@pytest.mark.parametrize(
    ("role", "single"),
    [
        pytest.param(role["metadata"]["name"], single, id=f"{role['metadata']['name']}: {' '.join(single.verbs)}")
        for role in DOCUMENTS
        if role["kind"] == "Role"
        for rule in role["rules"]
        for single in Rule.of(rule).broken_down()
    ],
)
def test_each_rule_of_the_manifests_own_roles_is_used(record, role, single):
    assert any(single.allows(asked) for asked in record.asked), f"{role} grants {single}, and nobody asks for it"


async def test_bayplan_run_works_as_the_manifests_start_it(tmp_path):
    """With its arguments, its files and its token, in a process of its own."""
    policy = tmp_path / "away.py"
    policy.write_text(
        "from bayplan import filter_plugin\n\n\n@filter_plugin\ndef away(pod, node):\n"
        '    return "not here" if node.name == "node-0" else None\n'
    )
    command = ["--image", "i", "--plugin", str(policy)]
    documents = list(yaml.safe_load_all(CliRunner().invoke(manifests, command, catch_exceptions=False).stdout))
    (deployment,) = (each for each in documents if each["kind"] == "Deployment")
    (config_map,) = (each for each in documents if each["kind"] == "ConfigMap")
    files = tmp_path / "files"
    files.mkdir()
    for name, text in config_map["data"].items():
        (files / name).write_text(text)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    arguments = [argument.replace("/etc/bayplan", str(files)) for argument in container["args"][1:]]
    refused = []
    async with ApiServer(tokens={ADMIN_TOKEN: ADMIN}, rbac=True) as server:
        server.load(documents)
        server.access.audit.append(
            lambda user, asked, verdict: refused.append(asked) if not verdict.allowed else None,
        )
        cluster = Embedded(server, tmp_path)
        async with cluster.client, _alive(cluster, WORKLOADS):
            await cluster.add_nodes(2)
            kubeconfig = cluster._kubeconfig(tmp_path / "account.yaml", await token_of(cluster, NAME, "kube-system"))
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            serving = (f"--secure-port={port}", "--bind-address=127.0.0.1")
            async with bayplan_run(*arguments, "--kubeconfig", kubeconfig, *serving) as running:
                await cluster.create(*pods("web", 4))
                await cluster.witness.until(
                    lambda: all(cluster.witness.node_of(f"default/web-{number:04d}") for number in range(4))
                )
                lease = await cluster.client.get(LEASE, NAME, "kube-system")
                probed = {
                    name: await status_of(port, container[f"{name}Probe"]["httpGet"]["path"])
                    for name in ("startup", "liveness", "readiness")
                }
                running.signal(signal.SIGTERM)
                assert await running.ended() == 0, running.lines
    assert lease.spec.holderIdentity
    assert probed == {"startup": 200, "liveness": 200, "readiness": 200}
    assert {cluster.witness.node_of(f"default/web-{number:04d}") for number in range(4)} == {"node-1"}
    assert list(map(right, refused)) == []
