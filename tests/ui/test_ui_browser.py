"""The page in a real browser: the keyboard, live changes, dark mode, and 5,000 nodes."""

import chromium
import pytest
from served_page import node, pod, small_cluster, stateful_set

from bayplan.core.api.kinds import POD
from bayplan.faces.asking.sources import ClusterSource, FileSource
from bayplan.faces.ui import app, pages
from bayplan.faces.ui.server import serving
from bayplan.insight import Insight, Snapshot
from bayplan.testing.in_memory import load, make_client

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(chromium.executable() is None, reason="there is no Chromium on the PATH"),
]

FOCUS = "document.activeElement.getAttribute('href')"
BACKGROUND = "getComputedStyle(document.body).backgroundColor"


@pytest.fixture(scope="module")
def devtools(tmp_path_factory):
    with chromium.browser(tmp_path_factory.mktemp("chromium")) as url:
        yield url


@pytest.fixture
async def tab(devtools):
    async with chromium.new_tab(devtools) as tab:
        yield tab
        assert tab.errors == []


def page_of(*objects):
    return serving(FileSource(Snapshot.of(objects, source="file cluster.yaml")), Insight(Snapshot()))


async def test_address_with_the_token_opens_the_plan(tab):
    async with page_of(*small_cluster()) as url:
        await tab.open(url)
        assert await tab.value("location.search") == ""
        assert await tab.value("document.title") == "Bay plan · Bayplan"
        assert await tab.value("document.querySelectorAll('[data-plan] a.s').length") == 4
        assert await tab.value("document.cookie") == ""


async def test_keyboard_moves_between_nodes_and_opens_them(tab):
    async with page_of(*small_cluster()) as url:
        await tab.open(url)
        for key, expected in (
            ("ArrowRight", "/nodes/node-a1"),
            ("ArrowRight", "/nodes/node-a2"),
            ("ArrowLeft", "/nodes/node-a1"),
            ("j", "/nodes/node-b1"),
            ("l", "/nodes/node-b2"),
            ("k", "/nodes/node-a2"),
            ("h", "/nodes/node-a1"),
        ):
            await tab.press(key)
            assert await tab.value(FOCUS) == expected, key
        await tab.press("Enter")
        await tab.until("location.pathname === '/nodes/node-a1' && document.readyState === 'complete'")
        await tab.press("Escape")
        await tab.until("location.pathname === '/' && document.readyState === 'complete'")


async def test_only_one_node_is_in_the_tab_order(tab):
    async with page_of(*small_cluster()) as url:
        await tab.open(url)
        assert await tab.value("document.querySelectorAll('[data-plan] a[tabindex=\"0\"]').length") == 1
        reached = []
        for _ in range(20):
            await tab.press("Tab")
            reached.append(await tab.value(FOCUS))
        assert [each for each in reached if each and each.startswith("/nodes/")] == ["/nodes/node-a1"]


async def test_slash_searches_as_you_type(tab):
    async with page_of(*small_cluster()) as url:
        await tab.open(url)
        await tab.press("/")
        assert await tab.value("document.activeElement.id") == "search"
        await tab.type("web")
        await tab.until("document.querySelectorAll('#hits a').length === 2")
        await tab.press("ArrowDown")
        assert await tab.value(FOCUS) == "/pods/default/web-0"
        await tab.press("ArrowDown")
        assert await tab.value(FOCUS) == "/pods/default/web-1"
        await tab.press("Escape")
        assert await tab.value("document.querySelectorAll('#hits a').length") == 0
        await tab.press("/")
        await tab.type("pinned")
        await tab.press("Enter")
        await tab.until("location.pathname === '/pods/default/pinned-0'")


async def test_plan_follows_the_cluster_and_keeps_the_focus(tab, monkeypatch):
    monkeypatch.setattr(pages, "SMALL_PAUSE", 0.1)
    client = make_client(node("a"), node("b"))
    async with serving(ClusterSource(client), Insight(Snapshot())) as url:
        await tab.open(url)
        await tab.press("ArrowRight")
        await tab.press("ArrowRight")
        assert await tab.value(FOCUS) == "/nodes/b"
        load(client.server, node("c"), pod("web", node="b"))
        await tab.until("document.querySelectorAll('[data-plan] a.s').length === 3")
        await tab.until("document.querySelector('a[href=\"/pods/default/web\"]') !== null")
        await tab.until(f"{FOCUS} === '/nodes/b'")  # htmx restores it after the swap has settled


