"""The permissions in the manifests are sufficient, and each is needed: without it, the log names the missing one.

All end-to-end tests run the scheduler with these permissions (see clusters.py). These tests revoke them one by one.
"""

import asyncio
import json
import logging
import re
import signal
import socket
from collections.abc import Callable
from contextlib import asynccontextmanager

import pytest
import yaml
from click.testing import CliRunner
from clusters import ADMIN_TOKEN, Embedded, check_permissions, embedded, unchecked
from permissions import FILES, GRANTED, READ, READING, TASKS, UNUSED, bound_roles, permission_of, revoke
from running import bayplan_run
from scheduler_tasks import allow_to_read_metrics, scheduler, serving, status_of
from shipped import ACCOUNT, NAMESPACE, manifests
from tests.support.waiting import PATIENCE, until
from workloads import NAME, pods

from bayplan.client import HttpClient, load_kubeconfig
from bayplan.core.api.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, LEASE, ROLE, ROLE_BINDING
from bayplan.faces.cli.manifests import manifests as manifests_command
from bayplan_devcluster.apiserver.authorization.bootstrap_policy import bootstrap_policy
from bayplan_devcluster.apiserver.authorization.rules import Rule

NEEDED = [(task, permission) for task, (_, permissions) in TASKS.items() for permission in permissions]
SINGLE = [(task, permission) for task, permission in NEEDED if task != READING]
"""Those that are revoked one by one. Those to list and to watch are revoked together, and reported in one message."""
BINDINGS = [
    manifest for file in FILES for manifest in manifests(file) if manifest.kind in {CLUSTER_ROLE_BINDING, ROLE_BINDING}
]
LACKS = f'User "{ACCOUNT}" cannot'
"""The beginning of the server's message for denied requests."""


class Trial(logging.Handler):
    """Runs a task of a scheduler, and records its requests, the denied ones, and its log."""

    def __init__(self, cluster: Embedded) -> None:
        super().__init__(logging.WARNING)
        self._cluster = cluster
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self.lines: list[str] = []
        cluster.server.access.audit.append(lambda *_: self._changed.set())

    @property
    def denied(self) -> list[str]:
        """The permissions that were missing."""
        return sorted(
            permission for permission, single in GRANTED.items() if any(map(single.allows, self._cluster.denied))
        )

    @property
    def used(self) -> set[str]:
        """The permissions that were used."""
        return {
            permission for permission, single in GRANTED.items() if any(map(single.allows, self._cluster.requested))
        }

    def emit(self, record: logging.LogRecord) -> None:
        """Records a line. It may come from another thread."""
        self.lines.append(record.getMessage())
        self._loop.call_soon_threadsafe(self._changed.set)

    def logged(self, text: str) -> bool:
        return any(text in line for line in self.lines)

    async def run(self, task: str) -> None:
        """Runs a task until all its permissions were used, or a request was denied and the log shows it."""
        act, permissions = TASKS[task]

        async def done() -> None:
            try:
                await self.until(
                    lambda: self.logged(LACKS) if self._cluster.denied else self.used.issuperset(permissions)
                )
            except TimeoutError:
                never = ", ".join(sorted(set(permissions) - self.used))
                raise AssertionError(f"{task}: {never} was not requested, and nothing was denied") from None

        await act(self._cluster, done)

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def trial(folder):
    async with unchecked(folder, files=FILES[1:], alpha=True) as cluster:
        attempt = Trial(cluster)
        log = logging.getLogger("bayplan")
        log.addHandler(attempt)
        try:
            yield cluster, attempt
        finally:
            log.removeHandler(attempt)


def test_every_granted_permission_is_needed_or_listed_as_unused():
    needed = {permission for _, permission in NEEDED}
    unused = [permission for permissions in UNUSED.values() for permission in permissions]
    assert len(unused) == len(set(unused))
    assert needed.isdisjoint(unused)
    assert needed - GRANTED.keys() == set(), "no bound role grants them"
    assert GRANTED.keys() - needed == set(unused), "add them to TASKS or UNUSED"


@pytest.mark.parametrize("task", TASKS)
async def test_task_uses_its_permissions(tmp_path, task):
    async with trial(tmp_path) as (cluster, attempt):
        await attempt.run(task)
        check_permissions(cluster)
        assert attempt.used <= {permission for _, permission in NEEDED}
        ungranted = [each for each in cluster.requested if not any(single.allows(each) for single in GRANTED.values())]
        assert ungranted == [], "requests without a permission in GRANTED"


