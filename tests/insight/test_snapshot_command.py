"""`bayplan snapshot`, the shared options of the commands about a cluster, and `kubectl bayplan`."""

import asyncio
import gzip
import json
import subprocess
import sys
from dataclasses import replace

import click
import pytest
import yaml
from bayplan_documents import document
from click.testing import CliRunner
from tests.support.tables import cases

from bayplan.answers.snapshots.rights import cluster_role
from bayplan.core.api.kinds import NODE, POD, custom_kind
from bayplan.core.versions import FollowedVersion
from bayplan.faces.cli import main
from bayplan.faces.cli.insight import progress
from bayplan.faces.cli.insight.cluster_options import AskedCluster, cluster_options
from bayplan.insight import Gap, Snapshot, SnapshotError
from bayplan_devcluster.cluster import DevCluster

NODE_A = document("Node", "a", namespace="")
WEB = document("Pod", "web", namespace="shop", spec={"containers": [{"name": "c", "env": [{"name": "PASSWORD"}]}]})
CONFIGURATION = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def invoke(*arguments, status=0, command=main, **options):
    result = CliRunner().invoke(command, [*map(str, arguments)], **options)
    assert result.exit_code == status, result.output
    assert "Traceback" not in result.output
    return result


@pytest.fixture
def dump(tmp_path):
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [NODE_A, WEB]}))
    return path


def test_dump_is_saved_as_a_snapshot(dump, tmp_path):
    printed = invoke("snapshot", "--from", dump, tmp_path / "saved").stdout

    assert printed == f"Saved 2 objects of {dump} to {tmp_path / 'saved'} (0.0 MB)\n"
    assert list(Snapshot.load(tmp_path / "saved").objects()) == [NODE_A, WEB]


def test_standard_input_is_saved_redacted(tmp_path):
    text = yaml.dump_all([NODE_A, WEB])
    invoke("snapshot", "--from", "-", "--redact", tmp_path / "saved", input=text)

    content = gzip.decompress((tmp_path / "saved").read_bytes())
    assert b"PASSWORD" not in content
    assert b"web" not in content


async def test_cluster_is_saved_by_a_separate_process(tmp_path):
    kubeconfig, saved = tmp_path / "kubeconfig", tmp_path / "saved"
    async with DevCluster(2, controllers=False) as cluster:
        await cluster.nodes_ready()
        cluster.write_kubeconfig(kubeconfig)
        await run("snapshot", "--kubeconfig", kubeconfig, saved)
        assert set(Snapshot.load(saved).of_kind(NODE)) == cluster.node_names


async def run(*arguments):
    program = "from bayplan.faces.cli import kubectl_plugin; kubectl_plugin()"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, *map(str, arguments))
    assert await process.wait() == 0


BAD = {
    "no such file": (["--from", "{folder}/none"], "{folder}/none: No such file or directory"),
    "no such kubeconfig": (
        ["--kubeconfig", "{folder}/none"],
        "{folder}/none: cannot read the kubeconfig: No such file",
    ),
    "no such context": (
        ["--kubeconfig", "{folder}/kubeconfig", "--context", "prod"],
        "{folder}/kubeconfig: there is no context 'prod'; found: dev",
    ),
    "unreachable server": (
        ["--kubeconfig", "{folder}/kubeconfig"],
        "cannot read nodes of http://127.0.0.1:1 (context dev of {folder}/kubeconfig): ",
    ),
    "cut-off dump": (["--from", "{folder}/cut.json"], "{folder}/cut.json, document 1 (line 1): the file ends in the"),
    "cut-off snapshot": (["--from", "{folder}/cut.bayplan"], "{folder}/cut.bayplan is cut off"),
}
KUBECONFIG = {
    "current-context": "dev",
    "contexts": [{"name": "dev", "context": {"cluster": "dev", "user": "dev"}}],
    "clusters": [{"name": "dev", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "dev", "user": {}}],
}


