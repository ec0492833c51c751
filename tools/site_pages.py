"""The pages of the site that are not in docs/: a hook of MkDocs, which mkdocs.yml names.

The README is the first page. Each door of the public API has a page from its docstrings. Files of the repository that
pages link to are pages, too, so that no link leaves the site. `llms.txt` lists all pages for language models.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""The pages outside of docs/, and what they are called on the site."""
DOORS = ("bayplan", "bayplan.plugin", "bayplan.testing", "bayplan.client", "bayplan.insight", "bayplan.history")
"""The modules of the public API."""
FILES = "files"
"""The folder of the site with the files of the repository."""
SHOWN = 100_000
"""The longest file, in characters, that is shown as a page."""
LANGUAGES = {
    ".py": "python",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".json": "json",
    ".sh": "sh",
    ".md": "md",
    ".toml": "toml",
}
_LINK = re.compile(r"(\]\()([^()\s#:]*)(#[^()\s]*)?(\))")
"""A link or an image of Markdown with a relative address."""
_FENCE = re.compile(r"^(`{3,}).*?^\1`*$", re.MULTILINE | re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of the doors and the recipes into the navigation, and at its end those that it doesn't name."""
    list_of_them = (ROOT / "docs" / "recipes" / "README.md").read_text(encoding="utf-8")
    recipes = [
        "recipes/README.md",
        *(f"recipes/{found[1]}" for found in re.finditer(r"\]\((\w[\w-]*\.md)\)", list_of_them)),
    ]
    names = {"reference": [{door: f"reference/{door}.md"} for door in DOORS], "recipes": recipes}
    config.nav = _expanded(config.nav, names)
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    if others := sorted(pages - set(_named(config.nav))):
        config.nav.append({"More": others})
    return config


def _expanded(part: Any, names: dict[str, list[Any]]) -> Any:
    if isinstance(part, list):
        return [
            each
            for item in part
            for each in (names.get(item) or [item] if isinstance(item, str) else [_expanded(item, names)])
        ]
    if isinstance(part, dict):
        return {title: _expanded(item, names) for title, item in part.items()}
    return part


def _named(part: Any) -> Iterator[str]:
    """The pages that a part of the navigation names."""
    if isinstance(part, str):
        yield part
    for each in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from _named(each)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    for name, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    for door in DOORS:
        text = f"# `{door}`\n\n[What each name is](../api.md)\n\n::: {door}\n"
        files.append(File.generated(config, f"reference/{door}.md", content=text))
    wanted: dict[str, None] = {}
    for file in list(files.documentation_pages()):
        text = file.content_string
        for found in _LINK.finditer(_FENCE.sub("", text)):
            path = _in_repository(file.src_uri, found[2])
            if path is not None and path not in PAGES and not path.startswith("docs/"):
                wanted[path] = None
    known = set(PAGES)
    for path in wanted:
        _add(files, config, ROOT / path, known)
    images = os.environ.get("SITE_SCREENSHOTS")
    for picture in sorted(Path(images).glob("*.png")) if images else ():
        file = files.get_file_from_path(f"images/{picture.name}")
        if file is None:
            raise SystemExit(f"docs/ has no images/{picture.name}, which a screenshot would replace")
        files.remove(file)
        files.append(File.generated(config, f"images/{picture.name}", abs_src_path=str(picture)))
    return files


def _in_repository(page: str, target: str) -> str | None:
    """The path in the repository that a link of a page leads to, if there is one."""
    if not target or target.startswith(("/", "http")):
        return None
    source = next((name for name, shown in PAGES.items() if shown == page), f"docs/{page}")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    return path if not path.startswith("..") and (ROOT / path).exists() else None


def _page_of(path: str) -> str:
    """The page of a file of the repository. MkDocs leaves out what begins with a dot."""
    return f"{FILES}/{'/'.join(part.lstrip('.') for part in path.split('/'))}.md"


def _add(files: Files, config: MkDocsConfig, path: Path, known: set[str]) -> None:
    """Add a page for a file, or for a folder with all that is in it."""
    name = path.relative_to(ROOT).as_posix()
    if name in known:
        return
    known.add(name)
    head = "---\nsearch: {exclude: true}\n---\n\n"
    if path.is_dir():
        inside = sorted(each for each in path.iterdir() if not each.name.startswith((".", "__pycache__")))
        for each in inside:
            _add(files, config, each, known)
        shown = [f"- [{each.name}]({path.name}/{each.name}.md)\n" for each in inside]
        content = f"{head}# {name}\n\n{''.join(shown)}"
    else:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            text = f"({path.stat().st_size:,} bytes)"
        if len(text) > SHOWN:
            text = f"{text[:SHOWN]}\n... ({len(text):,} characters)"
        fence = "`" * (3 + max((len(run) for run in re.findall(r"`{3,}", text)), default=0))
        content = f"{head}# {name}\n\n{fence}{LANGUAGES.get(path.suffix, 'text')}\n{text.rstrip()}\n{fence}\n"
    files.append(File.generated(config, _page_of(name), content=content))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead the links that leave docs/ to the pages that the site has."""
    del config, files
    if page.file.src_uri.startswith(f"{FILES}/"):
        return markdown

    def led(match: re.Match[str]) -> str:
        path = _in_repository(page.file.src_uri, match[2])
        if path is None:
            return match[0]
        shown = PAGES.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else _page_of(path))
        here = posixpath.dirname(page.file.src_uri)
        return f"{match[1]}{posixpath.relpath(shown, here or '.')}{match[3] or ''}{match[4]}"

    parts: list[str] = []
    end = 0
    for fence in _FENCE.finditer(markdown):
        parts += [_LINK.sub(led, markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, _LINK.sub(led, markdown[end:])])


_shown: list[tuple[str, str, str]] = []
"""The pages of the navigation: section, address and Markdown."""


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:
    """Remember the pages in the order of the navigation."""
    del config, files
    _shown[:] = [
        (page.parent.title if page.parent is not None else "", page.file.src_uri, page.file.content_string)
        for page in nav.pages
    ]
    return nav


def on_post_build(config: MkDocsConfig) -> None:
    """Write llms.txt: what the project is, and the pages by section, each with its first sentence."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}"]
    section = None
    for title, source, markdown in _shown:
        if title != section:
            section = title
            lines += ["", f"## {title or 'Begin'}", ""]
        heading = re.search(r"^# +(.*)", markdown, re.MULTILINE)
        name = heading[1].replace("`", "") if heading else source
        if ":::" in markdown:  # made of docstrings
            lines.append(f"- [{name}]({source.removesuffix('.md')}.html): the docstrings of `{name}`")
            continue
        lines.append(f"- [{name}]({source}){_first_sentence(markdown)}")
        target = Path(config.site_dir) / source
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(markdown, encoding="utf-8")
    (Path(config.site_dir) / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _first_sentence(markdown: str) -> str:
    """The first sentence of the first paragraph, after a colon."""
    paragraphs = re.split(r"\n{2,}", _FENCE.sub("", markdown))
    first = next((each for each in paragraphs if re.match(r"[`\[]*\w", each)), "")
    text = " ".join(re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", first).split())
    sentence = re.match(r".*?[.:?](?= |$)", text)
    return f": {(sentence[0] if sentence else text).rstrip(':')}" if text else ""
