"""`bayplan explain POD --watch`: a line for each reason, until the pod has a node."""

import asyncio

import pytest
from click.testing import CliRunner

from bayplan.core.api.kinds import POD
from bayplan.faces.cli import main
from bayplan.faces.cli.insight.watching import follow_pod
from bayplan.insight import Insight, Snapshot
from bayplan.testing import make_node, make_pod
from bayplan.testing.in_memory import load, make_client


class Said:
    """The lines, and a way to wait for the next one."""

    def __init__(self):
        self.lines = []
        self._new = asyncio.Event()

    def __call__(self, text):
        self.lines.append(text)
        self._new.set()

    async def until(self, number):
        async with asyncio.timeout(10):
            while len(self.lines) < number:
                self._new.clear()
                await self._new.wait()


async def test_each_new_reason_is_a_line_and_a_node_is_the_end():
    client, said = make_client(make_node("a", cpu="1"), make_pod("web", cpu="2")), Said()
    following = asyncio.create_task(follow_pod(client, Insight(Snapshot()), "default/web", said, pause=0.01))

    await said.until(1)
    load(client.server, make_node("b", cpu="1"))
    await said.until(2)
    load(client.server, make_pod("other"))  # it changes no reason
    load(client.server, make_node("c", cpu="4"))
    await said.until(3)
    await client.bind("default", "web", "c")

    assert await asyncio.wait_for(following, 10) == 0
    first, second, third, last = said.lines
    assert first.startswith("pending: 0/1 nodes are available: 1 Insufficient cpu.")
    assert second.startswith("pending: 0/2 nodes are available: 2 Insufficient cpu.")
    assert third.startswith("pending: it would be placed now")
    assert last == "placed on node c"


async def test_a_pod_that_is_deleted_ends_with_1():
    client, said = make_client(make_node("a", cpu="1"), make_pod("web", cpu="2")), Said()
    following = asyncio.create_task(follow_pod(client, Insight(Snapshot()), "default/web", said, pause=0.01))

    await said.until(1)
    await client.delete(POD, "web", namespace="default")

    assert await asyncio.wait_for(following, 10) == 1
    assert said.lines[1] == "pod default/web is gone"


async def test_a_pod_that_has_a_node_ends_at_once():
    client, said = make_client(make_node("a"), make_pod("web")), Said()
    await client.bind("default", "web", "a")

    assert await follow_pod(client, Insight(Snapshot()), "default/web", said) == 0
    assert said.lines == ["placed on node a"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explain", "web", "--watch", "--from", "pod.yaml"], "--watch follows a cluster"),
        (["explain", "deployment/web", "--watch", "--from", "pod.yaml"], "--watch follows one pod"),
        (["explain", "--all-pending", "--watch", "--from", "pod.yaml"], "--watch follows one pod"),
    ],
)
def test_only_one_pod_of_a_cluster_can_be_followed(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pod.yaml").write_text("{apiVersion: v1, kind: Pod, metadata: {name: web}}")

    result = CliRunner().invoke(main, arguments)

    assert result.exit_code == 2
    assert message in result.stderr
