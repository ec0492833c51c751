"""Provisioning requests with `bayplan run` and `bayplan provision`, and the permissions of `bayplan manifests`."""

import asyncio
from contextlib import aclosing

import pytest
from click.testing import CliRunner
from clusters import unchecked
from running import bayplan_run
from shipped import token
from tests.support.waiting import PATIENCE
from workloads import NAME, pod

from bayplan.core.api.kinds import DEPLOYMENT, POD_TEMPLATE
from bayplan.core.api.provisioning import CONSUMES, PROVISIONING_REQUEST
from bayplan.faces.cli.manifests import manifests
from bayplan_devcluster.manifests import create, read

PROVISION = "bayplan-provision"


@pytest.fixture
async def cluster(tmp_path):
    async with unchecked(tmp_path, files=["provisioningrequest-crd.yaml"]) as cluster:
        await cluster.add_nodes(2, cpu="2")
        yield cluster


async def grant(cluster, folder, *arguments, only=""):
    """Apply what `bayplan manifests` prints: the objects with a word in their names."""
    printed = CliRunner().invoke(manifests, ["--image", "registry.example/bayplan:1", *arguments])
    assert printed.exit_code == 0, printed.output
    file = folder / "granted.yaml"
    file.write_text(printed.stdout)
    found = [each for each in read([file]) if only in each.document["metadata"]["name"]]
    for each in found:
        if each.kind == DEPLOYMENT:
            each.document["spec"]["replicas"] = 0
    await create(cluster.client, found)


async def ask(cluster, name, count, by, cpu="1"):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], "schedulerName": by}
    await cluster.client.create(POD_TEMPLATE, {"metadata": {"name": name}, "template": {"spec": spec}}, "default")
    sets = [{"podTemplateRef": {"name": name}, "count": count}]
    spec = {"provisioningClassName": "check-capacity.bayplan.dev", "podSets": sets}
    await cluster.client.create(PROVISIONING_REQUEST, {"metadata": {"name": name}, "spec": spec}, "default")


async def until_answered(cluster, name, condition, status):
    """Watch requests until one has a condition with this status. Returns the message."""
    watch = cluster.client.watch(PROVISIONING_REQUEST, "default", bookmarks=False)
    async with asyncio.timeout(PATIENCE), aclosing(watch) as events:
        async for event in events:
            conditions = (event.object.get("status") or {}).get("conditions") or ()
            for each in conditions if event.object.metadata.name == name else ():
                if (each["type"], each["status"]) == (condition, status):
                    return each["message"]
    raise AssertionError


def taking(name, request):
    made = pod(name, "1")
    made["metadata"]["annotations"] = {CONSUMES[0]: request}
    return made


async def test_room_is_held_over_a_crash_until_pods_take_it(cluster, tmp_path):
    await grant(cluster, tmp_path, "--provisioning-requests", only=":provisioning")
    arguments = ("--kubeconfig", cluster.scheduler_kubeconfig, "--scheduler-name", NAME, "--provisioning-requests")
    async with bayplan_run(*arguments, "-v") as running:
        await ask(cluster, "train", 3, NAME)
        assert await until_answered(cluster, "train", "Provisioned", "True")
        await ask(cluster, "large", 2, NAME)
        short = await until_answered(cluster, "large", "Provisioned", "False")
        assert short.startswith("1 of 2 members fit; the next one: 0/2 nodes are available: 2 Insufficient cpu.")
        assert running.logged("answering ProvisioningRequests with provisioningClassName check-capacity.bayplan.dev")
    async with bayplan_run(*arguments) as running:
        await cluster.create(*(pod(f"other-{number}", "1") for number in range(2)))
        await cluster.create(*(taking(f"train-{number}", "train") for number in range(3)))
        seen = cluster.observer
        await seen.until(lambda: all(seen.node_of(f"default/train-{number}") for number in range(3)))
        await seen.until(lambda: any(seen.node_of(f"default/other-{number}") for number in range(2)))
        assert not running.problems
    assert not cluster.denied


async def test_beside_another_scheduler_requests_are_answered_and_no_pods_placed(cluster, tmp_path):
    await grant(cluster, tmp_path, "--provision")
    kubeconfig = cluster._kubeconfig(PROVISION, await token(cluster.client, PROVISION))
    async with bayplan_run("--kubeconfig", kubeconfig, "--leader-elect=true", command="provision") as running:
        await cluster.create(pod("theirs", "1", schedulerName="default-scheduler"))
        await ask(cluster, "train", 3, "default-scheduler")
        assert await until_answered(cluster, "train", "Provisioned", "True")
        await ask(cluster, "large", 2, "default-scheduler")
        assert await until_answered(cluster, "large", "Provisioned", "False")
        assert not cluster.observer.node_of("default/theirs")
        assert not running.problems, running.lines
