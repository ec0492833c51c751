"""The site: its navigation has pages that exist, its requirements are pinned, and its check finds what it is for.

`make site` builds and checks all of it; `.ci/run` runs that.
"""

import importlib.util
import re
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ELSEWHERE = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
"""The pages that tools/site_pages.py takes from outside of docs/; README.md is index.md."""
GOOD = (
    '<link rel="stylesheet" href="a.css"><h1 id="top">x</h1><a href="b.html#there">b</a><a href="#top">up</a>'
    '<a href="https://example.org">elsewhere</a><img src="data:image/png;base64,AAAA">'
)


class _Loader(yaml.SafeLoader):
    """Reads mkdocs.yml, but for what its tags stand for."""


_Loader.add_multi_constructor("!", lambda *_: None)
_Loader.add_multi_constructor("tag:yaml.org,2002:python", lambda *_: None)
CONFIG = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Loader=_Loader)


@pytest.fixture
def check(monkeypatch):
    """tools/site_check.py, which finds the browser in tests/ui."""
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "ui"))
    spec = importlib.util.spec_from_file_location("site_check", ROOT / "tools" / "site_check.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.modules.pop("site_check", None)


def pages(part):
    if isinstance(part, str):
        yield part
    for each in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from pages(each)


def test_the_navigation_has_every_page_once():
    made = {name.lower().replace("readme", "index") for name in ELSEWHERE} | {"reference", "recipes"}
    named = list(pages(CONFIG["nav"]))
    assert len(named) == len(set(named))
    assert [name for name in named if name not in made and not (ROOT / "docs" / name).exists()] == []
    assert made <= set(named)


def test_the_site_loads_no_font_of_another_server():
    assert CONFIG["theme"]["font"] is False
    assert CONFIG["strict"] is True


def test_its_requirements_are_pinned_without_a_registry():
    text = (ROOT / "requirements" / "site.txt").read_text(encoding="utf-8")
    entries = re.split(r"\n(?=\w)", text.partition("\n")[2])
    pinned = [entry for entry in entries if re.match(r"[\w.-]+==", entry)]
    assert {"mkdocs-material", "mkdocstrings-python", "mike"} <= {entry.partition("==")[0] for entry in pinned}
    assert all("--hash=sha256:" in entry for entry in pinned)
    assert "://" not in text


@pytest.mark.parametrize(
    ("html", "problem"),
    [
        ('<a href="gone.html">x</a>', "a.html: links to gone.html, which is not there"),
        ('<a href="b.html#gone">x</a>', "a.html: links to b.html#gone, which has no such heading"),
        ('<img src="gone.png">', "a.html: loads gone.png, which is not there"),
        (
            '<script src="https://cdn.example/x"></script>',
            "a.html: loads https://cdn.example/x from another server",
        ),
        (
            '<link rel="preconnect" href="https://fonts.example">',
            "a.html: loads https://fonts.example from another server",
        ),
        ('<div style="background: url(//x.example/a.png)">', "a.html: loads //x.example/a.png from another server"),
    ],
)
def test_the_check_finds_what_is_wrong(check, tmp_path, html, problem):
    (tmp_path / "a.css").write_text("body { background: url(a.png) }")
    (tmp_path / "a.html").write_text(GOOD)
    (tmp_path / "b.html").write_text('<h2 id="there">b</h2>')
    assert list(check.problems(tmp_path)) == []
    check._page.cache_clear()
    (tmp_path / "a.html").write_text(GOOD + html)
    assert list(check.problems(tmp_path)) == [problem]
    (tmp_path / "a.css").write_text("@import 'https://fonts.example/a.css';")
    assert "a.css: loads https://fonts.example/a.css from another server" in list(check.problems(tmp_path))
