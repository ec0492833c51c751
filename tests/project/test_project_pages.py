"""The documentation is correct: commands exist, links resolve, and the policy in the README can be loaded."""

from __future__ import annotations

import re
import shlex
import subprocess
import xml.etree.ElementTree as ET
from importlib import import_module
from pathlib import Path

import click
import pytest

from bayplan.core.config import load_plugins
from bayplan.core.plugins.registry import PLUGINS
from bayplan.faces.cli import main

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z0-9-]+):", MAKEFILE, re.MULTILINE))


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def commands():
    """Every bayplan command line of every page, in code blocks and in running text."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        lines = [line for block in blocks(text, "sh") for line in block.splitlines()]
        lines += re.findall(r"`([^`\n]+)`", text)
        for line in lines:
            if re.match(r"bayplan [a-z]", line):
                yield pytest.param(line, id=f"{page.name}: {line.partition('#')[0].strip()}")


@pytest.mark.parametrize("line", list(commands()))
def test_documented_bayplan_commands_and_options_exist(line):
    words = shlex.split(line.partition(" | ")[0], comments=True)[1:]
    command = main.get_command(click.Context(main), words[0])
    assert command is not None, f"there is no bayplan {words[0]}"
    if isinstance(command, click.Group) and len(words) > 1:
        del words[0]
        command = command.get_command(click.Context(command), words[0])
        assert command is not None, f"there is no command {words[0]}"
    known = {option: each for each in command.params for option in each.opts + each.secondary_opts}
    for word in words[1:]:
        if word.startswith("-"):
            assert word in known, f"bayplan {words[0]} has no {word}"


def test_documented_make_targets_exist():
    named = {
        (page.name, target)
        for page in PAGES
        for target in re.findall(r"(?:^|`)make ([a-z0-9-]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert {("README.md", "demo"), ("README.md", "test")} <= named
    assert [(page, target) for page, target in sorted(named) if target not in TARGETS] == []


def anchors(page):
    titles = re.findall(r"^#+ (.*)", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_existing_files_and_headings(page):
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            path, _, anchor = target.partition("#")
            linked = page.parent / path if path else page
            assert linked.exists(), target
            assert not anchor or anchor in anchors(linked), target


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/devcluster.md"])
def test_source_files_in_pages_for_contributors_exist(page):
    named = re.findall(r"`([\w/*-]+\.py)`", (ROOT / page).read_text(encoding="utf-8"))
    files = [path for folder in ("src", "tests", "tools") for path in ROOT.glob(f"{folder}/**/*.py")]
    assert named
    assert [name for name in named if not any(path.match(name) for path in files)] == []


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/dependencies.md"])
def test_modules_and_names_in_pages_for_contributors_exist(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    named = set(re.findall(r"(?<![\w.])bayplan(?:\.[a-z]\w*)+", text))
    assert named
    assert [name for name in sorted(named) if not is_module(name)] == []
    owned = re.findall(r"`([A-Z]\w*(?:\.\w+)?)(?:\([^`]*\))?` of `(bayplan[\w.]+)`", text)
    assert [(name, path) for name, path in owned if not has(import_module(path), name)] == []


def is_module(name):
    path = ROOT / "src" / name.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").is_file()


def has(owner, name):
    for part in name.split("."):
        owner = getattr(owner, part, None)
    return owner is not None


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_paths_in_pages_for_contributors_exist(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    paths = re.findall(r"`((?:src|tests|tools|docs|deploy)/[\w./-]+)`", text)
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("source", re.findall(r"`((?:src|tests|benchmarks|examples|deploy)/[\w./-]+)`", README))
def test_paths_in_the_readme_exist(source):
    assert (ROOT / source).exists()


def test_readme_policy_has_ten_lines_and_can_be_loaded(tmp_path):
    code = blocks(README, "python")[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    policy = tmp_path / "policy.py"
    policy.write_text(code, encoding="utf-8")
    assert [plugin.name for plugin in load_plugins([str(policy)])] == ["tier", "cheap"]


def test_readme_policy_is_among_the_examples():
    assert (ROOT / "examples" / "policy" / "policy.py").read_text(encoding="utf-8") == blocks(README, "python")[0]


@pytest.mark.parametrize("plugin", PLUGINS)
def test_readme_lists_every_plugin_as_supported(plugin):
    rows = [row for row in README.splitlines() if row.startswith("|") and re.search(rf"\b{plugin}\b", row)]
    assert rows, f"{plugin} is not in the table"
    assert all("| yes" in row for row in rows), f"{plugin} is supported, but the table does not say so"


def test_demo_picture_is_an_svg_with_bound_pods():
    picture = (ROOT / "docs" / "demo.svg").read_text(encoding="utf-8")
    assert ET.fromstring(picture).tag.endswith("svg")
    assert "bound" in picture


def test_make_help_lists_the_main_targets():
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    listed = set(re.findall(r"make ([a-z0-9-]+)", done.stdout))
    assert {"help", "install", "demo", "test", "lint", "conformance", "perf"} <= listed <= TARGETS
