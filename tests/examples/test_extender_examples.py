"""The extender examples, started as in their manifests, with requests recorded from the stock kube-scheduler."""

import asyncio
import json
import re
import shutil
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
import yaml
from playground import EXAMPLES, KIND_OF, Playground

from bayplan.core.config import load_configuration, load_plugins
from bayplan.testing.observer import Observer
from bayplan_devcluster.cluster import DevCluster
from bayplan_devcluster.kubelet import make_node

FOLDER = EXAMPLES / "extender"
CONFIGURATION = FOLDER / "scheduler-config.yaml"
MANIFESTS = list(yaml.safe_load_all((FOLDER / "scheduler.yaml").read_text(encoding="utf-8")))
DEPLOYMENT = next(each for each in MANIFESTS if each["kind"] == "Deployment")
RECORDED = Path(__file__).parents[1] / "data" / "kube-scheduler" / "extender.jsonl"
EXCHANGES = [json.loads(line.replace("<time>", "2026-01-01T00:00:00Z")) for line in RECORDED.read_text().splitlines()]

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"schedulerName": "extended-scheduler", "containers": [{"name": "main", "image": "pause"}]},
}


@pytest.fixture
async def playground(tmp_path):
    """A cluster with the nodes of the recorded requests."""
    async with DevCluster([make_node(name) for name in "abc"]) as cluster, Observer(cluster.client) as observer:
        await cluster.nodes_ready()
        kubeconfig = tmp_path / "kubeconfig"
        cluster.write_kubeconfig(kubeconfig)
        yield Playground(cluster, observer, kubeconfig)


def arguments():
    """Return the extender's arguments in the Deployment, with local files and a free port."""
    container = next(
        each for each in DEPLOYMENT["spec"]["template"]["spec"]["containers"] if each["name"] == "extender"
    )
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    return [
        argument.replace(f"{mounts['plugins']}/", f"{FOLDER}/").replace("--port=8888", "--port=0")
        for argument in container["args"]
    ]


class ExtenderClient:
    """Sends requests to the paths in the scheduler's configuration."""

    def __init__(self, url, session, extender):
        self._url = url
        self._session = session
        self._extender = extender

    async def __call__(self, verb, request):
        path = getattr(self._extender, f"{verb}Verb")
        async with self._session.post(f"{self._url}/{path}", json=request) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json()


@asynccontextmanager
async def running(playground, *command):
    """Run the extender, and wait until it has synced. Yields its output and a client."""
    async with playground.running("-m", "bayplan", *command) as output, aiohttp.ClientSession() as session:
        observer = playground.observer
        url = (await observer.until(lambda: re.search(r"http://\S+:\d+", str(output))))[0]
        await observer.until(lambda: "synced 3 nodes" in output)
        yield output, ExtenderClient(url, session, load_configuration(CONFIGURATION).extenders[0])


async def test_printed_configuration_matches_the_example(playground):
    async with running(playground, *arguments()) as (output, _):
        printed = re.search(r"^extenders:\n(?:[- ] .*\n)+", str(output), re.MULTILINE)
    [printed_extender] = yaml.safe_load(printed[0])["extenders"]
    [configured] = yaml.safe_load(CONFIGURATION.read_text())["extenders"]
    assert printed_extender.pop("urlPrefix").startswith("http://127.0.0.1:")
    assert configured.pop("urlPrefix") == "http://127.0.0.1:8888"
    assert printed_extender == configured


async def test_responses_to_recorded_requests(playground):
    async with running(playground, *arguments()) as (output, ask):
        for exchange in EXCHANGES:
            verb, request = exchange["verb"], exchange["request"]
            answer = await ask(verb, request)
            if verb == "preempt":
                assert answer == exchange["response"]
                continue
            whole = request["Nodes"] is not None
            names = [each["metadata"]["name"] for each in request["Nodes"]["items"]] if whole else request["NodeNames"]
            if verb == "prioritize":
                assert answer == [{"Host": name, "Score": place} for place, name in enumerate(names)]
                continue
            assert (answer["Error"], answer["FailedNodes"], answer["FailedAndUnresolvableNodes"]) == ("", {}, {})
            if whole:
                assert answer["Nodes"]["items"] == request["Nodes"]["items"]
            else:
                assert (answer["NodeNames"], answer["Nodes"]) == (names, None)
            for name in names:
                line = f"pod default/{request['Pod']['metadata']['name']} may go to node {name}"
                await playground.observer.until(lambda line=line: line in output)


async def test_bind_request_binds_the_pod(playground):
    async with running(playground, *arguments()) as (output, ask):
        await playground.create(POD)
        pod = await playground.observer.until(lambda: playground.observer.pods.get("default/web"))
        args = {"PodName": "web", "PodNamespace": "default", "PodUID": pod["metadata"]["uid"], "Node": "b"}
        assert await ask("bind", args) == {"Error": ""}
        await playground.observer.until(lambda: playground.observer.pods["default/web"]["status"]["phase"] == "Running")
        assert playground.observer.node_of("default/web") == "b"
        await playground.observer.until(lambda: "pod default/web is bound to node b" in output)
        assert "is already assigned to node" in (await ask("bind", args | {"Node": "c"}))["Error"]


@pytest.mark.parametrize("policy", sorted(FOLDER.glob("*_policy.py")), ids=lambda policy: policy.stem)
async def test_policy_runs_as_in_its_docstring(playground, policy):
    command = re.findall(r"^    bayplan (extender .*)$", policy.read_text(encoding="utf-8"), re.MULTILINE)[0]
    assert len(load_plugins([str(policy)])) == 1
    words = command.replace("examples/extender/", f"{FOLDER}/").split()
    async with running(playground, *words, "--port", "0", "-v") as (_, ask):
        assert await ask("prioritize", EXCHANGES[1]["request"])


async def test_manifests_are_accepted(playground):
    await playground.create(*MANIFESTS)
    await playground.observer.until(lambda: len(playground.observer.pods) == 1)
    assert [each["kind"] for each in MANIFESTS if (each["apiVersion"], each["kind"]) not in KIND_OF] == []


@pytest.mark.kubectl
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on the PATH")
async def test_kustomization_contains_the_files(playground):
    process = await asyncio.create_subprocess_exec(
        "kubectl",
        "--kubeconfig",
        str(playground.kubeconfig),
        "apply",
        "-k",
        str(FOLDER),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output = (await asyncio.wait_for(process.communicate(), 60))[0].decode()
    assert process.returncode == 0, output
    listed = await playground.cluster.client.list(KIND_OF["v1", "ConfigMap"], "kube-system")
    maps = {each.metadata.name: each.data for each in listed.items}
    deployment = await playground.cluster.client.get(
        KIND_OF["apps/v1", "Deployment"], "extended-scheduler", "kube-system"
    )
    volumes = {each.name: maps[each.configMap.name] for each in deployment.spec.template.spec.volumes}
    assert volumes["config"] == {CONFIGURATION.name: CONFIGURATION.read_text(encoding="utf-8")}
    policies = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*_policy.py")}
    assert volumes["plugins"] == policies
    assert {Path(each.partition("=")[2]).name for each in arguments() if "--plugin" in each} == set(policies)
