"""The blocks of the pages that start a cluster, a scheduler or an extender work, pasted in order into a fresh shell.

Commands that serve until they are stopped go to the background here, and what follows waits until they serve. Ports
are free ones. `test_first_contact.py` runs the blocks of the README, and `tests/end_to_end/test_*_page.py` those of
gangs.md and replay.md.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tests.project.test_hostile_files import CLUSTER as CLUSTER_OF_ONE
from tests.support.pages import in_a_shell
from tests.support.tables import cases

ROOT = Path(__file__).parents[2]
POLICY = """
from bayplan import Plugin, filter_plugin

class Quota(Plugin):
    name = "Quota"

    def filter(self, cycle, pod, node):
        return None

@filter_plugin
def tier(pod, node):
    return None
"""
CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {filter: {enabled: [{name: tier}]}}
"""
SHELL = """
served=()
serve() {
  local ready=$1 out; shift
  out=$(mktemp)
  "$@" >"$out" 2>&1 &
  served+=($!)
  until grep -q "$ready" "$out"; do
    if ! kill -0 $! 2>/dev/null; then cat "$out" >&2; exit 1; fi
    sleep 0.1
  done
  cat "$out"
}
stop() {
  for ((number = ${#served[@]} - 1; number >= 0; number--)); do
    kill "${served[number]}" 2>/dev/null && wait "${served[number]}" 2>/dev/null
  done
  for kubeconfig in $(grep -ls 'current-context: bayplan' *.yaml .kube/*.yaml); do
    bayplan cluster --stop --kubeconfig "$kubeconfig"
  done
}
trap 'status=$?; set +e; stop; exit $status' EXIT
set -m
"""
READY = {"cluster": "Press Ctrl-C", "run": "ready: ", "extender": "urlPrefix"}
"""What a command prints once it serves."""
CLUSTER = "bayplan cluster --detach --nodes 1 --kubeconfig own.yaml\nexport KUBECONFIG=own.yaml"
SECTIONS = {
    "in the background": ("devcluster", ["bayplan cluster --stop\n"], r"Stopped the cluster of dev\.yaml"),
    "a copy of another cluster": ("devcluster", ["bayplan cluster --filename cluster.bayplan"], r"with 1 node at"),
    "permissions": ("deploying", ["bayplan cluster --rbac --port"], r"ready: \d+ nodes"),
    "running plugins": (
        "plugins",
        [CLUSTER, "bayplan run --plugin policy.py --scheduler-name"],
        r"built-in ones: .*Other",
    ),
    "an extender": ("extender", ["bayplan extender"], r"filterVerb: filter"),
}
"""The page of each section, its blocks by a part of each, and what it prints. What no block has is pasted as it is."""


def pasted(page: str, parts: list[str]) -> str:
    """The blocks of a page with these parts, and what isn't among them."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return "\n".join(next((block for block in blocks if part in block), part) for part in parts)


def script(text: str) -> str:
    """Lines for bash: what serves goes to the background."""
    lines = []
    for line in text.splitlines():
        command = re.match(r"bayplan (cluster|run|extender)\b", line)
        serves = command is not None and not re.search(r"&$|--detach|--stop", line)
        lines.append(f"serve '{READY[command[1]]}' {line}" if command is not None and serves else line)
    return "\n".join(lines)


@pytest.mark.kubectl
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on the PATH")
@cases("page, parts, shown", SECTIONS)
@pytest.mark.timeout(700)
def test_blocks_of_a_section_work_in_their_order(tmp_path, page, parts, shown):
    (tmp_path / "policy.py").write_text(POLICY)
    (tmp_path / "scheduler.yaml").write_text(CONFIGURATION)
    (tmp_path / "my_scheduler").mkdir()
    (tmp_path / "my_scheduler/plugins.py").write_text(POLICY.replace("Quota", "Other").replace("tier", "zone"))
    (tmp_path / "dump.json").write_bytes(CLUSTER_OF_ONE)
    printed = in_a_shell(SHELL + script(pasted(page, parts)), tmp_path, PYTHONPATH=str(tmp_path))
    assert re.search(shown, printed), printed
