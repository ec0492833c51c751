import asyncio
import threading
import time

from bayplan.core.framework.calling import call
from bayplan.running.service.watchdog import Watchdog


class Blocker:
    name = "Blocker"

    def __init__(self, release: threading.Event) -> None:
        self.release = release

    def filter(self) -> None:
        self.release.wait(5)


def _wait_for(condition) -> None:
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


async def test_blocking_plugin_is_logged_with_its_stack(caplog) -> None:
    release = threading.Event()
    watchdog = Watchdog(limit=0.02)
    seen = []

    def observe() -> None:
        _wait_for(lambda: "plugin Blocker in Filter has been blocking" in caplog.text)
        seen.append((watchdog.blocked_seconds, caplog.text))
        release.set()

    observer = threading.Thread(target=observe)
    watchdog.start()
    observer.start()
    plugin = Blocker(release)
    call(plugin, "Filter", plugin.filter)
    await asyncio.to_thread(observer.join)
    await asyncio.to_thread(_wait_for, lambda: watchdog.blocked_seconds == 0)
    watchdog.stop()
    [(blocked, text)] = seen
    assert blocked > 0
    assert "self.release.wait(5)" in text, "the stack has the blocking line"
    assert "bayplan/core/framework/calling.py" not in text, "and only the plugin's frames"
    assert "asyncio" not in text
    assert "plugin Blocker in Filter blocked for" in caplog.text


async def test_nothing_is_logged_while_the_loop_responds(caplog) -> None:
    watchdog = Watchdog(limit=1.0)
    watchdog.start()
    for _ in range(20):
        await asyncio.sleep(0.001)
    watchdog.stop()
    assert not caplog.text
