"""What axe checks, without a browser: titles, language, labels, headings in order, and contrast of the colors."""

import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
from gone_through import served_history, write_day
from served_page import served, small_cluster, stateful_set

from bayplan.faces.asking.sources import FileSource
from bayplan.faces.ui.questions_page import QUESTIONS
from bayplan.insight import Snapshot

CSS = (Path(__file__).parents[2] / "src/bayplan/faces/ui/static/page.css").read_text(encoding="utf-8")
ADDRESSES = {
    "/": "Bay plan",
    "/?by=topology.kubernetes.io/zone&resource=memory": "Bay plan",
    "/queue": "Queue",
    "/queue/freeing": "What would place most",
    "/workloads": "Workloads",
    "/workloads/default/statefulset/db": "Statefulset default/db",
    "/pods/default/big-0": "Pod default/big-0",
    "/pods/default/big-0?node=node-a1": "Pod default/big-0",
    "/pods/default/web-0": "Pod default/web-0",
    "/nodes/node-a1": "Node node-a1",
    "/objects/nodes/node-a1": "Node node-a1",
    "/objects/pods/default/web-0": "Pod default/web-0",
    "/what-if": "What if",
    "/what-if?add_nodes=2xlike:node-b1&uncordon=node-a2": "What if",
    "/what-if?cordon=nowhere": "What if",
    "/questions": "Questions",
    **{f"/questions/{name}": question.title for name, question in QUESTIONS.items()},
    "/questions/usage?namespace=default": "Usage",
    "/questions/balance?asked=yes": "Balance",
    "/questions/drain?asked=yes&nodes=nowhere": "Drain",
    "/search?q=web": "Search",
    "/nowhere": "Not Found",
}


class Markup(HTMLParser):
    """A page as assistive technology finds it."""

    VOID = frozenset({"meta", "link", "input", "br", "wbr"})

    def __init__(self, text):
        super().__init__()
        self.open, self.headings, self.inputs, self.labels, self.ids, self.language = [], [], [], {}, [], ""
        self.title, self.nameless, self.described = "", [], []
        self._named = None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.ids += [found["id"]] if "id" in found else []
        self.described += (found.get("aria-describedby") or found.get("aria-labelledby") or "").split()
        if tag == "html":
            self.language = found.get("lang")
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag in {"input", "select", "textarea"} and found.get("type") != "hidden":
            self.inputs.append((found, "label" in self.open))
        if tag in {"a", "button"}:
            self._named = [tag, found, found.get("aria-label") or ""]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass
        if tag in {"a", "button"} and self._named is not None:
            if not self._named[2].strip() and self._named[1].get("tabindex") != "-1":
                self.nameless.append(self._named)
            self._named = None

    def handle_data(self, data):
        if "title" in self.open and "svg" not in self.open:
            self.title += data
        if self._named is not None:
            self._named[2] += data


def check(text, title):
    page = Markup(text)
    assert page.title == f"{title} \u00b7 Bayplan"
    assert page.language == "en"
    assert page.headings[:1] == [1]
    assert page.headings.count(1) == 1
    assert [(first, second) for first, second in pairwise(page.headings) if second > first + 1] == []
    assert [found for found, labelled in page.inputs if not labelled and not found.get("aria-label")] == []
    assert page.nameless == []
    assert len(page.ids) == len(set(page.ids))
    assert set(page.described) <= set(page.ids)


async def test_pages_have_titles_labels_and_headings_in_order():
    source = FileSource(Snapshot.of([*small_cluster(), *stateful_set("db", 3, 0)], source="file c"))
    async with served(source) as visitor:
        for address, title in ADDRESSES.items():
            status = 404 if address == "/nowhere" else 200
            check(await visitor.get(address, status=status), title)


async def test_pages_of_a_history_too(tmp_path):
    async with served_history(write_day(tmp_path / "day")) as visitor:
        check(await visitor.get("/at/5/history"), "History")
        check(await visitor.get("/at/5/"), "Bay plan")


async def test_error_of_a_change_is_marked_at_its_field_and_can_be_corrected():
    async with served(FileSource(Snapshot.of(small_cluster(), source="file c"))) as visitor:
        text = await visitor.get("/what-if?uncordon=node-a2&cordon=nowhere")
        field = re.search(r'<input name="text"[^>]*>', text)[0]
        assert 'value="nowhere"' in field
        assert 'aria-invalid="true" aria-describedby="wrong"' in field
        assert re.search(r'<p id="wrong"[^>]*>[^<]*nowhere', text)
        assert '<option value="cordon" selected>' in text
        assert '<li class="bad"><b>can&#39;t be made:</b>' in text or '<li class="bad"><b>can\'t be made:</b>' in text
        assert '<input type="hidden" name="take_out" value="1">' in text


async def test_what_changes_comes_before_what_stays():
    async with served(FileSource(Snapshot.of(small_cluster(), source="file c"))) as visitor:
        text = await visitor.get("/what-if?add_nodes=1xlike:node-a1&labels=node-a1+disk%3Dnvme")
    places = [text.index(part) for part in ('class="verdict"', "would change", ">Today <small>", "Bay plan: today")]
    assert places == sorted(places)


async def test_snapshot_is_not_called_live_but_has_its_time(tmp_path):
    file = tmp_path / "cluster.bayplan"
    snapshot = Snapshot.of(small_cluster(), source="file c")
    snapshot.save(file)
    found = Snapshot.open(file)
    async with served(FileSource(found, file)) as visitor:
        text = await visitor.get("/")
    assert "live, read-only" not in text
    expected = "read-only" if found.taken is None else f"as of {found.taken:%Y-%m-%d %H:%M:%S}"
    assert expected in text


def colors(dark):
    """name -> (red, green, blue) from 0 to 1."""
    light, _, after = CSS.partition("@media (prefers-color-scheme: dark)")
    found = {}
    for text in (light, after.partition("\n}")[0])[: 1 + dark]:
        found.update(re.findall(r"--([a-z-]+): #([0-9a-f]{3,6})\b", text))
    return {name: rgb(text) for name, text in found.items()}


def rgb(text):
    full = text if len(text) == 6 else "".join(letter * 2 for letter in text)
    return tuple(int(full[place : place + 2], 16) / 255 for place in (0, 2, 4))


def luminance(color):
    """Relative luminance of WCAG 2.2."""
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in color)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first, second):
    bright, dim = sorted((luminance(first), luminance(second)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


TEXTS = [
    *((ink, ground) for ink in ("ink", "soft", "link", "bad", "good", "high", "mark") for ground in ("paper", "card")),
    ("ink", "empty"),
    ("card", "high"),
    ("card", "bad"),
]
"""A color of texts, and one that is behind it."""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_texts_have_the_contrast_of_level_aa(dark):
    known = colors(dark)
    low = {(ink, ground): contrast(known[ink], known[ground]) for ink, ground in TEXTS}
    assert {pair: round(ratio, 2) for pair, ratio in low.items() if ratio < 4.5} == {}


def test_links_in_texts_are_told_apart_by_more_than_color():
    assert re.search(r"^a \{[^}]*text-decoration: underline", CSS, re.MULTILINE)
    (without,) = re.findall(r"^([^{}\n]+) \{ text-decoration: none; \}", CSS, re.MULTILINE)
    assert set(without.split(", ")) == {".brand", "nav a", ".hits a", "a.button", "a.s", "a.block"}
