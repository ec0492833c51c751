"""A headless Chromium, driven through its DevTools protocol."""

import base64
import itertools
import json
import os
import shutil
import subprocess
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import aiohttp
from tests.support.waiting import eventually, until

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless=new",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--remote-debugging-port=0",
)
KEYS = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}


def executable():
    """The browser on the PATH; None if there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Tab:
    """The one tab of the browser."""

    def __init__(self, socket):
        self._socket = socket
        self._numbers = itertools.count(1)
        self.errors = []
        """What the console and the page have reported as errors."""

    async def send(self, method, **params):
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": params})
        while True:
            message = json.loads((await self._socket.receive(timeout=30)).data)
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]
            self._note(message)

    def _note(self, message):
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(params["exceptionDetails"])
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"])

    async def open(self, url):
        await self.send("Page.navigate", url=url)
        await self.until("document.readyState === 'complete'")

    async def value(self, expression):
        """The value of a JavaScript expression."""
        answer = await self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def until(self, expression):
        """Wait until a JavaScript expression is true."""

        async def holds():
            with suppress(AssertionError):  # the page is being replaced
                return await self.value(expression)

        await until(holds, within=20, step=0.02)

    async def press(self, key):
        special = KEYS.get(key)
        about = {"key": key, **({"windowsVirtualKeyCode": special, "code": key} if special else {"text": key})}
        if key == "Enter":
            about["text"] = "\r"
        await self.send("Input.dispatchKeyEvent", type="keyDown", **about)
        await self.send("Input.dispatchKeyEvent", type="keyUp", **{k: v for k, v in about.items() if k != "text"})

    async def type(self, text):
        for letter in text:
            await self.press(letter)

    async def color_scheme(self, scheme):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.send("Emulation.setEmulatedMedia", features=features)

    async def size(self, width, height):
        await self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    async def screenshot(self):
        """The visible part of the page as PNG."""
        return base64.b64decode((await self.send("Page.captureScreenshot", format="png"))["data"])


@contextmanager
def browser(folder):
    """A browser whose profile is in `folder`, by the URL of its DevTools. The folder is removed at the end."""
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    command = [executable(), *FLAGS, *sandbox, f"--user-data-dir={folder}", "about:blank"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            file = Path(folder) / "DevToolsActivePort"

            def started():
                assert process.poll() is None, "the browser has ended"
                return file.exists() and file.read_text().count("\n")

            eventually(started, within=30, step=0.05)
            yield f"http://127.0.0.1:{file.read_text().partition(chr(10))[0]}"
        finally:
            process.terminate()
            process.wait()

            def removed():  # processes of the browser that outlive it for a moment may write there again
                shutil.rmtree(folder, ignore_errors=True)
                return not Path(folder).exists()

            eventually(removed, within=30, step=0.05)


@asynccontextmanager
async def new_tab(devtools, make=Tab):
    """A new tab of a browser."""
    async with aiohttp.ClientSession() as session:
        async with session.put(f"{devtools}/json/new?about:blank") as response:
            about = await response.json(content_type=None)
        async with session.ws_connect(about["webSocketDebuggerUrl"], max_msg_size=0) as socket:
            tab = make(socket)
            for domain in ("Page", "Runtime", "Log"):
                await tab.send(f"{domain}.enable")
            yield tab
        async with session.get(f"{devtools}/json/close/{about['id']}"):
            pass
