import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.control_plane import ASSETS, Assets, ControlPlane, ControlPlaneError
from tests.support.tables import cases
from tests.support.waiting import eventually

from bayplan.client import ApiError, HttpClient, TransportError, load_kubeconfig
from bayplan.core.api.kinds import CONFIG_MAP, NODE, POD

SERVES_NOTHING = "#!/bin/sh\nexec sleep 60\n"
DIES = "#!/bin/sh\necho it hurts >&2\nexit 3\n"


def program(path: Path, text: str, mode: int = 0o755) -> None:
    path.write_text(text)
    path.chmod(mode)


@cases(
    "environment, message",
    {
        "unset": ({}, f"{ASSETS} is not set: it names a folder with etcd and kube-apiserver"),
        "empty": ({ASSETS: ""}, f"{ASSETS} is not set: it names a folder with etcd and kube-apiserver"),
        "no folder": ({ASSETS: "{folder}/none"}, f"{ASSETS} names {{folder}}/none, which is not a folder"),
        "half": ({ASSETS: "{folder}"}, f"{ASSETS} names {{folder}}, in which there is no program kube-apiserver"),
    },
)
def test_missing_assets_are_one_line_errors(environment, message, tmp_path):
    program(tmp_path / "etcd", SERVES_NOTHING)
    program(tmp_path / "kube-apiserver", SERVES_NOTHING, mode=0o644)
    with pytest.raises(ControlPlaneError) as error:
        Assets.find({name: value.format(folder=tmp_path) for name, value in environment.items()})
    assert str(error.value) == message.format(folder=tmp_path)


@cases(
    "etcd, api_server, patience, message",
    {
        "etcd dies": (DIES, SERVES_NOTHING, 60, "etcd ended with status 3: it hurts"),
        "server dies": (SERVES_NOTHING, DIES, 60, "kube-apiserver ended with status 3: it hurts"),
        "server hangs": (SERVES_NOTHING, SERVES_NOTHING, 0.3, "kube-apiserver is not ready after 0.3 s: GET "),
    },
)
async def test_a_control_plane_that_does_not_start_leaves_nothing_behind(
    etcd, api_server, patience, message, tmp_path, monkeypatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    program(tmp_path / "etcd", etcd)
    program(tmp_path / "kube-apiserver", api_server)
    plane = ControlPlane(Assets(tmp_path / "etcd", tmp_path / "kube-apiserver"), start_timeout=patience)
    with pytest.raises(ControlPlaneError) as error:
        await plane.__aenter__()
    assert str(error.value).startswith(message)
    assert plane.running == []
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="there is no setpriv here")
def test_servers_do_not_outlive_a_test_run_that_is_killed(tmp_path):
    program(tmp_path / "etcd", f"#!/bin/sh\necho $$ >{tmp_path}/pid\nexec sleep 60\n")
    program(tmp_path / "kube-apiserver", SERVES_NOTHING)
    source = (
        "import asyncio, pathlib\n"
        "from tests.support.control_plane import Assets, ControlPlane\n"
        f"folder = pathlib.Path({str(tmp_path)!r})\n"
        "asyncio.run(ControlPlane(Assets(folder / 'etcd', folder / 'kube-apiserver')).__aenter__())\n"
    )
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", source], env=environ) as run:
        eventually((tmp_path / "pid").exists)
        pid = int(eventually((tmp_path / "pid").read_text))
        run.kill()
    eventually(lambda: not alive(pid))


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:1]


@pytest.mark.apiserver
@pytest.mark.skipif(not os.environ.get(ASSETS), reason=f"{ASSETS} is not set")
async def test_users_have_their_permissions_and_data_survives_a_restart():
    async with ControlPlane() as plane:
        rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "get"]}]
        async with HttpClient(
            load_kubeconfig(await plane.service_account("bayplan", rules=rules)), retries=0
        ) as client:
            assert (await client.list(NODE)).items == []
            await client.create(CONFIG_MAP, {"metadata": {"name": "kept"}, "data": {"a": "b"}})
            with pytest.raises(
                ApiError, match='User "system:serviceaccount:kube-system:bayplan" cannot create resource "nodes"'
            ) as error:
                await client.create(NODE, {"metadata": {"name": "n"}})
            assert error.value.status == 403

            plane.stop_api_server(kill=True)
            with pytest.raises(TransportError):
                await client.list(POD)
            await plane.start_api_server()
            assert (await client.get(CONFIG_MAP, "kept")).data == {"a": "b"}
    assert plane.running == []
    assert not plane.folder.exists()