def missing_of(report):
    return re.findall(r"^  (\S+): no ([^;]*);", report, re.MULTILINE)


@pytest.mark.parametrize("verb", ["list", "watch"])
async def test_missing_permissions_to_read_are_logged(tmp_path, verb):
    expected = sorted(f"{verb} {resource}" for resource in READ)
    assert GRANTED.keys() >= set(expected), "no bound role grants them"
    async with trial(tmp_path) as (cluster, attempt):
        await revoke(cluster, *expected)
        async with scheduler(cluster):
            await attempt.until(lambda: attempt.logged("permissions are missing"))
            if verb == "watch":  # other kinds are listed once nodes are
                await attempt.until(lambda: attempt.denied == expected)
    assert set(attempt.denied) <= set(expected)
    (report,) = (line for line in attempt.lines if "permissions are missing" in line)
    assert missing_of(report) == [(resource, verb) for resource in sorted(READ)]


@pytest.mark.parametrize(("task", "permission"), SINGLE, ids=[permission for _, permission in SINGLE])
async def test_missing_permission_is_logged(tmp_path, task, permission):
    assert permission in GRANTED, "no bound role grants it"
    (verb,), (group,), (resource,) = (
        GRANTED[permission].verbs,
        GRANTED[permission].groups,
        GRANTED[permission].resources,
    )
    async with trial(tmp_path) as (cluster, attempt):
        await revoke(cluster, permission)
        await attempt.run(task)
        assert attempt.denied == [permission]
        assert attempt.logged(f'{LACKS} {verb} resource "{resource}" in API group "{group}"')


async def apply_grant(cluster, report):
    """Creates the objects that a report of missing permissions ends with."""
    role, binding = yaml.safe_load_all(report.partition("kubectl apply -f this grants them:\n")[2])
    await cluster.client.create(CLUSTER_ROLE, role)
    await cluster.client.create(CLUSTER_ROLE_BINDING, binding)


REVOKED = ("list nodes", "watch services", "list csinodes.storage.k8s.io", "watch csinodes.storage.k8s.io")
MISSING = [("csinodes.storage.k8s.io", "list or watch"), ("nodes", "list"), ("services", "watch")]


async def test_bayplan_run_reports_all_missing_permissions_and_starts_once_they_are_granted(tmp_path):
    async with unchecked(tmp_path) as cluster:
        await revoke(cluster, *REVOKED)
        arguments = ("--kubeconfig", cluster.scheduler_kubeconfig)
        async with bayplan_run(*arguments) as refused:
            assert await refused.ended() == 2
        report = "\n".join(refused.problems)
        assert report.startswith("bayplan run: permissions are missing for 3 of 18 kinds (403 Forbidden: nodes is")
        assert missing_of(report) == MISSING
        await apply_grant(cluster, report)
        async with bayplan_run(*arguments) as running:
            await until(lambda: running.logged("ready: "))
            assert running.problems == []


async def test_all_missing_permissions_are_logged_at_once_with_manifests_that_grant_them(tmp_path):
    async with trial(tmp_path) as (cluster, attempt):
        await revoke(cluster, *REVOKED)
        async with scheduler(cluster) as running:
            await attempt.until(lambda: attempt.logged("permissions are missing"))
            (report,) = (line for line in attempt.lines if "permissions are missing" in line)
            assert [line for line in attempt.lines if "retrying" in line] == []
            assert missing_of(report) == MISSING
            await apply_grant(cluster, report)
            await running.synced.wait()


@pytest.mark.parametrize("binding", BINDINGS, ids=[binding.document["metadata"]["name"] for binding in BINDINGS])
async def test_every_binding_is_needed(tmp_path, binding):
    reference = binding.document["roleRef"]
    roles = bound_roles()
    given = {
        permission_of(single) for (_, name), rules in roles.items() if name == reference["name"] for single in rules
    }
    others = {
        permission_of(single) for (_, name), rules in roles.items() if name != reference["name"] for single in rules
    }
    task = next(task for task, permission in NEEDED if permission in given - others)
    async with trial(tmp_path) as (cluster, attempt):
        metadata = binding.document["metadata"]
        await cluster.client.delete(binding.kind, metadata["name"], metadata.get("namespace"))
        await attempt.run(task)
        assert attempt.denied


