"""The commands of docs/replay.md work as they are, in a shell."""

import re
import shutil
from pathlib import Path

import pytest
from tests.support.pages import in_a_shell, sh_blocks

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on the PATH")
@pytest.mark.timeout(700)
def test_the_commands_of_the_page(tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    printed = in_a_shell(sh_blocks((ROOT / "docs" / "replay.md").read_text(encoding="utf-8")), tmp_path)
    assert "all are the same" in printed
    assert re.search(r"pod default/urgent was placed on node node-\d", printed)
    assert re.search(r"it preempts \d pods? on node node-\d", printed)
    assert "chosen the same node, or one as good" in printed
