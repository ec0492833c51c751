"""An exception of a plugin becomes its error; Ctrl-C does not."""

import signal
import traceback

import pytest

from bayplan.core.framework.calling import call
from bayplan.core.framework.status import PluginError
from bayplan.foundations.failures import Failures
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


@pytest.fixture
def sigint():
    """Sets the handler of SIGINT for a test."""
    before = signal.getsignal(signal.SIGINT)
    yield lambda handler: signal.signal(signal.SIGINT, handler)
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_ends_the_program(sigint):
    sigint(signal.default_int_handler)
    plugin = Odd(None)
    with pytest.raises(KeyboardInterrupt):
        call(plugin, "PreEnqueue", plugin.interrupted, make_pod("p"))


def test_keyboard_interrupt_is_the_plugin_s_when_the_program_handles_sigint(sigint):
    sigint(lambda *_: None)
    plugin = Odd(KeyboardInterrupt())
    with pytest.raises(PluginError, match="plugin Odd failed in PreEnqueue: KeyboardInterrupt"):
        call(plugin, "PreEnqueue", plugin.pre_enqueue, make_pod("p"))


def failing(plugin, point="PreEnqueue"):
    with pytest.raises(PluginError) as raised:
        call(plugin, point, plugin.pre_enqueue, make_pod("p"))
    return raised.value


def test_log_has_the_frames_of_the_plugin(caplog):
    failing(Odd(LookupError("no luck"))).record(Failures(), "pod default/p")
    [record] = caplog.records
    assert record.getMessage() == "plugin Odd failed in PreEnqueue: LookupError: no luck (pod default/p)"
    frames = traceback.extract_tb(record.exc_info[2])
    assert [frame.line for frame in frames] == ["self.check(pod)", "raise self.error"]
    assert {frame.filename for frame in frames} == {__file__}


def test_same_failure_is_logged_once_and_counted(caplog):
    failures = Failures()
    for number in range(10):
        failing(Odd(LookupError(f"no luck {number}"))).record(failures)
    failing(Odd(LookupError("no luck")), "Filter").record(failures)
    failing(Odd(ValueError("no luck"))).record(failures)
    assert [record.getMessage() for record in caplog.records] == [
        "plugin Odd failed in PreEnqueue: LookupError: no luck 0",
        "plugin Odd failed in PreEnqueue: LookupError: no luck 9; 10 times so far",
        'running "Odd" filter plugin: LookupError: no luck',
        "plugin Odd failed in PreEnqueue: ValueError: no luck",
    ]
    assert failures.counts == {
        ("plugin Odd in PreEnqueue", "LookupError"): 10,
        ("plugin Odd in Filter", "LookupError"): 1,
        ("plugin Odd in PreEnqueue", "ValueError"): 1,
    }


def test_value_that_is_not_allowed_is_logged_without_frames(caplog):
    PluginError("Odd", "Score", "expected an integer").record(Failures())
    [record] = caplog.records
    assert (record.getMessage(), record.exc_info) == (
        'running Score plugins: plugin "Odd" failed with: expected an integer',
        None,
    )