@pytest.mark.apiserver
async def test_default_roles_are_those_of_a_real_cluster(control_plane):
    plane, *_ = control_plane
    real = {}
    async with HttpClient(load_kubeconfig(plane.admin)) as client:
        for kind, namespace in ((CLUSTER_ROLE, None), (ROLE, NAMESPACE)):
            listed = json.loads(await client.request("GET", kind.path(namespace)))
            real |= {(kind.kind, each["metadata"]["name"]): rules_of(each) for each in listed["items"]}
    ours = {
        (each["kind"], each["metadata"]["name"]): rules_of(each)
        for each in bootstrap_policy()
        if each["kind"] in {CLUSTER_ROLE.kind, ROLE.kind} and "aggregationRule" not in each
    }
    assert ours == {name: real.get(name) for name in ours}


def rules_of(role):
    """The single rules of a role."""
    return {single for rule in role.get("rules") or () for single in Rule.of(rule).breakdown()}


async def test_readiness_reports_a_missing_permission(tmp_path):
    async with trial(tmp_path) as (cluster, attempt):
        await revoke(cluster, "list storageclasses.storage.k8s.io")
        async with serving(cluster) as endpoints:
            await attempt.until(lambda: attempt.logged(LACKS))
            assert (await status_of(endpoints.port, "/readyz"))[0] == 500
            status, text = await status_of(endpoints.port, "/readyz/sched-handler-sync", ADMIN_TOKEN)
    assert status == 500
    assert text == (
        "internal server error: handlers are not fully synchronized: storageclasses.storage.k8s.io: 403 Forbidden: "
        'storageclasses.storage.k8s.io is forbidden: User "system:serviceaccount:kube-system:bayplan-scheduler" cannot '
        'list resource "storageclasses" in API group "storage.k8s.io" at the cluster scope\n'
    )


async def test_metrics_require_permission(tmp_path):
    async with embedded(tmp_path) as cluster, serving(cluster) as endpoints:
        bearer = await allow_to_read_metrics(cluster, "prometheus")
        assert (await status_of(endpoints.port, "/metrics", bearer))[0] == 200
        assert (await status_of(endpoints.port, "/metrics"))[0] == 403


async def test_bayplan_run_works_with_the_arguments_in_the_manifests(tmp_path):
    """Runs a process with the arguments and files in the manifests."""
    policy = tmp_path / "away.py"
    policy.write_text(
        "from bayplan import filter_plugin\n\n\n@filter_plugin\ndef away(pod, node):\n"
        '    return "not here" if node.name == "node-0" else None\n'
    )
    command = ["--image", "i", "--plugin", str(policy)]
    documents = list(yaml.safe_load_all(CliRunner().invoke(manifests_command, command, catch_exceptions=False).stdout))
    (deployment,) = (each for each in documents if each["kind"] == "Deployment")
    (config_map,) = (each for each in documents if each["kind"] == "ConfigMap")
    files = tmp_path / "files"
    files.mkdir()
    for name, text in config_map["data"].items():
        (files / name).write_text(text)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    arguments = [argument.replace("/etc/bayplan", str(files)) for argument in container["args"][1:]]
    async with embedded(tmp_path) as cluster:
        await cluster.add_nodes(2)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        at = (f"--secure-port={port}", "--bind-address=127.0.0.1", "--kubeconfig", cluster.scheduler_kubeconfig)
        async with bayplan_run(*arguments, *at) as running:
            await cluster.create(*pods("web", 4))
            await cluster.observer.until(
                lambda: all(cluster.observer.node_of(f"default/web-{number:04d}") for number in range(4))
            )
            lease = await cluster.client.get(LEASE, NAME, NAMESPACE)
            probed = {
                name: (await status_of(port, container[f"{name}Probe"]["httpGet"]["path"]))[0]
                for name in ("startup", "liveness", "readiness")
            }
            running.signal(signal.SIGTERM)
            assert await running.ended() == 0, running.lines
    assert lease.spec.holderIdentity
    assert probed == {"startup": 200, "liveness": 200, "readiness": 200}
    assert {cluster.observer.node_of(f"default/web-{number:04d}") for number in range(4)} == {"node-1"}
