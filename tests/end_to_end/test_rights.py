"""The rights that the manifests give are enough, and each is needed: without it a scheduler says which one it lacks.

All end-to-end tests run the scheduler under these rights (see clusters.py). Here they are taken away, one by one.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import socket
from collections.abc import Callable
from contextlib import asynccontextmanager

import pytest
import yaml
from click.testing import CliRunner
from clusters import ADMIN_TOKEN, Embedded, check_rights, embedded, unjudged
from errands import allow_to_read_metrics, serving, status_of
from granted import ERRANDS, FILES, GRANTED, UNUSED, bound_roles, take_away, told
from running import bayplan_run
from shipped import ACCOUNT, NAMESPACE, manifests
from workloads import NAME, pods

from bayplan.api.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, LEASE, ROLE, ROLE_BINDING
from bayplan.cli.manifests import manifests as manifests_command
from bayplan.client import HttpClient, load_kubeconfig
from bayplan.devcluster.apiserver.authorization.bootstrap_policy import bootstrap_policy
from bayplan.devcluster.apiserver.authorization.rules import Rule

NEEDED = [(errand, right) for errand, (_, rights) in ERRANDS.items() for right in rights]
BINDINGS = [
    manifest for file in FILES for manifest in manifests(file) if manifest.kind in {CLUSTER_ROLE_BINDING, ROLE_BINDING}
]
LACKS = f'User "{ACCOUNT}" cannot'
"""What a server says to whom it lets do less than they want."""


class Trial(logging.Handler):
    """A scheduler's errand on a cluster: what it asks for, what it may not, and what it says of that in its log."""

    def __init__(self, cluster: Embedded) -> None:
        super().__init__(logging.WARNING)
        self._cluster = cluster
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._lines: list[str] = []
        cluster.server.access.audit.append(lambda *_: self._news.set())

    @property
    def refused(self) -> list[str]:
        """The rights that it lacked."""
        return sorted(right for right, single in GRANTED.items() if any(map(single.allows, self._cluster.refused)))

    @property
    def used(self) -> set[str]:
        """The rights that it used."""
        return {right for right, single in GRANTED.items() if any(map(single.allows, self._cluster.asked))}

    def emit(self, record: logging.LogRecord) -> None:
        """One more line; some come from other threads."""
        self._lines.append(record.getMessage())
        self._loop.call_soon_threadsafe(self._news.set)

    def says(self, text: str) -> bool:
        return any(text in line for line in self._lines)

    async def run(self, errand: str) -> None:
        """To its end, or until something is refused and the log says so."""
        act, rights = ERRANDS[errand]

        async def done() -> None:
            try:
                await self.until(lambda: self.used.issuperset(rights) or (self._cluster.refused and self.says(LACKS)))
            except TimeoutError:
                never = ", ".join(sorted(set(rights) - self.used))
                raise AssertionError(f"{errand}: {never} was never asked for, nor was anything refused") from None

        await act(self._cluster, done)

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(20):
            while not condition():
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def trial(folder):
    async with unjudged(folder, files=FILES[1:], alpha=True) as cluster:
        attempt = Trial(cluster)
        log = logging.getLogger("bayplan")
        log.addHandler(attempt)
        try:
            yield cluster, attempt
        finally:
            log.removeHandler(attempt)


def test_each_right_is_needed_or_has_a_reason_to_be_there():
    needed = {right for _, right in NEEDED}
    unused = [right for rights in UNUSED.values() for right in rights]
    assert len(unused) == len(set(unused))
    assert needed.isdisjoint(unused)
    assert needed - GRANTED.keys() == set(), "no role that the manifests bind gives that"
    assert GRANTED.keys() - needed == set(unused), "is it needed, or why is it there?"


@pytest.mark.parametrize("errand", ERRANDS)
async def test_an_errand_takes_the_rights_that_it_is_said_to(tmp_path, errand):
    async with trial(tmp_path) as (cluster, attempt):
        await attempt.run(errand)
        check_rights(cluster)
        assert attempt.used <= {right for _, right in NEEDED}
        ungranted = [each for each in cluster.asked if not any(single.allows(each) for single in GRANTED.values())]
        assert ungranted == [], "who grants that?"


