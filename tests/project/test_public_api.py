"""The public API: the names that documentation, examples and new projects import, and that docs/api.md lists."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

from bayplan.faces.cli.new_project import Project

ROOT = Path(__file__).parents[2]
PUBLIC = ("bayplan", "bayplan.plugin", "bayplan.testing", "bayplan.client", "bayplan.insight", "bayplan.history")
API_PAGE = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
SCRIPTS = sorted([*ROOT.glob("examples/**/*.py"), ROOT / "src" / "bayplan" / "faces" / "cli" / "demo" / "policy.py"])


def python_blocks(text):
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def sources():
    """Python code that users read: code blocks of pages, scripts, and the files of a new project."""
    for path in PAGES:
        for number, block in enumerate(python_blocks(path.read_text(encoding="utf-8")), start=1):
            yield pytest.param(block, id=f"{path.relative_to(ROOT).as_posix()}, block {number}")
    for path in SCRIPTS:
        yield pytest.param(path.read_text(encoding="utf-8"), id=path.relative_to(ROOT).as_posix())
    for path, text in Project("my-scheduler").files().items():
        blocks = [text] if path.endswith(".py") else python_blocks(text)
        for block in blocks:
            yield pytest.param(block, id=f"bayplan new: {path}")


def internal_imports(code):
    """The imports of `code` that name something of Bayplan that is not public."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found += [each.name for each in node.names if each.name.startswith("bayplan.") and each.name not in PUBLIC]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "bayplan":
            public = import_module(node.module).__all__ if node.module in PUBLIC else ()
            found += [f"{node.module}.{each.name}" for each in node.names if each.name not in public]
    return found


@pytest.mark.parametrize("code", list(sources()))
def test_documented_code_imports_public_names_only(code):
    assert internal_imports(code) == []


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("from bayplan import Plugin, run", []),
        ("import bayplan.testing", []),
        ("from bayplanner import utils", []),
        ("import bayplan.core.api.kinds", ["bayplan.core.api.kinds"]),
        ("from bayplan import lazy", ["bayplan.lazy"]),
        ("from bayplan.client import Client, http", ["bayplan.client.http"]),
        ("def f():\n    from bayplan.core.framework.status import Status", ["bayplan.core.framework.status.Status"]),
    ],
)
def test_internal_imports_are_found(code, found):
    assert internal_imports(code) == found


@pytest.mark.parametrize("module", PUBLIC)
def test_api_page_lists_the_names_of_each_module(module):
    (section,) = re.findall(rf"^## `{re.escape(module)}`\n(.*?)(?=^## |\Z)", API_PAGE, re.MULTILINE | re.DOTALL)
    cells = re.findall(r"^\| (`[^|]*) \|", section, re.MULTILINE)
    listed = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(listed) == sorted(import_module(module).__all__)


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names_can_be_imported(module):
    public = import_module(module)
    assert [name for name in public.__all__ if not hasattr(public, name)] == []
    assert set(public.__all__) <= set(dir(public))


def test_bayplan_reexports_plugin_names():
    root, plugin = import_module("bayplan"), import_module("bayplan.plugin")
    assert set(root.__all__) - set(plugin.__all__) == {"run"}
    assert [name for name in root.__all__ if name != "run" and getattr(root, name) is not getattr(plugin, name)] == []
