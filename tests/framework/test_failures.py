"""What a plugin raises becomes its error; Ctrl-C does not."""

from __future__ import annotations

import signal

import pytest

from bayplan.framework.calling import call
from bayplan.framework.status import PluginError
from bayplan.testing.builders import make_pod


class Odd:
    name = "Odd"

    def __init__(self, error):
        self.error = error

    def pre_enqueue(self, pod):
        self.check(pod)

    def check(self, pod):
        raise self.error

    def interrupted(self, pod):
        signal.raise_signal(signal.SIGINT)
        for _ in range(1000):
            pass


class Unreadable(Exception):
    def __str__(self):
        raise SystemExit(3)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (SystemExit(), "SystemExit"),
        (SystemExit("bye"), "SystemExit: bye"),
        (ValueError("two\nlines"), "ValueError: two lines"),
        (ValueError("x" * 10_000), f"ValueError: {'x' * 500}..."),
        (Unreadable(), "Unreadable: (the message cannot be read)"),
    ],
)
def test_error_is_one_line(error, message):
    plugin = Odd(error)
    with pytest.raises(PluginError) as raised:
        call(plugin, "PreEnqueue", plugin.pre_enqueue, make_pod("p"))
    assert str(raised.value) == f"plugin Odd failed in PreEnqueue: {message}"


def test_ctrl_c_ends_the_program():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background process ignores it
    plugin = Odd(None)
    try:
        with pytest.raises(KeyboardInterrupt):
            call(plugin, "PreEnqueue", plugin.interrupted, make_pod("p"))
    finally:
        signal.signal(signal.SIGINT, before)


def test_log_has_the_frames_of_the_plugin(caplog):
    plugin = Odd(LookupError("no luck"))
    with pytest.raises(PluginError):
        call(plugin, "Frames", plugin.pre_enqueue, make_pod("p"))
    [text] = [record.getMessage() for record in caplog.records]
    assert text.splitlines()[0] == "plugin Odd failed in Frames: LookupError: no luck"
    source = [line.strip() for line in text.splitlines() if "File" not in line]
    assert [line for line in source if line.strip("~^")][1:] == [  # newer versions of Python underline the error
        "self.check(pod)",
        "raise self.error",
    ]
    assert text.count(__file__) == 2
