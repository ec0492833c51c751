"""The roles of `bayplan manifests --shadow` and `--recorder` suffice, and each permission is needed.

All permissions of a verb are revoked at once; the log must name each. `test_permissions.py` has the scheduler's.
"""

import asyncio
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from shipped import manifests as manifests_of
from tests.support.waiting import until

from bayplan.answers.history.recording import HistoryRecorder
from bayplan.answers.history.recording_session import RecorderPace
from bayplan.answers.shadow.following import ShadowError, ShadowFollower
from bayplan.answers.shadow.shadow import Shadow
from bayplan.answers.simulation.world import World
from bayplan.client import HttpClient, load_kubeconfig
from bayplan.core.versions import gates_of, with_gangs
from bayplan.faces.cli.manifests import manifests
from bayplan.testing import make_node, make_pod
from bayplan.testing.in_memory import load
from bayplan_devcluster.apiserver import ApiServer
from bayplan_devcluster.apiserver.authorization.attributes import Attributes
from bayplan_devcluster.manifests import read

TOKEN, READER = "readers-token", "reader"
GROUP = "rbac.authorization.k8s.io"
REQUIRED = {"nodes", "pods"}
DEFINITIONS = Path(__file__).parents[2] / "src" / "bayplan_plugins" / "definitions"


def role(what: str) -> dict:
    printed = CliRunner().invoke(manifests, [f"--{what}", "--image", "registry.example/bayplan:0.2.0"])
    (found,) = (each for each in yaml.safe_load_all(printed.stdout) if each["kind"] == "ClusterRole")
    return found


def granted(found: dict) -> set[tuple[str, str]]:
    """What a role allows: (verb, resource)."""
    return {
        (verb, f"{resource}.{rule['apiGroups'][0]}".rstrip("."))
        for rule in found["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def without(found: dict, revoked: set[tuple[str, str]]) -> dict:
    rules = []
    for verb, resource in sorted(granted(found) - revoked):
        plural, _, group = resource.partition(".")
        rules.append({"apiGroups": [group], "resources": [plural], "verbs": [verb]})
    return {**found, "rules": rules}


def named(request: Attributes) -> str:
    return f"{request.resource}.{request.group}".rstrip(".")


@asynccontextmanager
async def reading(what: str, folder: Path, revoked: set[tuple[str, str]] = frozenset()):
    """A shadow or a recorder with its role but for what is revoked: its task, and what it has asked for."""
    asked = set()
    async with ApiServer(version="1.37", alpha=True, rbac=True, tokens={TOKEN: READER}) as server:
        load(server, make_node("a"), make_pod("old", node="a"))
        subject = {"kind": "User", "name": READER, "apiGroup": GROUP}
        binding = {
            "apiVersion": f"{GROUP}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "reader"},
            "subjects": [subject],
            "roleRef": {"kind": "ClusterRole", "name": f"bayplan-{what}", "apiGroup": GROUP},
        }
        custom = [
            each.document for each in (*manifests_of("podgroup-crd.yaml"), *read([DEFINITIONS / "elasticquotas.yaml"]))
        ]
        server.load([*custom, without(role(what), revoked), binding])
        server.access.audit.append(lambda _, request, *__: asked.add((request.verb, named(request))))
        path = folder / "kubeconfig"
        path.write_text(server.kubeconfig())
        async with HttpClient(load_kubeconfig(path)) as client:
            if what == "shadow":
                gates = with_gangs(gates_of("1.37"))
                shadow = Shadow(World(None, (), gates), {"default-scheduler"}, None, None)
                reader = ShadowFollower(client, shadow, lambda _: None)
            else:
                reader = HistoryRecorder(client, folder / "h", "a test", pace=RecorderPace(tick_seconds=0.05))
            task = asyncio.create_task(reader.run())
            try:
                yield task, asked
            finally:
                task.cancel()
                await asyncio.wait((task,))


@pytest.mark.parametrize("what", ["shadow", "recorder"])
async def test_every_permission_is_used(what, tmp_path):
    async with reading(what, tmp_path) as (task, asked):
        await until(lambda: asked >= granted(role(what)) or task.done(), within=30)
    assert not granted(role(what)) - asked


def revocable(what: str, verb: str) -> Iterator[str]:
    return (resource for each, resource in sorted(granted(role(what))) if each == verb and resource not in REQUIRED)


@pytest.mark.parametrize("verb", ["list", "watch"])
@pytest.mark.parametrize("what", ["shadow", "recorder"])
async def test_a_missing_permission_is_named(what, verb, tmp_path, caplog):
    resources = list(revocable(what, verb))
    assert len(resources) > 10
    async with reading(what, tmp_path, {(verb, resource) for resource in resources}):
        missing = [f'cannot {verb} resource "{resource.partition(".")[0]}"' for resource in resources]
        await until(lambda: all(text in caplog.text for text in missing), within=30)
    assert 'cannot list resource "nodes"' not in caplog.text


@pytest.mark.parametrize("verb", ["list", "watch"])
@pytest.mark.parametrize("resource", sorted(REQUIRED))
async def test_a_shadow_ends_without_what_is_required(resource, verb, tmp_path):
    async with reading("shadow", tmp_path, {(verb, resource)}) as (task, _):
        with pytest.raises(ShadowError, match=f"cannot read the {resource}: .*cannot {verb} resource"):
            await asyncio.wait_for(task, 20)