async def test_lost_connection_is_shown(tab, monkeypatch):
    monkeypatch.setattr(pages, "SMALL_PAUSE", 0.1)
    async with serving(ClusterSource(make_client(node("a"))), Insight(Snapshot())) as url:
        await tab.open(url)
        assert await tab.value("document.getElementById('lost').hidden")
    await tab.until("!document.getElementById('lost').hidden")
    tab.errors.clear()


async def test_pod_that_is_deleted_while_its_page_is_open_is_reported_until_it_comes_back(tab, monkeypatch):
    monkeypatch.setattr(pages, "POD_PAUSE", 0.1)
    monkeypatch.setattr(app, "GONE_PAUSE", 0.1)
    client = make_client(node("a"), pod("web-0", node="a"))
    async with serving(ClusterSource(client), Insight(Snapshot())) as url:
        await tab.open(url)
        await tab.open(url.partition("/?")[0] + "/pods/default/web-0")
        await client.delete(POD, "web-0", namespace="default", grace_period_seconds=0)
        await tab.until("document.getElementById('live').innerText.includes('There is no pod default/web-0')")
        load(client.server, pod("web-0", cpu="64"))
        await tab.until("document.getElementById('live').innerText.includes('Insufficient cpu')")
        tab.errors.clear()  # the 404


async def click(tab, text):
    await tab.value(f"[...document.querySelectorAll('button')].find(each => each.textContent === '{text}').click()")


async def test_basket_is_filled_from_a_node_and_kept(tab):
    async with page_of(*small_cluster()) as url:
        await tab.open(url)
        base = url.partition("/?")[0]
        await tab.open(f"{base}/nodes/node-b1")
        await tab.value(
            "[...document.querySelectorAll('button')].find(b => b.textContent === 'Add a node like it').click()"
        )
        await tab.until("location.pathname === '/what-if' && document.readyState === 'complete'")
        await tab.open(f"{base}/nodes/node-a1")
        await click(tab, "Cordon it")
        await tab.until("location.pathname === '/what-if' && document.readyState === 'complete'")
        changes = await tab.value("document.querySelector('.basket').innerText")
        assert "add nodes like:node-b1" in changes
        assert "cordon node-a1" in changes
        assert "node-b1-new-1" in await tab.value("document.body.innerHTML")
        await tab.open(f"{base}/what-if")
        assert await tab.value("document.querySelectorAll('.basket li').length") == 3


async def test_change_that_helps_is_tried_with_one_click(tab):
    async with page_of(*small_cluster()) as url:
        await tab.open(url)
        await tab.open(f"{url.partition('/?')[0]}/pods/default/pinned-0")
        await click(tab, "Try in What if")
        await tab.until("location.pathname === '/what-if' && document.readyState === 'complete'")
        assert "1 pod from pending to placed" in await tab.value("document.querySelector('.verdict').innerText")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_page_follows_the_color_scheme(tab, scheme):
    async with page_of(*small_cluster()) as url:
        await tab.color_scheme(scheme)
        await tab.open(url)
        red = int((await tab.value(BACKGROUND)).removeprefix("rgb(").partition(",")[0])
        assert (red > 128) is (scheme == "light")


