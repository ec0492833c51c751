"""The commands of docs/gangs.md work as they are, in a shell."""

import re
import shutil
from pathlib import Path

import pytest
from tests.support.pages import in_a_shell, sh_blocks

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on the PATH")
@pytest.mark.timeout(700)
def test_the_commands_of_the_page(tmp_path):
    for name in ("deploy", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    printed = in_a_shell(sh_blocks((ROOT / "docs" / "gangs.md").read_text(encoding="utf-8")), tmp_path)
    assert printed.count("Stopped the cluster of kc.yaml") == 2
    assert len(re.findall(r"^podgroup.scheduling.x-k8s.io/(?:red|blue) +(?!created)", printed, re.MULTILINE)) >= 2
    assert len(re.findall(r"^podgroup.scheduling.k8s.io/(?:red|blue) +(?!created)", printed, re.MULTILINE)) >= 2
