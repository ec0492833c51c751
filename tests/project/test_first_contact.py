"""The first commands of the README work as they are, pasted in order into a fresh shell."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tests.support.pages import in_a_shell, sh_blocks

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
AFTER_MAKE = "source .venv/bin/activate\n"
"""What comes before needs no test here: the targets of the Makefile have their own."""
BEFORE = "## Run it on a cluster"
"""From here on, the commands are for a cluster of the reader's."""


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on the PATH")
@pytest.mark.timeout(700)
def test_the_first_commands_of_the_readme(tmp_path):
    for folder in ("deploy", "examples"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    printed = in_a_shell(sh_blocks(README.partition(BEFORE)[0].partition(AFTER_MAKE)[2]), tmp_path)
    assert "Insufficient cpu: lacks 2" in printed
    assert re.search(r"default/urgent  preempts  node-\d  +default/api-\w+-\w+\n", printed)
    assert re.search(r"it evicted pods default/batch-\S+ default/batch-\S+ from node (node-\d) .*\n", printed)
    assert re.search(r"pod default/urgent: it was placed on node node-\d\n", printed)
    assert "what would help (each was tried)" in printed
    assert "provisioningrequest.autoscaling.x-k8s.io/train condition met" in printed
    assert "pod/tiered condition met" in printed
    assert 'deployment "nginx" successfully rolled out' in printed
    lines = {line.rstrip() for line in printed.splitlines()}
    shown = re.findall(r"^```text\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert [len(block.splitlines()) for block in shown] == [5, 16]
    assert [line for block in shown for line in block.splitlines() if line not in lines] == []
    assert not (tmp_path / ".kube" / "config").exists()  # kubectl has its former context, which is none
