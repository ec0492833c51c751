"""Checks the built site: `tools/site_check.py FOLDER`.

Every link leads to a file and an anchor that there are, and no page loads anything from another server. Where there is
Chromium, it opens pages, which must ask no other server for anything, and searches.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import chromium

OPENED = ("index.html", "insight.html", "reference/bayplan.plugin.html", "recipes/weekend.html")
"""The pages that the browser opens: with code, tables, pictures and the search."""
_LOADING = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "object": "data",
}
_LOADING_LINKS = {
    "stylesheet",
    "icon",
    "preload",
    "prefetch",
    "preconnect",
    "dns-prefetch",
    "modulepreload",
    "manifest",
}
_IN_CSS = re.compile(r"(?:url\(|@import)\s*['\"]?((?:https?:)?//[^'\")\s]+)")


class _Page(HTMLParser):
    """The links, the anchors, and what a page loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what the tag names."""
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag in _LOADING and _LOADING[tag] in given:
            self.loads.append(given[_LOADING[tag]])
        if tag == "link" and _LOADING_LINKS & set(given.get("rel", "").split()):
            self.loads.append(given.get("href", ""))
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        self.loads += _IN_CSS.findall(given.get("style", ""))


@cache
def _page(path: Path) -> _Page:
    return _Page(path.read_text(encoding="utf-8"))


def problems(site: Path) -> Iterator[str]:
    """What is wrong with the pages, one line each."""
    for path in sorted(site.rglob("*.html")):
        page, shown = _page(path), path.relative_to(site)
        for address in page.loads:
            parts = urlsplit(address)
            if parts.scheme in {"http", "https"} or parts.netloc:
                yield f"{shown}: loads {address} from another server"
            elif parts.scheme != "data" and not _target(site, path, parts.path).exists():
                yield f"{shown}: loads {address}, which is not there"
        for address in page.links:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = _target(site, path, parts.path) if parts.path else path
            if not target.exists():
                yield f"{shown}: links to {address}, which is not there"
            elif parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in _page(target).anchors:
                yield f"{shown}: links to {address}, which has no such heading"
    for path in sorted(site.rglob("*.css")):
        for address in _IN_CSS.findall(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(site)}: loads {address} from another server"


def _target(site: Path, page: Path, address: str) -> Path:
    path = unquote(address)
    found = site / path.lstrip("/") if path.startswith("/") else page.parent / path
    return found / "index.html" if found.is_dir() else found


class _WatchedTab(chromium.Tab):
    """A tab that notes what its page asks for."""

    def __init__(self, socket: Any) -> None:
        super().__init__(socket)
        self.asked: list[str] = []

    def _note(self, message: dict[str, Any]) -> None:
        super()._note(message)
        if message.get("method") == "Network.requestWillBeSent":
            self.asked.append(message["params"]["request"]["url"])


class _Quiet(SimpleHTTPRequestHandler):
    """Serves files without a log."""

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def _served(site: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


async def requests_elsewhere(site: Path) -> list[str]:
    """What pages ask other servers for, and what the search doesn't find, one line each."""
    found = []
    with (
        tempfile.TemporaryDirectory() as folder,
        _served(site) as origin,
        chromium.browser(f"{folder}/browser") as devtools,
    ):
        async with chromium.new_tab(devtools, _WatchedTab) as tab:
            await tab.send("Network.enable")
            for page in OPENED:
                tab.asked.clear()
                await tab.open(origin + page)
                await tab.until("document.querySelector('.md-content') !== null")
                elsewhere = {each for each in tab.asked if not each.startswith((origin, "data:", "blob:"))}
                found += [f"{page}: asks for {address}" for address in sorted(elsewhere)]
                if not any(each.endswith(".css") for each in tab.asked):
                    found.append(f"{page}: the browser has not loaded it")
            await tab.open(f"{origin}index.html?q=preemption")
            await tab.until("document.querySelectorAll('.md-search-result__item').length > 0")
    return found


def main(arguments: list[str]) -> None:
    """Print what is wrong, and end with 1 then."""
    site = Path(arguments[0])
    found = list(problems(site))
    if chromium.executable() is None:
        sys.stdout.write("There is no Chromium on the PATH: pages are not opened.\n")
    else:
        found += asyncio.run(requests_elsewhere(site))
    pages = len(list(site.rglob("*.html")))
    if not pages:
        found.append(f"{site} has no pages")
    sys.stdout.write("".join(f"{line}\n" for line in found) + f"{pages} pages, {len(found)} problems\n")
    raise SystemExit(bool(found))


if __name__ == "__main__":
    main(sys.argv[1:])