PATHS = (
    "/",
    "/queue",
    "/pods/default/web-0?node=node-b1",
    "/pods/default/big-0",
    "/nodes/node-a1",
    "/?namespace=default&by=disk",
    "/queue?namespace=default",
    "/workloads",
    "/workloads/default/statefulset/recommendation-engine",
    "/objects/pods/default/recommendation-engine-0",
    "/what-if?cordon=node-a1&labels=node-a1+disk%3Dnvme",
    "/what-if?replace_all=yes",
    "/queue/freeing",
    "/questions",
    "/questions/usage",
    "/questions/scale-up?asked=yes",
    "/questions/capacity?asked=yes&like=web-1",
    "/questions/drain?asked=yes&nodes=node-a1",
    "/questions/shrink?asked=yes&force=yes",
    "/questions/when?asked=yes",
    "/questions/when?asked=yes&what=big-0",
    "/questions/check",
    "/questions/doctor",
    "/what-if?scale_requests=statefulset/recommendation-engine%3D0.1",
)
BROKEN_WORDS = """
(() => {
  const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode;
    if (text.parentElement.closest("script, select, thead, details:not([open])")) continue;
    for (const word of text.data.matchAll(/\\w{2,30}/g)) {
      const range = document.createRange();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map((each) => Math.round(each.top))).size > 1) found.push(word[0]);
    }
  }
  return found;
})()
"""
"""The words that continue on the next line."""
CUT_CELLS = """
[...document.querySelectorAll("td, tbody th")]
  .filter((cell) => { const box = cell.getBoundingClientRect(); return box.width && box.right > innerWidth + 1; })
  .map((cell) => cell.innerText)
"""
"""The cells of tables that are not in the window as a whole."""


CUT_EXAMPLES = """
[...document.querySelectorAll("main input[placeholder]")].filter((field) => {
  const text = field.value;
  field.value = field.placeholder;
  const cut = field.scrollWidth > field.clientWidth + 1;
  field.value = text;
  return cut;
}).map((field) => field.placeholder)
"""
"""The examples in empty fields that can't be read to their ends."""


@pytest.mark.parametrize("width", [375, 420, 1400])
async def test_pages_fit_the_window_and_no_word_breaks(tab, width):
    disks = {"disk": "nvme"}, {}
    long = [node(f"ip-10-0-0-{n}.eu-central-1.compute.internal", labels=disks[n % 2]) for n in range(12)]
    workload = stateful_set("recommendation-engine", 4, 0, 1, cpu="40")
    async with page_of(*small_cluster(), *long, pod("train-0", "40"), *workload) as url:
        await tab.size(width, 800)
        await tab.open(url)
        for path in (*PATHS, "/pods/default/train-0"):
            await tab.open(url.partition("/?")[0] + path)
            assert await tab.value("document.documentElement.scrollWidth") <= width, path
            assert await tab.value(BROKEN_WORDS) == [], path
            assert await tab.value(CUT_CELLS) == [], path
            assert width < 1400 or await tab.value(CUT_EXAMPLES) == [], path


async def test_long_names_and_markup_in_names_fit_the_window(tab):
    name, markup = "n" * 63, "<img src=x onerror=alert(1)>" + "long" * 60
    objects = [
        node(name, zone=name, labels={"note": markup}),
        pod(f"{'p' * 250}", node=name, priorityClassName="high", schedulerName="default-scheduler"),
        pod(f"{'q' * 250}", "9", nodeSelector={"disk": markup}),
    ]
    async with page_of(*objects) as url:
        await tab.open(url)
        base = url.partition("/?")[0]
        for path in ("/", "/queue", f"/pods/default/{'p' * 250}", f"/pods/default/{'q' * 250}", f"/nodes/{name}"):
            for width in (1280, 420):
                await tab.size(width, 800)
                await tab.open(base + path)
                assert await tab.value("document.documentElement.scrollWidth") <= width, path
                assert not await tab.value("document.querySelector('main img')"), path


async def test_5000_nodes_can_be_walked_through(tab):
    objects = [node(f"node-{number:04}", zone=f"zone-{number % 3}") for number in range(5000)]
    async with page_of(*objects) as url:
        await tab.open(url)
        assert await tab.value("document.querySelectorAll('[data-plan] a.s').length") == 5000
        for _ in range(3):
            await tab.press("ArrowRight")
        await tab.press("ArrowDown")
        reached = await tab.value("document.getElementById('about').textContent")
        assert reached.startswith("node-0")
        assert reached.endswith("cpu 0%, 0 pods")
        assert await tab.value(FOCUS) == f"/nodes/{reached.partition(',')[0]}"
