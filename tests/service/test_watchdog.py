import asyncio
import threading

from tests.support.waiting import eventually, turns

from bayplan.core.framework.calling import call
from bayplan.running.service.watchdog import Watchdog


class Blocker:
    name = "Blocker"

    def __init__(self, release: threading.Event) -> None:
        self.release = release

    def filter(self) -> None:
        self.release.wait(5)


async def test_blocking_plugin_is_logged_with_its_stack(caplog) -> None:
    release = threading.Event()
    watchdog = Watchdog(limit=0.02)
    seen = []

    def observe() -> None:
        eventually(lambda: "plugin Blocker in Filter has been blocking" in caplog.text)
        seen.append((watchdog.blocked_seconds, caplog.text))
        release.set()

    observer = threading.Thread(target=observe)
    watchdog.start()
    observer.start()
    plugin = Blocker(release)
    call(plugin, "Filter", plugin.filter)
    await asyncio.to_thread(observer.join)
    await asyncio.to_thread(eventually, lambda: watchdog.blocked_seconds == 0)
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
    await turns()
    watchdog.stop()
    assert not caplog.text
