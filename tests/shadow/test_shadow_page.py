"""The blocks of docs/shadow.md run in their order, in a fresh folder, beside a scheduler."""

import asyncio
import json
import os
import re
import shlex
import sys
from pathlib import Path

import yaml

from bayplan.client import ClusterAccess, HttpClient
from bayplan.core.api.kinds import POD
from bayplan.testing import make_node, make_pod
from bayplan.testing.documents import as_sent
from bayplan.testing.in_memory import load
from bayplan.testing.running import running_scheduler
from bayplan_devcluster.apiserver import ApiServer

PAGE = (Path(__file__).parents[2] / "docs" / "shadow.md").read_text(encoding="utf-8")
BAYPLAN = Path(sys.executable).with_name("bayplan")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


async def started(line, folder):
    """Start the bayplan command of a line. A shadow has listed the cluster."""
    process = await asyncio.create_subprocess_exec(
        BAYPLAN,
        *shlex.split(line.partition(" | ")[0])[1:],
        cwd=folder,
        env={**os.environ, "KUBECONFIG": str(folder / "kubeconfig")},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    if " shadow " in line:
        said = (await asyncio.wait_for(process.stderr.readline(), 40)).decode()
        assert said.startswith("Comparing default-scheduler of "), said
    return process


async def test_blocks_of_the_page_run(tmp_path):
    (configuration,), (plugin,) = blocks("yaml"), blocks("python")
    (tmp_path / "bin-packing.yaml").write_text(configuration)
    (tmp_path / "cheap.py").write_text(plugin)
    async with ApiServer() as server, HttpClient(server.url) as client:
        (tmp_path / "kubeconfig").write_text(server.kubeconfig())
        load(server, *(make_node(f"node-{n}", cpu=str(4 + n), labels={"spot": str(n == 0).lower()}) for n in range(3)))
        processes = [(line, await started(line, tmp_path)) for block in blocks("sh") for line in block.splitlines()]
        async with running_scheduler(ClusterAccess(server=server.url), scheduler_name="default-scheduler"):
            for number in range(5):
                await client.create(POD, as_sent(make_pod(f"pod-{number}", cpu="300m"))[1])
            output = {line: await asyncio.wait_for(process.communicate(), 40) for line, process in processes}
    assert {process.returncode for _, process in processes} == {0}, output
    first, second, third, manifests = [out.decode() for out, _ in output.values()]
    assert first.startswith("default-scheduler: 5 of 5 decisions equal (100.00%)")
    assert "NodeResourcesFit +" in second
    assert "(cheap +100" in third
    assert {each["kind"] for each in yaml.safe_load_all(manifests)} >= {"ClusterRole", "ConfigMap", "Deployment"}
    assert json.loads((tmp_path / "moved.json").read_text())["tally"]["counts"]
    assert all((tmp_path / f"moved.{ending}").stat().st_size for ending in ("html", "parquet"))
