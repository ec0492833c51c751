import asyncio
import threading
import time

from bayplan.framework.calling import call
from bayplan.service.watchdog import Watchdog


class Blocker:
    name = "Blocker"

    def __init__(self, let_go: threading.Event) -> None:
        self.let_go = let_go

    def filter(self) -> None:
        self.let_go.wait(5)


def _wait_for(condition) -> None:
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


async def test_names_a_blocking_plugin_with_its_stack_while_it_blocks(caplog) -> None:
    let_go = threading.Event()
    watchdog = Watchdog(limit=0.02)
    seen = []

    def observe() -> None:
        _wait_for(lambda: "plugin Blocker in Filter has been blocking" in caplog.text)
        seen.append((watchdog.blocked_seconds, caplog.text))
        let_go.set()

    observer = threading.Thread(target=observe)
    watchdog.start()
    observer.start()
    plugin = Blocker(let_go)
    call(plugin, "Filter", plugin.filter)
    await asyncio.to_thread(observer.join)
    await asyncio.to_thread(_wait_for, lambda: watchdog.blocked_seconds == 0)
    watchdog.stop()
    [(blocked, text)] = seen
    assert blocked > 0
    assert "self.let_go.wait(5)" in text, "the stack shows where"
    assert "bayplan/framework/calling.py" not in text, "and only the plugin's frames"
    assert "asyncio" not in text
    assert "plugin Blocker in Filter blocked for" in caplog.text


async def test_says_nothing_while_the_loop_lives(caplog) -> None:
    watchdog = Watchdog(limit=1.0)
    watchdog.start()
    for _ in range(20):
        await asyncio.sleep(0.001)
    watchdog.stop()
    assert not caplog.text
