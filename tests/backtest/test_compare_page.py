"""docs/compare.md: its commands run, and print the table that the page shows."""

import re
import shlex
import shutil
from pathlib import Path

from click.testing import CliRunner

from bayplan.faces.cli import main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "compare.md").read_text(encoding="utf-8")


def test_the_page_shows_what_its_commands_print(tmp_path, monkeypatch):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    commands, shown = (
        re.search(rf"^```{kind}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[1] for kind in ("sh", "text")
    )
    printed = []
    for command in commands.splitlines():
        result = CliRunner().invoke(main, shlex.split(command, comments=True)[1:], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        printed += [line.rstrip() for line in result.stdout.splitlines()]
    lines = shown.splitlines()
    assert lines[-1] == "..."
    assert len(lines) > 15
    assert [line for line in lines[:-1] if line not in printed] == []