@cases("arguments, message", BAD)
def test_bad_input_is_one_message(tmp_path, arguments, message, dump):
    (tmp_path / "kubeconfig").write_text(yaml.dump(KUBECONFIG))
    (tmp_path / "cut.json").write_bytes(dump.read_bytes()[:-20])
    Snapshot.of([NODE_A]).save(tmp_path / "cut.bayplan")
    (tmp_path / "cut.bayplan").write_bytes((tmp_path / "cut.bayplan").read_bytes()[:-9])
    arguments = [argument.format(folder=tmp_path) for argument in arguments]
    result = invoke("snapshot", *arguments, tmp_path / "saved", status=2)

    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"main snapshot: {message.format(folder=tmp_path)}")
    assert not (tmp_path / "saved").exists()


def test_file_and_cluster_exclude_each_other(tmp_path):
    result = invoke("snapshot", "--from", "-", "--context", "dev", tmp_path / "saved", status=2)

    assert "--from replaces the cluster: use it without --kubeconfig and --context" in result.stderr


@click.command()
@click.argument("pod")
@cluster_options
def question(asked: AskedCluster, pod: str) -> None:
    """Print the options."""
    if pod == "none":
        raise SnapshotError("there is no pod none")
    profiles = [profile.schedulerName for profile in asked.configuration.profiles] if asked.configuration else None
    plugins = [plugin.name for plugin in asked.plugins]
    labels = asked.selector.matches({"app": "web"}) if asked.selector else None
    shown = (asked.namespace, asked.in_namespace, labels, asked.limit, asked.output, asked.seed)
    click.echo(repr((pod, len(asked.snapshot), profiles, plugins, *shown)))


def test_shared_options_have_defaults(dump):
    printed = invoke("web", "--from", dump, command=question).stdout

    assert printed == repr(("web", 2, None, [], None, "default", None, 20, "table", 0)) + "\n"


def test_shared_options_are_read(dump, tmp_path):
    configuration, policy = tmp_path / "scheduler.yaml", tmp_path / "policy.py"
    configuration.write_text(
        f"{CONFIGURATION}profiles: [{{schedulerName: gold, plugins: {{multiPoint: {{enabled: [{{name: Tier}}]}}}}}}]\n"
    )
    policy.write_text(
        "from bayplan import Plugin\n"
        "class Tier(Plugin):\n"
        "    name = 'Tier'\n"
        "    def score(self, cycle, pod, node): return 1\n"
    )
    arguments = ["--from", dump, "--config", configuration, "--plugin", policy, "-n", "shop", "-l", "app in (web)"]
    printed = invoke("web", *arguments, "--limit", 0, "-o", "json", "--seed", 7, command=question).stdout

    assert printed == repr(("web", 2, ["gold"], ["Tier"], "shop", "shop", True, 0, "json", 7)) + "\n"


def test_kinds_of_plugins_are_read_from_the_cluster(tmp_path, monkeypatch):
    policy, read = tmp_path / "policy.py", []
    policy.write_text(
        "from bayplan import Plugin\n"
        "class Quota(Plugin):\n"
        "    name = 'Quota'\n"
        "    def __init__(self, handle): self.quotas = handle.objects('quotas.v1.example.com')\n"
        "    def score(self, cycle, pod, node): return 1\n"
    )
    (tmp_path / "kubeconfig").write_text(yaml.dump(KUBECONFIG))
    monkeypatch.setattr(Snapshot, "from_cluster", lambda *_, kinds, **__: read.extend(kinds) or Snapshot.of([NODE_A]))
    invoke("web", "--kubeconfig", tmp_path / "kubeconfig", "--plugin", policy, command=question)

    assert custom_kind("quotas.v1.example.com") in read


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none"], "question: there is no pod none"),
        (["web", "-l", "app in web"], "question: --selector 'app in web': "),
        (["web", "--plugin", "/none.py"], "question: /none.py"),
        (["web", "--config", "/none.yaml"], "/none.yaml"),
    ],
)
def test_bad_shared_options_are_one_message(dump, arguments, message):
    result = invoke(*arguments, "--from", dump, command=question, status=2)

    assert result.stderr.startswith(message)
    assert len(result.stderr.splitlines()) == 1


