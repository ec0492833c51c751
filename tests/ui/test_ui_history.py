"""The page that goes through a history or a recording: every page is about one moment, and all links stay there."""

import asyncio
import re
from urllib.parse import urlsplit

import pytest
from gone_through import PACKING, served_history, served_recording, write_day
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from served_page import Page, served_objects, small_cluster

from bayplan.answers.backtest.decisions import ask_again
from bayplan.answers.backtest.lookahead import Lookahead
from bayplan.answers.backtest.running import SimulatedScheduler
from bayplan.answers.backtest.sample import write_sample
from bayplan.answers.backtest.settings import with_settings
from bayplan.answers.history.events import NodeAdded, NodeRemoved, PodArrived, PodBound, PodEnded
from bayplan.answers.history.moments import HistoryMoments
from bayplan.answers.history.reading import History
from bayplan.answers.insight.prices import Prices
from bayplan.core.api.kinds import NODE, POD
from bayplan.faces.asking.sources import stamp
from bayplan.faces.asking.worker import TooLongError
from bayplan.faces.ui import moments as ui_moments

PAGES = (
    "/",
    "/queue",
    "/workloads",
    "/what-if?cordon=node-1",
    "/questions",
    "/questions/usage",
    "/search?q=node",
    "/history",
)
SLOT = re.compile(r'<a class="s[^"]*" href="/at/(\d+)/nodes/([^"]+)"')


@pytest.fixture(scope="module")
def day(tmp_path_factory):
    return write_day(tmp_path_factory.mktemp("history") / "day")


def after(folder, number):
    """The nodes, and pod -> node ("" while it waits), after some steps, by the events of the history."""
    history = History.open(folder)
    nodes, pods = {"node-0", "node-1", "node-2", "node-3"}, {}
    for event in list(history.events())[:number]:
        match event:
            case PodArrived(_, key):
                pods[key] = ""
            case PodBound(_, key, _, node):
                pods[key] = node
            case PodEnded(_, key):
                del pods[key]
            case NodeAdded(_, name):
                nodes.add(name)
            case NodeRemoved(_, name):
                nodes.remove(name)
    return nodes, pods


def shown_nodes(text, number):
    """The nodes of the bay plan."""
    assert {each for each, _ in SLOT.findall(text)} == {str(number)}
    return {name for _, name in SLOT.findall(text)}


def next_step(page):
    """The number of the step after the moment that a page shows."""
    return int(re.search(r"after step (\d+) of|before the first", page.text)[1] or 0) + 1


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0, 1))
def test_page_shows_the_cluster_at_any_moment(day, share):
    async def check():
        last = len(HistoryMoments(History.open(day)))
        number = round(share * last)
        nodes, pods = after(day, number)
        async with served_history(day) as visitor:
            text = await visitor.get(f"/at/{number}/history")
            assert shown_nodes(text, number) == nodes
            page = Page(text)
            on_nodes = sum(1 for node in pods.values() if node)
            assert f"{len(nodes)} nodes · {on_nodes} pod" in page.text
            assert f"{len(pods) - on_nodes} pending" in page.text
            for node in sorted(nodes)[:2]:
                there = await visitor.page(f"/at/{number}/nodes/{node}")
                for key in (key for key, on in pods.items() if on == node):
                    assert f"/at/{number}/pods/{key}" in there.links

    asyncio.run(check())


