"""Questions of the page end: after a time, when their request is gone, and with the server."""

import asyncio
import threading
import time

import aiohttp
import pytest
from served_page import node, pod, served, served_objects
from tests.support.waiting import without_end

from bayplan.answers.insight.answers import Stopped
from bayplan.faces.asking.asking import Asking
from bayplan.faces.asking.sources import FileSource
from bayplan.faces.asking.worker import TooLongError
from bayplan.insight import Insight, QuestionError, Snapshot


def asking(longest=30.0):
    return Asking(FileSource(Snapshot.of([node("a")])), Insight(Snapshot()), longest)


class Endless:
    """A question that ends only when it is stopped. `running`: whether it is."""

    def __init__(self):
        self.begun, self.ended = threading.Event(), threading.Event()

    def __call__(self, insight, progress):
        self.begun.set()
        try:
            without_end(progress)
        finally:
            self.ended.set()

    async def wait(self, event):
        assert await asyncio.to_thread(event.wait, 10)


def node_names(insight, _):
    return insight.nodes()


async def test_question_ends_after_its_time_and_the_next_one_is_answered():
    one, endless = asking(longest=0.05), Endless()
    with pytest.raises(QuestionError, match=r"took longer than 0.05 s, which is the server's limit of time"):
        await one.ask("endless", endless)
    assert await one.ask("names", node_names) == ["a"]
    one.close()


async def test_question_ends_when_nobody_waits_for_its_answer():
    one, endless = asking(), Endless()
    first, second = (asyncio.create_task(one.ask("endless", endless)) for _ in range(2))
    await endless.wait(endless.begun)
    first.cancel()
    await asyncio.wait([first])
    assert not endless.ended.is_set()
    second.cancel()
    await endless.wait(endless.ended)
    assert await one.ask("names", node_names) == ["a"]
    one.close()


async def test_question_that_was_given_up_is_asked_again():
    one, endless = asking(), Endless()
    gone = asyncio.create_task(one.ask("same", endless))
    await endless.wait(endless.begun)
    gone.cancel()
    await asyncio.wait([gone])
    assert await one.ask("same", node_names) == ["a"]
    one.close()


async def test_question_that_waits_and_is_given_up_is_never_begun():
    one, endless, other = asking(), Endless(), Endless()
    running = asyncio.create_task(one.ask("first", endless))
    await endless.wait(endless.begun)
    waiting = asyncio.create_task(one.ask("second", other))
    await asyncio.sleep(0)
    for task in (waiting, running):
        task.cancel()
        await asyncio.wait([task])
    assert await one.ask("names", node_names) == ["a"]
    assert not other.begun.is_set()
    one.close()


async def test_question_ends_with_the_server():
    one, endless = asking(), Endless()
    task = asyncio.create_task(one.ask("endless", endless))
    await endless.wait(endless.begun)
    one.close()
    await endless.wait(endless.ended)
    with pytest.raises(QuestionError):
        await task


async def test_question_of_a_browser_that_has_gone_ends(monkeypatch):
    endless = Endless()
    monkeypatch.setattr(
        "bayplan.faces.ui.pages.node_report", lambda insight, name, progress: endless(insight, progress)
    )
    async with served_objects(node("a")) as visitor:
        with pytest.raises(TimeoutError):
            await visitor.get("/nodes/a", timeout=aiohttp.ClientTimeout(total=0.2))
        await endless.wait(endless.ended)
        assert "1 node" in (await visitor.page("/")).text


async def test_what_if_that_takes_too_long_is_one_message_and_leaves_today_as_it_was():
    nodes = [node(f"n{number}") for number in range(50)]
    source = FileSource(Snapshot.of([*nodes, *(pod(f"p{number}", "100m") for number in range(400))]))
    async with served(source, longest=0.05) as visitor:
        before = await visitor.get("/")
        page = await visitor.page("/what-if?add_nodes=5000xlike:n1")
        assert "took longer than 0.05 s, which is the server's limit of time" in page.text
        assert await visitor.get("/") == before


def _spin(_, progress):
    progress("spinning")
    while True:
        pass


def _spin_and_catch_errors(_, progress):
    progress("spinning")
    while True:
        try:
            sum(range(1000))
        except Exception:  # noqa: BLE001 - as code of plugins does
            continue


def _answer_with_what_was_known(_, progress):
    try:
        while True:
            progress("counting")
    except Stopped:
        return "what was known by then"


QUESTIONS = [_spin, _spin_and_catch_errors, _answer_with_what_was_known]


@pytest.mark.parametrize("question", QUESTIONS)
async def test_question_that_does_not_end_by_itself_ends_soon_after_its_time(question):
    one = asking(longest=0.05)
    began = time.process_time()
    with pytest.raises(TooLongError, match=r"took longer than 0\.05 s"):
        await one.ask("endless", question)
    assert time.process_time() - began < 3
    assert await one.ask("names", node_names) == ["a"]
    one.close()


async def test_question_in_a_long_step_ends_when_its_request_is_gone():
    one, begun = asking(), threading.Event()

    def spin(_, progress):
        begun.set()
        _spin(_, progress)

    gone = asyncio.create_task(one.ask("endless", spin))
    assert await asyncio.to_thread(begun.wait, 10)
    gone.cancel()
    await asyncio.wait([gone])
    async with asyncio.timeout(30):
        assert await one.ask("names", node_names) == ["a"]
    one.close()
