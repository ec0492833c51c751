"""`bayplan extender` as a process: its errors, its output, and how it stops."""

import asyncio
import json
import signal
import socket
import ssl

import aiohttp
import pytest
import yaml
from asking import node, pod
from extender_process import bayplan_extender
from tests.support.certificates import Authority
from tests.support.tables import cases

from bayplan_devcluster.apiserver import ApiServer, Fault

pytestmark = pytest.mark.feature("Serving as an extender: the command")

POLICY = """\
from bayplan import Plugin, Wait, filter_plugin, score_plugin

@filter_plugin
def no_c(pod, node):
    return "c is out" if node.name == "c" else None

@score_plugin(weight=3)
def flat(pod, node):
    return 70

class Permits(Plugin):
    name = "permits"

    def permit(self, cycle, pod, node_name):
        return Wait(1)
"""
CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: mine
  plugins:
    filter:
      enabled:
      - name: no_c
"""
QUESTION = {"Pod": pod(), "Nodes": {"items": [node("a"), node("c")]}, "NodeNames": None}


@pytest.fixture
def policy(tmp_path):
    path = tmp_path / "policy.py"
    path.write_text(POLICY)
    return path


async def error_of(*arguments, environ=None):
    """The errors of a command that ends with status 2."""
    async with bayplan_extender(*arguments, environ=environ) as command:
        assert await command.ended() == 2
    assert "Traceback" not in command.errors
    assert command.output == ""
    return command.errors


async def test_it_prints_the_configuration_and_serves_until_a_signal(policy):
    async with bayplan_extender("--plugin", policy, "--port", 0, "--path", "filter=a/b", "-v") as command:
        url = await command.serving()
        [entry] = yaml.safe_load(command.snippet)["extenders"]
        assert entry == {
            "urlPrefix": url,
            "filterVerb": "a/b",
            "prioritizeVerb": "prioritize",
            "weight": 3,
            "nodeCacheCapable": False,
        }
        assert "Note: plugin permits does not run at permit, which an extender does not have.\n" in command.output
        assert (
            "Note: preempt and bind need a connection to the cluster: use --kubeconfig FILE or --watch.\n"
            in command.output
        )
        async with aiohttp.ClientSession() as session:
            async with session.post(f"{url}/a/b", json=QUESTION) as answer:
                assert (await answer.json())["FailedNodes"] == {"c": "c is out"}
            async with session.post(f"{url}/prioritize", json=QUESTION) as answer:
                assert [each["Score"] for each in await answer.json()] == [7, 7]
        await command.until(lambda: "filter: default/web: 1 of 2 nodes" in command.errors)
        command.process.send_signal(signal.SIGTERM)
        assert await command.ended() == 0
    assert "Traceback" not in command.errors


async def test_it_answers_to_accepted_host_names(policy):
    async with bayplan_extender("--plugin", policy, "--port", 0, "--accept-hosts", r"\.svc$") as command:
        url = await command.serving()
        async with aiohttp.ClientSession() as session:
            for host, status in (("extender.kube-system.svc:8888", 200), ("evil.example", 403)):
                async with session.post(f"{url}/filter", json=QUESTION, headers={"Host": host}) as answer:
                    assert answer.status == status


async def test_with_a_kubeconfig_it_watches_the_cluster(policy, tmp_path):
    async with ApiServer() as server:
        server.load([node("a", ""), node("c", "")])
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(server.kubeconfig())
        for arguments, environ in ((("--kubeconfig", kubeconfig), {}), (("--watch",), {"KUBECONFIG": str(kubeconfig)})):
            async with bayplan_extender("--plugin", policy, "--port", 0, "-v", *arguments, environ=environ) as command:
                url = await command.serving()
                assert "  preemptVerb: preempt\n  nodeCacheCapable: true\n" in command.output
                await command.until(lambda process=command: "synced 2 nodes" in process.errors)
                question = {"Pod": pod(), "Nodes": None, "NodeNames": ["a", "b", "c"]}
                async with aiohttp.ClientSession() as session, session.post(f"{url}/filter", json=question) as answer:
                    assert (await answer.json())["NodeNames"] == ["a"]


async def test_the_kubeconfig_may_be_in_the_configuration(policy, tmp_path):
    async with ApiServer() as server:
        kubeconfig, config = tmp_path / "kubeconfig", tmp_path / "config.yaml"
        kubeconfig.write_text(server.kubeconfig())
        config.write_text(f"{CONFIGURATION}clientConnection:\n  kubeconfig: {kubeconfig}\n")
        arguments = ("--config", config, "--plugin", policy, "--port", 0)
        async with bayplan_extender(*arguments) as command:
            await command.serving()
            assert (
                f"bayplan extender: warning: plugin 'flat' is not enabled in any profile of {config}: "
                in command.errors
            )
            assert "nodeCacheCapable: true" in command.output
            assert "prioritizeVerb" not in command.output


async def test_it_serves_https(policy, tmp_path):
    authority = Authority()
    pairs = {"server": authority.server("127.0.0.1"), "client": authority.client("scheduler")}
    for name, pair in pairs.items():
        (tmp_path / f"{name}.crt").write_bytes(pair.certificate)
        (tmp_path / f"{name}.key").write_bytes(pair.key)
    (tmp_path / "ca.crt").write_bytes(authority.certificate)
    trust = ssl.create_default_context(cadata=authority.certificate.decode())
    trust.load_cert_chain(tmp_path / "client.crt", tmp_path / "client.key")
    async with bayplan_extender(
        *("--plugin", policy, "--port", 0, "--client-ca-file", tmp_path / "ca.crt"),
        *("--tls-cert-file", tmp_path / "server.crt", "--tls-private-key-file", tmp_path / "server.key"),
    ) as command:
        url = await command.serving()
        await command.until(lambda: "keyFile" in command.output)
        [entry] = yaml.safe_load(command.snippet)["extenders"]
        assert (entry["enableHTTPS"], list(entry["tlsConfig"])) == (True, ["caFile", "certFile", "keyFile"])
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{url}/filter", json=QUESTION, ssl=trust) as answer,
        ):
            assert (await answer.json())["FailedNodes"] == {"c": "c is out"}


@cases(
    "arguments, message",
    {
        "no arguments": ([], "--plugin or --config is required"),
        "no such file": (["--plugin", "{}/gone.py"], "bayplan extender: {}/gone.py: no such file\n"),
        "no such plugin": (["--plugin", "{}/policy.py:other"], "has no plugin 'other'"),
        "an unsupported extension point": (["--plugin", "{}/policy.py:permits"], "no extension point of an extender"),
        "no such configuration": (["--config", "{}/gone.yaml"], "{}/gone.yaml"),
        "plugins that are not loaded": (["--config", "{}/config.yaml"], "{}/config.yaml:8: "),
        "no kubeconfig": (["--plugin", "{}/policy.py", "--kubeconfig", "{}/gone"], "bayplan extender: {}/gone"),
        "no such verb": (["--plugin", "{}/policy.py", "--path", "filters=/x"], "is not VERB=PATH"),
        "no path": (["--plugin", "{}/policy.py", "--path", "filter=/"], "is not VERB=PATH"),
        "two verbs at one path": (
            ["--plugin", "{}/policy.py", "--path", "bind=/filter"],
            "bayplan extender: --path: filter and bind have the same path, /filter\n",
        ),
        "no certificate": (
            ["--plugin", "{}/policy.py", "--tls-cert-file", "{}/gone"],
            "bayplan extender: --tls-cert-file {}/gone with key in the same file cannot be used: ",
        ),
        "a CA without a certificate": (
            ["--plugin", "{}/policy.py", "--client-ca-file", "{}/gone"],
            "bayplan extender: --client-ca-file requires --tls-cert-file\n",
        ),
        "an invalid pattern of hosts": (
            ["--plugin", "{}/policy.py", "--accept-hosts", "^a$,("],
            "Invalid value for '--accept-hosts': '(' is not a regular expression: missing )",
        ),
        "no address": (["--plugin", "{}/policy.py", "--host", "203.0.113.1"], "cannot serve on 203.0.113.1:8888: "),
    },
)
async def test_errors_are_one_line(arguments, message, policy):
    (policy.parent / "config.yaml").write_text(CONFIGURATION)
    folder = str(policy.parent)
    assert message.replace("{}", folder) in await error_of(*(each.replace("{}", folder) for each in arguments))


async def test_a_port_in_use(policy):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = await error_of("--plugin", policy, "--port", port)
    assert message == f"bayplan extender: port {port} on 127.0.0.1 is in use: choose another with --port\n"


async def test_missing_permissions(policy, tmp_path):
    async with ApiServer() as server:
        server.faults.add(Fault(verb="list", resource="pods", answer=403, message="not you"))
        (tmp_path / "kubeconfig").write_text(server.kubeconfig())
        message = await error_of("--plugin", policy, "--port", 0, "--kubeconfig", tmp_path / "kubeconfig")
    assert message == "bayplan extender: cannot list pods: 403: not you\n"


async def test_a_second_signal_exits_at_once(tmp_path):
    policy = tmp_path / "policy.py"
    policy.write_text(
        "import asyncio\nfrom bayplan import Plugin\n\n\nclass Slow(Plugin):\n    name = 'slow'\n\n"
        "    async def bind(self, cycle, pod, node_name):\n        print('begun', flush=True)\n"
        "        await asyncio.sleep(60)\n"
    )
    async with ApiServer() as server:
        server.load([node("a", ""), pod()])
        (tmp_path / "kubeconfig").write_text(server.kubeconfig())
        arguments = ("--plugin", policy, "--port", 0, "--kubeconfig", tmp_path / "kubeconfig", "-v")
        async with bayplan_extender(*arguments) as command:
            url = await command.serving()
            body = json.dumps({"PodName": "web", "PodNamespace": "default", "Node": "a"})
            async with aiohttp.ClientSession() as session:
                asking = asyncio.create_task(session.post(f"{url}/bind", data=body))
                await command.until(lambda: "begun" in command.output)
                command.process.send_signal(signal.SIGTERM)
                await command.until(lambda: "stopping" in command.errors)
                command.process.send_signal(signal.SIGTERM)
                assert await command.ended() == 1
                with pytest.raises(aiohttp.ClientConnectionError):
                    await asking
