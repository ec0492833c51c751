"""`bayplan cluster --pod-groups`."""

import re
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from test_cluster_command import serving

from bayplan.client import connect
from bayplan.core.api.kinds import CLUSTER_ROLE, POD_GROUP, POD_GROUP_V1ALPHA2
from bayplan.faces.cli.cluster import cluster

EXAMPLE = Path(__file__).parents[2] / "examples" / "pod-groups" / "red-and-blue.yaml"
"""Manifests for Kubernetes 1.37."""


@pytest.mark.parametrize(("version", "kind"), [("1.36", POD_GROUP_V1ALPHA2), ("1.37", POD_GROUP)])
async def test_pod_groups_are_served_and_schedulers_may_read_them(version, kind, tmp_path):
    file = tmp_path / "groups.yaml"
    file.write_text(EXAMPLE.read_text(encoding="utf-8").replace("k8s.io/v1beta1", f"k8s.io/{kind.version}"))
    arguments = ("--emulated-version", version, "--pod-groups", "--rbac", "--nodes", "0", "-f", str(file))
    with serving(*arguments) as (_, kubeconfig, printed):
        assert re.search(r"^4 objects created$", printed, re.MULTILINE)
        async with connect(kubeconfig) as client:
            groups = (await client.list(kind)).items
            role = await client.get(CLUSTER_ROLE, "system:kube-scheduler")
    assert {group.metadata.name: group.spec.schedulingPolicy.gang.minCount for group in groups} == {"red": 4, "blue": 4}
    assert any("podgroups/status" in (rule.resources or ()) for rule in role.rules)


async def test_the_version_follows_from_the_objects():
    with serving("--pod-groups", "--nodes", "0", "-f", str(EXAMPLE)) as (_, kubeconfig, printed):
        assert re.search(r"^4 objects created$", printed, re.MULTILINE)
        async with connect(kubeconfig) as client:
            info = msgspec.json.decode(await client.request("GET", "/version"))
    assert (info["minor"], info["gitVersion"]) == ("37", "v1.37.2")


def test_an_unread_version_is_a_mistake():
    result = CliRunner().invoke(cluster, ["--emulated-version", "1.39"])
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == (
        "Error: Invalid value for '--emulated-version': unknown version '1.39': expected one of 1.36, 1.37"
    )