@pytest.mark.parametrize(("errand", "right"), NEEDED, ids=[right for _, right in NEEDED])
async def test_without_it_something_is_refused_and_the_log_says_what(tmp_path, errand, right):
    assert right in GRANTED, "no role that the manifests bind gives it"
    (verb,), (group,), (resource,) = GRANTED[right].verbs, GRANTED[right].groups, GRANTED[right].resources
    async with trial(tmp_path) as (cluster, attempt):
        await take_away(cluster, right)
        await attempt.run(errand)
        assert attempt.refused == [right]
        assert attempt.says(f'{LACKS} {verb} resource "{resource}" in API group "{group}"')


@pytest.mark.parametrize("binding", BINDINGS, ids=[binding.document["metadata"]["name"] for binding in BINDINGS])
async def test_each_binding_is_needed(tmp_path, binding):
    reference = binding.document["roleRef"]
    roles = bound_roles()
    given = {told(single) for (_, name), rules in roles.items() if name == reference["name"] for single in rules}
    others = {told(single) for (_, name), rules in roles.items() if name != reference["name"] for single in rules}
    errand = next(errand for errand, right in NEEDED if right in given - others)
    async with trial(tmp_path) as (cluster, attempt):
        metadata = binding.document["metadata"]
        await cluster.client.delete(binding.kind, metadata["name"], metadata.get("namespace"))
        await attempt.run(errand)
        assert attempt.refused


@pytest.mark.apiserver
async def test_the_roles_of_the_embedded_cluster_are_those_of_a_real_one(control_plane):
    plane, *_ = control_plane
    there = {}
    async with HttpClient(load_kubeconfig(plane.admin)) as client:
        for kind, namespace in ((CLUSTER_ROLE, None), (ROLE, NAMESPACE)):
            listed = json.loads(await client.request("GET", kind.path(namespace)))
            there |= {(kind.kind, each["metadata"]["name"]): rules_of(each) for each in listed["items"]}
    ours = {
        (each["kind"], each["metadata"]["name"]): rules_of(each)
        for each in bootstrap_policy()
        if each["kind"] in {CLUSTER_ROLE.kind, ROLE.kind} and "aggregationRule" not in each
    }
    assert ours == {name: there.get(name) for name in ours}


def rules_of(role):
    """What a role grants, in no order."""
    return {single for rule in role.get("rules") or () for single in Rule.of(rule).breakdown()}


async def test_a_scheduler_that_may_not_read_something_is_not_ready_and_says_why(tmp_path):
    async with trial(tmp_path) as (cluster, attempt):
        await take_away(cluster, "list storageclasses.storage.k8s.io")
        async with serving(cluster) as endpoints:
            await attempt.until(lambda: attempt.says(LACKS))
            assert (await status_of(endpoints.port, "/readyz"))[0] == 500
            status, text = await status_of(endpoints.port, "/readyz/sched-handler-sync", ADMIN_TOKEN)
    assert status == 500
    assert text == (
        "internal server error: handlers are not fully synchronized: storageclasses.storage.k8s.io: 403 Forbidden: "
        'storageclasses.storage.k8s.io is forbidden: User "system:serviceaccount:kube-system:bayplan-scheduler" cannot '
        'list resource "storageclasses" in API group "storage.k8s.io" at the cluster scope\n'
    )


async def test_who_may_read_metrics_is_the_clusters_to_say(tmp_path):
    async with embedded(tmp_path) as cluster, serving(cluster) as endpoints:
        bearer = await allow_to_read_metrics(cluster, "prometheus")
        assert (await status_of(endpoints.port, "/metrics", bearer))[0] == 200
        assert (await status_of(endpoints.port, "/metrics"))[0] == 403


async def test_bayplan_run_works_as_the_manifests_start_it(tmp_path):
    """With its arguments, its files and its token, in a process of its own."""
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
            await cluster.witness.until(
                lambda: all(cluster.witness.node_of(f"default/web-{number:04d}") for number in range(4))
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
    assert {cluster.witness.node_of(f"default/web-{number:04d}") for number in range(4)} == {"node-1"}
