"""Going through a history in a real browser: the slider, the keys, playing, and both color schemes."""

import chromium
import pytest
from gone_through import PACKING, served_history, write_day

from bayplan.faces.ui import history_page

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(chromium.executable() is None, reason="there is no Chromium on the PATH"),
]

SLIDE = """(() => {
  const slider = document.getElementById("scrub");
  slider.focus();
  slider.value = %s;
  slider.dispatchEvent(new Event("input", { bubbles: true }));
  const told = document.getElementById("scrubbed").textContent;
  slider.dispatchEvent(new Event("change", { bubbles: true }));
  return told;
})()"""
HEADING = "document.querySelector('h1').textContent"


@pytest.fixture(scope="module")
def day(tmp_path_factory):
    return write_day(tmp_path_factory.mktemp("history") / "day")


@pytest.fixture(scope="module")
def devtools(tmp_path_factory):
    with chromium.browser(tmp_path_factory.mktemp("chromium")) as url:
        yield url


@pytest.fixture
async def tab(devtools):
    async with chromium.new_tab(devtools) as tab:
        yield tab
        assert tab.errors == []


async def opened(tab, visitor, path):
    await tab.open(visitor.url.replace("/?", f"{path}?"))
    await tab.until(f"location.pathname === '{path}'")


async def test_slider_leads_to_its_moment_and_keeps_the_focus(tab, day):
    async with served_history(day) as visitor:
        await opened(tab, visitor, "/at/5/history")
        assert await tab.value(SLIDE % 600) == "2026-01-01 00:10:00 UTC"
        await tab.until("location.pathname !== '/at/5/history'")
        shown = await tab.value("location.pathname")
        assert "00:10:00" in await tab.value(HEADING)
        assert await tab.value("document.activeElement.id") == "scrub"
        plan = f"{shown.removesuffix('history')}"
        assert await tab.value("document.querySelector('header nav a[href$=\"/\"]').getAttribute('href')") == plan
        await tab.open(f"{visitor.base}{shown}")
        assert "00:10:00" in await tab.value(HEADING)


async def test_keys_step_and_find_differences(tab, day):
    async with served_history(day, *PACKING) as visitor:
        await opened(tab, visitor, "/at/5/history")
        for key, path in (("]", "/at/6/history"), ("]", "/at/7/history"), ("[", "/at/6/history")):
            await tab.press(key)
            await tab.until(f"location.pathname === '{path}'")
        await tab.press("n")
        await tab.until("document.body.textContent.includes('would be another one')")
        assert "/history/difference" not in await tab.value("location.pathname")


async def test_playing_goes_on_until_it_is_paused(tab, day, monkeypatch):
    monkeypatch.setattr(history_page, "TICK", 0.5)  # long enough that a slow browser pauses before the last moment
    async with served_history(day) as visitor:
        await opened(tab, visitor, "/at/5/history")
        await tab.press("p")
        await tab.until("Number(location.pathname.split('/')[2]) > 8")
        assert await tab.value("document.getElementById('play-each').textContent") == "Pause"
        await tab.press("p")
        await tab.until("document.getElementById('play-each').textContent !== 'Pause'")
        await tab.until("!location.search.includes('play') && document.readyState === 'complete'")
        paused = await tab.value("location.pathname")
        await tab.press("]")
        await tab.until(f"location.pathname !== '{paused}'")
        assert await tab.value("location.pathname") == f"/at/{int(paused.split('/')[2]) + 1}/history"


@pytest.mark.parametrize("width", [420, 1400])
async def test_page_fits_the_window(tab, day, width):
    async with served_history(day) as visitor:
        await tab.size(width, 1000)
        for path in ("/at/20/history", "/at/20/pods/default/web-1"):
            await opened(tab, visitor, path)
            assert await tab.value("document.documentElement.scrollWidth") <= width