def test_gaps_are_warnings(tmp_path):
    path = tmp_path / "saved"
    Snapshot.of([NODE_A], gaps=[Gap(POD, "no right to list pods", "nothing is known")]).save(path)

    assert invoke("web", "--from", path, command=question).stderr == (
        "warning: pods: no right to list pods: nothing is known\n"
        "warning: the snapshot doesn't say which version it has: Kubernetes 1.36 is assumed\n"
    )


def test_namespace_of_the_context_is_the_default(tmp_path, monkeypatch):
    contexts = [{"name": "dev", "context": {"cluster": "dev", "user": "dev", "namespace": "shop"}}]
    (tmp_path / "kubeconfig").write_text(yaml.dump(KUBECONFIG | {"contexts": contexts}))
    monkeypatch.setattr(Snapshot, "from_cluster", lambda *_, **__: Snapshot.of([NODE_A]))
    printed = invoke("web", "--kubeconfig", tmp_path / "kubeconfig", command=question).stdout

    assert "None, 'shop'" in printed


class Terminal:
    """A stderr that is a terminal."""

    def __init__(self):
        self.written = ""

    def isatty(self):
        return True

    def write(self, text):
        self.written += text

    def flush(self):
        """Nothing is buffered."""


def test_progress_is_shown_on_a_terminal_and_removed(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "_PAUSE", 0.0)
    with progress.reporting("Reading the cluster") as report:
        report("nodes", 3)
        report("pods", 500)
        report("pods", 1000)

    assert "Reading the cluster: 1,003 objects (pods)" in terminal.written
    assert terminal.written.endswith("\r\x1b[K")


def test_progress_is_not_shown_in_a_pipe(capsys):
    with progress.reporting("Reading") as report:
        assert report is None
    assert capsys.readouterr().err == ""


def test_manifests_print_the_role():
    printed = invoke("manifests", "--insight").stdout

    assert list(yaml.safe_load_all(printed)) == [cluster_role()]


def test_kubectl_plugin_has_the_commands_of_bayplan():
    program = [
        sys.executable,
        "-c",
        "from bayplan.faces.cli import kubectl_plugin; kubectl_plugin()",
        "snapshot",
        "--help",
    ]
    printed = subprocess.run(program, capture_output=True, text=True, check=True).stdout

    assert printed.startswith("Usage: kubectl bayplan snapshot [OPTIONS] PATH")


@cases(
    "version, options, decides_as, warning",
    {
        "the snapshot's": ("v1.37.2-eks-1", (), "1.37", ""),
        "another one": ("v1.37.2", ("--emulated-version", "1.36"), "1.36", ""),
        "an older one": (
            "v1.31.0",
            (),
            "1.36",
            "warning: the cluster has Kubernetes 1.31: Bayplan decides as 1.36, the oldest it knows\n",
        ),
        "none": ("", (), "1.36", "warning: test doesn't say which version it has: Kubernetes 1.36 is assumed\n"),
        "none but one is named": ("", ("--emulated-version", "1.37"), "1.37", ""),
    },
)
def test_questions_decide_as_the_version_of_the_snapshot(version, options, decides_as, warning, tmp_path):
    path = tmp_path / "saved"
    replace(Snapshot.of([NODE_A], source="test"), version=version).save(path)
    asked = []

    @click.command()
    @cluster_options
    def which(asking):
        asked.append(asking)

    result = invoke("--from", path, *options, command=which)
    assert (result.exit_code, result.stderr) == (0, warning)
    assert (asked[0].snapshot.version, asked[0].gates.version) == (version, decides_as)
    assert asked[0].gates.enabled("StorageCapacityScoring") is (decides_as == "1.37")


def test_files_without_a_server_are_taken_for_the_oldest_version_silently(tmp_path):
    path = tmp_path / "node.yaml"
    path.write_text(yaml.dump(NODE_A))
    assert Snapshot.open(path).followed == FollowedVersion("1.36")


def test_an_unread_version_is_a_mistake(tmp_path):
    result = invoke("web", "--from", tmp_path, "--emulated-version", "1.99", command=question, status=2)
    assert result.stderr.endswith("--emulated-version: unknown version '1.99': expected one of 1.36, 1.37\n")
