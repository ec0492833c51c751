"""The commands of docs/provisioning.md work as they are, in a shell."""

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
    printed = in_a_shell(sh_blocks((ROOT / "docs" / "provisioning.md").read_text(encoding="utf-8")), tmp_path)
    assert "provisioningrequest.autoscaling.x-k8s.io/train condition met" in printed
    held = re.search(r'^\{"held-0":"(.*)"\}$', printed, re.MULTILINE)
    assert held is not None, printed
    assert sum(map(int, re.findall(r":(\d+)", held[1]))) == 4
    assert re.search(r"^provisioningrequest default/train +4 +0 ", printed, re.MULTILINE), printed
    assert len(re.findall(r"^train-\S+ ", printed, re.MULTILINE)) == 4
