"""`bayplan cluster --detach` and `--stop`: each outcome is one line."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.support.tables import cases

from bayplan.client import connect
from bayplan.core.api.kinds import NODE, POD
from bayplan.faces.cli import cluster_detached
from bayplan.faces.cli.kubectl_context import ContextError, kubectl_file, restore_context, set_context

POLICY = """
from bayplan import filter_plugin

@filter_plugin
def second(pod, node):
    return None if node.name == "node-1" else "not the second node"
"""
POD_YAML = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}\n"
KUBECTLS = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "kind", "cluster": {"server": "https://127.0.0.1:1"}}],
    "contexts": [{"name": "kind", "context": {"cluster": "kind", "user": "kind"}}],
    "users": [{"name": "kind", "user": {}}],
    "current-context": "kind",
}


@pytest.fixture
def home(tmp_path):
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text(yaml.safe_dump(KUBECTLS))
    (tmp_path / "policy.py").write_text(POLICY)
    (tmp_path / "pod.yaml").write_text(POD_YAML)
    yield tmp_path
    for kubeconfig in (*tmp_path.glob("*.yaml"), tmp_path / ".kube" / "bayplan.yaml"):
        if cluster_detached.is_running(kubeconfig):
            os.kill(pid_of(kubeconfig), signal.SIGKILL)


def bayplan_cluster(home, *arguments):
    """The status, the output and the errors of a call."""
    environ = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"} | {"HOME": str(home)}
    command = [sys.executable, "-m", "bayplan", "cluster", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=home, env=environ, timeout=60)
    return done.returncode, done.stdout, done.stderr


def pid_of(kubeconfig: Path) -> int:
    return yaml.safe_load(kubeconfig.read_text())["extensions"][0]["extension"]["pid"]


async def test_a_cluster_in_the_background_from_its_start_to_its_end(home):
    kubeconfig, kubectls = home / ".kube" / "bayplan.yaml", home / ".kube" / "config"
    options = ("--nodes", "2", "--plugin", "policy.py", "-f", "pod.yaml", "--set-context", "--ui")
    status, output, errors = bayplan_cluster(home, "--detach", *options)
    assert (status, errors) == (0, "")
    assert "cluster with 2 nodes at http://127.0.0.1:" in output
    assert "Its page: http://127.0.0.1:" in output
    assert "Stop it with `bayplan cluster --stop`." in output
    current = yaml.safe_load(kubectls.read_text())
    assert [each["name"] for each in current["contexts"]] == ["kind", "bayplan"]
    assert current["current-context"] == "bayplan"
    async with connect(kubectls) as client:  # it is ready
        assert len((await client.list(NODE)).items) == 2
        async for event in client.watch(POD):
            if event.object.spec.nodeName:
                assert event.object.spec.nodeName == "node-1"
                break
    status, output, errors = bayplan_cluster(home, "--detach")
    assert (status, output) == (2, "")
    assert errors.startswith(f"bayplan cluster: the cluster of {kubeconfig} runs already at http://127.0.0.1:")
    assert errors.endswith("stop it with `bayplan cluster --stop`, or pass another --kubeconfig\n")
    assert bayplan_cluster(home, "--stop") == (0, f"Stopped the cluster of {kubeconfig}\n", "")
    assert yaml.safe_load(kubectls.read_text()) == KUBECTLS
    assert [path.name for path in (home / ".kube").iterdir()] == ["config"]
    assert bayplan_cluster(home, "--stop") == (2, "", f"bayplan cluster: no cluster runs: there is no {kubeconfig}\n")


def test_a_crashed_cluster_is_noticed_and_its_context_restored(home):
    kubeconfig, kubectls = home / "kc.yaml", home / ".kube" / "config"
    named = ("--kubeconfig", "kc.yaml", "--set-context", "--nodes", "0")
    assert bayplan_cluster(home, "--detach", *named)[0] == 0
    os.kill(pid_of(kubeconfig), signal.SIGKILL)
    while cluster_detached.is_running(kubeconfig):  # until the system has released the lock
        pass
    assert bayplan_cluster(home, "--stop", "--kubeconfig", "kc.yaml") == (
        0,
        "The cluster of kc.yaml has ended already: see kc.yaml.log\n",
        "",
    )
    assert yaml.safe_load(kubectls.read_text()) == KUBECTLS


IN_USE = "port {port} on 127.0.0.1 is in use: choose another with --port, or omit --port to use a free one"
ANOTHER = ".kube/config exists and is not the kubeconfig of an embedded cluster: choose another file"


@cases(
    "options, error",
    {
        "port": (("--port", "{port}"), IN_USE),
        "file": (("-f", "none.yaml", "--plugin", "none.py"), "none.yaml: No such file or directory"),
        "kubeconfig": (("--kubeconfig", ".kube/config"), ANOTHER),
        "folder": (("--kubeconfig", "none/kc.yaml"), "cannot write {home}/none/kc.yaml.log: No such file or directory"),
    },
)
def test_a_cluster_that_cannot_start_says_why(options, error, home):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        values = {"port": taken.getsockname()[1], "home": home}
        given = [option.format(**values) for option in options]
        status, output, errors = bayplan_cluster(home, "--detach", "--nodes", "0", *given)
    assert (status, output, errors) == (2, "", f"bayplan cluster: {error.format(**values)}\n")


def test_only_an_embedded_cluster_is_stopped(home):
    status, _, errors = bayplan_cluster(home, "--stop", "--kubeconfig", ".kube/config")
    assert (status, errors) == (2, "bayplan cluster: .kube/config is not the kubeconfig of an embedded cluster\n")


OURS = KUBECTLS | {
    "clusters": [{"name": "bayplan", "cluster": {"server": "http://127.0.0.1:2"}}],
    "contexts": [{"name": "bayplan", "context": {"cluster": "bayplan", "user": "bayplan"}}],
    "users": [{"name": "bayplan", "user": {}}],
    "current-context": "bayplan",
}


def read(file):
    return yaml.safe_load(file.read_text())


class TestContext:
    def test_it_is_restored_after_a_crash_too(self, tmp_path):
        file = tmp_path / "config"
        file.write_text(yaml.safe_dump(KUBECTLS))
        file.chmod(0o640)
        set_context(file, OURS)
        set_context(file, OURS)  # the first cluster crashed
        restore_context(file, "bayplan")
        assert (read(file), file.stat().st_mode & 0o777) == (KUBECTLS, 0o640)

    def test_a_context_that_the_user_chose_meanwhile_stays(self, tmp_path):
        file = tmp_path / "config"
        file.write_text(yaml.safe_dump(KUBECTLS | {"current-context": ""}))
        set_context(file, OURS)
        file.write_text(yaml.safe_dump(read(file) | {"current-context": "kind"}))
        restore_context(file, "bayplan")
        assert read(file)["current-context"] == "kind"

    def test_a_new_file_is_removed_again(self, tmp_path):
        file = tmp_path / ".kube" / "config"
        set_context(file, OURS)
        assert file.stat().st_mode & 0o777 == 0o600
        restore_context(file, "bayplan")
        assert not file.exists()

    def test_a_context_of_the_users_with_the_same_name_stays(self, tmp_path):
        file = tmp_path / "config"
        file.write_text(yaml.safe_dump(OURS))
        with pytest.raises(ContextError, match="has a context 'bayplan' already that isn't of an embedded cluster"):
            set_context(file, OURS)
        assert read(file) == OURS

    @pytest.mark.parametrize("content", ["a: [", "- 1", "contexts: 3"])
    def test_a_broken_file_stays(self, content, tmp_path):
        file = tmp_path / "config"
        file.write_text(content)
        with pytest.raises(ContextError, match=r"config: "):
            set_context(file, OURS)
        assert file.read_text() == content

    def test_the_file_that_kubectl_changes(self, tmp_path):
        there = tmp_path / "b"
        there.touch()
        listed = f"{tmp_path}/a:{there}"
        assert kubectl_file({"KUBECONFIG": listed, "HOME": "/h"}) == there
        assert kubectl_file({"KUBECONFIG": "/x:/y", "HOME": "/h"}) == Path("/y")
        assert kubectl_file({"HOME": "/h"}) == Path("/h/.kube/config")
