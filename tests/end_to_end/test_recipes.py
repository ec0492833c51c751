"""Each recipe in docs/recipes works as it is, pasted into a fresh shell, and prints what it shows."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.support.pages import in_a_shell, sh_blocks

from bayplan.faces.cli import main

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "docs" / "recipes").glob("[a-z]*.md"))
PRINTED = {
    "bin-packing": [r"^ +4 node-\d$", "nodes, average"],
    "jupyterhub": [r"^1$", "user-placeholder", r"\d+ (sets|copies|more pods|pods)"],
    "slurm": ["gang render: ", r"pods? from pending to placed"],
    "your-own-scheduler": [r"pod/polled condition met\n(.*\n)*pod/plugged condition met"],
}
"""What the commands of a page print besides its blocks of text."""


def in_this_process(commands):
    """What commands about files print. It is what a shell does with them, without a process for each."""
    printed = ""
    for line in commands.splitlines():
        command, *more = re.split(r" (\|\||>) ", line)
        words = shlex.split(command)
        if words[0] == "bayplan":
            done = CliRunner().invoke(main, words[1:], catch_exceptions=False)
            status, out = done.exit_code, done.stdout
        else:
            run = subprocess.run([sys.executable, *words[1:]], capture_output=True, text=True, check=True)
            status, out = 0, run.stdout
        if more[:1] == [">"]:
            Path(more[1]).write_text(out)
            out = ""
        assert status == 0 or more == ["||", 'echo "exit status $?"'], line
        printed += out + (f"exit status {status}\n" if status else "")
    return printed


@pytest.mark.timeout(700)
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_the_commands_of_a_recipe(recipe, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("examples", "deploy"):
        (tmp_path / name).symlink_to(ROOT / name)
    page = recipe.read_text(encoding="utf-8")
    commands = sh_blocks(page)
    shown = "".join(re.findall(r"^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)).splitlines()
    if "kubectl" not in commands:
        out = in_this_process(commands)
    elif shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl on the PATH")
    else:
        out = in_a_shell(commands, tmp_path)
    printed = re.sub(r"\s+", " ", out)
    assert [line for line in shown if line not in printed] == [], out
    for pattern in PRINTED.get(recipe.stem, []):
        assert re.search(pattern, out, re.MULTILINE), out


def test_every_page_has_commands_and_something_to_see():
    listed = re.findall(r"^- \[.*\]\((.*)\)$", (ROOT / "docs" / "recipes" / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == [page.name for page in RECIPES]
    for page in RECIPES:
        text = page.read_text(encoding="utf-8")
        assert "```sh" in text, page
        assert "```text" in text or PRINTED[page.stem], page