async def test_sample_shows_the_placed_pods_of_its_rows(tmp_path):
    write_sample(tmp_path / "sample", days=0.5)
    moments = HistoryMoments(History.open(tmp_path / "sample"))
    async with served_history(tmp_path / "sample") as visitor:
        for number in (0, len(moments) // 2, len(moments)):
            snapshot = moments.snapshot(number)
            documents = [snapshot.document(POD, key) for key in snapshot.of_kind(POD)]
            on_nodes = sum(1 for each in documents if each["spec"].get("nodeName"))
            page = await visitor.page(f"/at/{number}/history")
            nodes = len(snapshot.of_kind(NODE))
            assert f"{nodes} nodes · {on_nodes} pods · {len(documents) - on_nodes} pending" in page.text
        assert "No scheduler has placed the pods that arrive" not in page.text


@pytest.mark.parametrize("path", PAGES)
async def test_all_links_of_a_page_stay_at_its_moment(day, path):
    async with served_history(day) as visitor:
        page = await visitor.page(f"/at/20{path}")
        inside = [address for address in page.addresses if not address.startswith(("/static/", "#"))]
        assert inside
        assert all(address.startswith("/at/") for address in inside)
        if path != "/history":
            around = {urlsplit(address).path.split("/")[2] for address in inside}
            assert around == {"19", "20", "21"}
            assert "The cluster as it was at" in page.text
            assert "/at/20/history" in page.links
        assert page.unlabelled == []


async def test_tabs_are_independent(day):
    async with served_history(day) as visitor:
        early, late = await asyncio.gather(visitor.get("/at/3/"), visitor.get("/at/60/"))
        assert await visitor.get("/at/3/") == early
        assert await visitor.get("/at/60/") == late
        assert early != late


async def test_steps_forward_and_back_return_to_the_same_page(day):
    async with served_history(day) as visitor:
        number, pages = 10, {}
        pages[10] = await visitor.get("/at/10/history")
        for _ in range(8):
            number += 1
            pages[number] = await visitor.get(f"/at/{number}/history")
            assert f'href="/at/{number - 1}/history"' in pages[number]
        while number > 10:
            number -= 1
            assert await visitor.get(f"/at/{number}/history") == pages[number]


async def test_address_without_a_moment_leads_to_the_last_one(day):
    async with served_history(day) as visitor:
        last = len(HistoryMoments(History.open(day)))
        page = await visitor.page("/history")
        assert f"after step {last} of {last}" in page.text
        assert await visitor.get("/queue") == await visitor.get(f"/at/{last}/queue")


async def test_times_and_the_slider_lead_to_moments(day):
    moments = HistoryMoments(History.open(day))
    async with served_history(day) as visitor:
        for query, seconds in (
            ("time=2026-01-01T00:10:00Z", 600),
            ("time=2026-01-01+00:10:00+UTC", 600),
            ("time=00:10", 600),
            ("time=00:10:30", 630),
            ("seconds=600.5", 600.5),
            ("seconds=0", 0),
            ("seconds=99999", 99999),
            ("seconds=-5", 0),
        ):
            number = sum(1 for step in moments.steps if (step.time - moments.time(0)).total_seconds() <= seconds)
            page = await visitor.page(f"/at/7/history?{query}")
            told = f"after step {number} of" if number else "before the first of"
            assert told in page.text, query


BAD = {
    "a time that is none": ("/at/3/history?time=soon", 400, "soon: expected a time such as 2026-03-02T03:12:00Z"),
    "a time before the start": ("/at/3/history?time=2020-01-01", 400, "2020-01-01 is not in the test cluster: it goes"),
    "a time after the end": ("/at/3/history?time=2031-01-01", 400, "it goes from 2026-01-01 00:00:00 UTC to"),
    "seconds that are none": ("/at/3/history?seconds=x", 400, "x: expected seconds since the start"),
    "too many seconds": ("/at/3/history?seconds=1e300", 400, "expected seconds since the start"),
    "no number of seconds": ("/at/3/history?seconds=nan", 400, "expected seconds since the start"),
    "a moment after the last": ("/at/99999/queue", 404, "There is no moment 99,999: the last one is"),
    "a moment that is no number": ("/at/x/queue", 404, "There is no page /at/x/queue"),
    "a page that isn't there": ("/at/3/nothing", 404, "There is no page /nothing"),
    "a pod that isn't there yet": ("/at/0/pods/default/web-20", 404, "There is no pod default/web-20"),
}


@pytest.mark.parametrize("name", BAD)
async def test_bad_addresses_are_one_message(day, name):
    path, status, message = BAD[name]
    async with served_history(day) as visitor:
        page = await visitor.page(path, status)
        assert message.lower() in page.text.lower()


async def test_cluster_without_a_history_has_no_page_of_it():
    async with served_objects(*small_cluster()) as visitor:
        assert "there is no history" in (await visitor.page("/history", 404)).text.lower()
        await visitor.page("/at/0/", 404)
        assert "/history" not in (await visitor.page("/")).links


async def test_next_differences_are_those_of_asking_all_again(day):
    history = History.open(day)
    scheduler = SimulatedScheduler(with_settings(None, (), PACKING))
    asked = ask_again(history, Lookahead(history, Prices({}).of), scheduler, None)
    found = []
    async with served_history(day, *PACKING) as visitor:
        page = await visitor.page("/at/0/history")
        while "difference" in page.ids and len(found) < 100:
            address = next(each for each in page.addresses if "/difference" in each)
            page = await visitor.page(address)
            if "would be another one: node" not in page.text:
                break
            found.append(next_step(page))
    assert "no decision would be another one" in page.text
    assert found == sorted(set(found))
    assert len(found) == asked.recorded - asked.equal > 3


async def test_search_that_takes_long_says_how_far_it_came(day, monkeypatch):
    monkeypatch.setattr(ui_moments, "SEARCHED", -1.0)
    async with served_history(day) as visitor:
        page = await visitor.page("/at/5/history/difference")
        assert "no decision would be another one" in page.text
        assert "/at/5/history/difference?after=5" in page.links


async def test_recording_is_gone_through_decision_by_decision():
    async with served_recording() as visitor:
        page = await visitor.page("/history")
        assert "after step 13 of 13" in page.text
        assert "difference" not in page.ids
        page = await visitor.page("/at/6/history")
        assert "could not be placed default/urgent" in page.text
        assert "it preempts 2 pods on node node-1" in page.text
        assert page.links.keys() >= {"/at/5/history", "/at/7/history", "/at/6/pods/default/urgent"}
        asked = await visitor.page("/at/6/pods/default/urgent")
        assert "It would preempt" in asked.text
        assert "On node-1" in (await visitor.page("/at/13/pods/default/urgent")).text


async def test_differences_of_a_recording_are_those_of_the_other_policy():
    async with served_recording(*(f"bayplan-scheduler/{each}" for each in PACKING)) as visitor:
        found = []
        page = await visitor.page("/at/0/history")
        while True:
            page = await visitor.page(next(each for each in page.addresses if "/difference" in each))
            if "would be another one: node" not in page.text:
                break
            found.append(next_step(page))
    assert found == [2, 4, 6]


async def test_moment_that_cannot_be_reached_is_one_message(monkeypatch):
    async with served_recording() as visitor:
        monkeypatch.setattr(ui_moments.RecordingMoments, "snapshot", _unreachable)
        page = await visitor.page("/at/4/queue", 404)
        assert "Decision 5 can't be made again" in page.text
        monkeypatch.undo()
        assert "pending" in (await visitor.page("/at/4/queue")).text


def _unreachable(*_):
    raise ui_moments.SnapshotError("decision 5 can't be made again")


async def test_moment_that_takes_too_long_is_one_message(day):
    sources = ui_moments.MomentSources(HistoryMoments(History.open(day)), longest=-1.0)
    sources.moments.snapshot = lambda number, progress: progress("begun")
    with pytest.raises(TooLongError, match="moment 3 can't be reached within"):
        await sources.of(3).ready()
    sources.close()


async def test_playing_goes_on_without_a_script_and_ends(day):
    last = len(HistoryMoments(History.open(day)))
    async with served_history(day) as visitor:
        text = await visitor.get("/at/4/history?play=each")
        assert 'content="1.0;url=/at/5/history?play=each"' in text
        assert 'hx-get="/at/5/history?play=each"' in text
        assert "Pause" in text
        faster = await visitor.get("/at/4/history?play=all&resource=memory")
        assert int(re.search(r'hx-get="/at/(\d+)/history\?resource=memory&amp;play=all"', faster)[1]) >= 5
        end = await visitor.get(f"/at/{last}/history?play=each")
        assert "Pause" not in end
        assert "http-equiv" not in end


async def test_basket_is_kept_at_the_moment(day):
    async with served_history(day) as visitor:
        page = await visitor.post("/at/30/what-if", cordon="node-1")
        assert "If you cordon node-1" in page.text
        assert all(each.startswith(("/at/", "/static/", "#")) for each in page.addresses)


async def test_nothing_is_written(day):
    before = stamp(day)
    async with served_history(day, *PACKING) as visitor:
        for path in (*PAGES, "/history/difference", "/history?play=all"):
            await visitor.page(f"/at/20{path}")
    assert stamp(day) == before
