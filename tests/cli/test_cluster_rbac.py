"""`bayplan cluster --rbac`."""

import json

import pytest
import yaml
from test_cluster_command import serving

from bayplan.client import ApiError, connect
from bayplan.core.api.kinds import NODE, SERVICE_ACCOUNT


async def test_kubeconfig_is_for_an_administrator_and_other_users_need_permissions(tmp_path):
    kubeconfig = tmp_path / "kubeconfig"
    with serving("--rbac", "--nodes", "1", "--kubeconfig", str(kubeconfig)) as (_, _, printed):
        assert "at https://127.0.0.1:" in printed
        async with connect(kubeconfig) as client:
            assert len((await client.list(NODE)).items) == 1
            path = SERVICE_ACCOUNT.path("default", "default", "token")
            token = json.loads(await client.request("POST", path, body=b"{}"))["status"]["token"]
        config = yaml.safe_load(kubeconfig.read_text())
        config["users"][0]["user"] = {"token": token}
        kubeconfig.write_text(json.dumps(config))
        async with connect(kubeconfig) as client:
            with pytest.raises(ApiError) as error:
                await client.list(NODE)
    message = 'nodes is forbidden: User "system:serviceaccount:default:default" cannot list resource "nodes"'
    assert (error.value.status, error.value.message.partition(" in API")[0]) == (403, message)
