"""Status: the result of an extension point.

A rejection is a value; a bug is an exception. Mirrors fwk.Status (k8s.io/kube-scheduler/framework/interface.go).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

from bayplan.core.api.labels import InvalidSelector
from bayplan.core.api.objects import UndecodableObject
from bayplan.core.api.quantity import InvalidQuantity
from bayplan.core.framework.cycle_data import MissingCycleData
from bayplan.foundations.failures import Failures, described, drop_callers, is_ctrl_c, printable, shown

_INVALID = (InvalidSelector, InvalidQuantity, UndecodableObject)
"""Errors of objects: their authors have to correct them, and no plugin."""


class Code(IntEnum):
    """The codes of a Status. Their names are upstream's."""

    SUCCESS = 0
    ERROR = 1
    """An internal error: the attempt fails, and the pod is retried after its backoff."""
    UNSCHEDULABLE = 2
    """The pod is rejected; preempting other pods might help."""
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    """The pod is rejected; preempting other pods would not help."""
    WAIT = 4
    """Permit only: the pod has to wait."""
    SKIP = 5
    """The plugin does not apply to this pod. Its coupled extension points are skipped, or the next plugin is called."""
    PENDING = 6
    """The pod waits for an event that the plugin expects. The event requeues it without backoff."""

    def __str__(self) -> str:
        return "".join(part.capitalize() for part in self.name.split("_"))


@dataclass(frozen=True, slots=True)
class Status:
    """A code with its reasons. `plugin`: the plugin that returned it, which the runner fills in.

    Raises TypeError for anything else: in the plugin, so that the error has its line.
    """

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    def __post_init__(self) -> None:
        """Check what a plugin may have passed."""
        if type(self.code) is not Code or type(self.plugin) is not str:
            raise TypeError(f"Status({shown(self.code)}, plugin={shown(self.plugin)}): expected a Code and a name")
        if type(self.reasons) is not tuple:
            raise TypeError(f"the reasons of a Status are {shown(self.reasons)}, expected a tuple of str")
        for reason in self.reasons:
            if type(reason) is not str or not reason.isascii():
                if not isinstance(reason, str):
                    raise TypeError(f"a reason of a Status is {shown(reason)}, expected a str")
                object.__setattr__(self, "reasons", tuple(map(printable, self.reasons)))
                return

    @classmethod
    def unschedulable(cls, *reasons: str) -> Status:
        """Reject the node or the pod; preempting other pods might help."""
        return cls(Code.UNSCHEDULABLE, reasons)

    @classmethod
    def unresolvable(cls, *reasons: str) -> Status:
        """Reject the node or the pod; preempting other pods would not help."""
        return cls(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)

    @classmethod
    def error(cls, *reasons: str) -> Status:
        """Report an internal error."""
        return cls(Code.ERROR, reasons)

    @property
    def message(self) -> str:
        """The reasons, joined."""
        return ", ".join(self.reasons)

    @property
    def rejected(self) -> bool:
        """Whether the code is a rejection: neither success nor an error."""
        return self.code in {Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING}

    def by(self, plugin: str) -> Status:
        """Return the status with the plugin's name."""
        return self if self.plugin == plugin else Status(self.code, self.reasons, plugin)


def aggregate(messages: Iterable[str]) -> str:
    """Join error messages as Go's utilerrors.Aggregate does: without duplicates, in brackets if there are several."""
    distinct = list(dict.fromkeys(messages))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


@lru_cache(maxsize=1000)
def success(plugin: str = "") -> Status:
    """Return the Status of a plugin that succeeded. It is shared, because almost every call of a plugin succeeds."""
    return Status(Code.SUCCESS, plugin=plugin)


SKIP = Status(Code.SKIP)
"""Returned by a plugin that does not apply to a pod."""


_WORDS = {
    "PreFilter": 'running PreFilter plugin "{}": {}',
    "AddPod": 'running AddPod on PreFilter plugin "{}": {}',
    "RemovePod": 'running RemovePod on PreFilter plugin "{}": {}',
    "Filter": 'running "{}" filter plugin: {}',
    "PreScore": 'running PreScore plugin "{}": {}',
    "Score": 'running Score plugins: plugin "{}" failed with: {}',
    "NormalizeScore": 'running Normalize on Score plugins: plugin "{}" failed with: {}',
    "ScoreWeights": 'applying score defaultWeights on Score plugins: plugin "{}" {}',
    "PlacementScore": 'running PlacementScore plugins: plugin "{}" failed with: {}',
    "NormalizePlacementScore": 'running NormalizePlacementScore on PlacementScore plugins: plugin "{}" failed with: {}',
    "PlacementScoreWeights": 'applying score defaultWeights on PlacementScore plugins: plugin "{}" {}',
    "Reserve": 'running Reserve plugin "{}": {}',
    "Permit": 'running Permit plugin "{}": {}',
    "PreBindPreFlight": 'running PreBindPreFlight "{}": {}',
    "PreBind": 'running PreBind plugin "{}": {}',
    "Bind": 'running Bind plugin "{}": {}',
}
"""Upstream's words for errors, by extension point (runtime/framework.go)."""


def failed_in(plugin: str, point: str, problem: str) -> str:
    """Return the message about a plugin's error, in upstream's words where upstream has some."""
    words = _WORDS.get(point)
    return f"plugin {plugin} failed in {point}: {problem}" if words is None else words.format(plugin, problem)


class PluginError(Exception):
    """A plugin raised an exception, or returned a value that is not allowed at the extension point."""

    def __init__(self, plugin: str, point: str, problem: str) -> None:
        super().__init__(failed_in(plugin, point, problem))
        self.plugin = plugin
        self.point = point

    @classmethod
    def of(cls, plugin: str, point: str, error: BaseException) -> PluginError:
        """Return what a plugin raised as a PluginError of one line, to be raised `from` it or recorded.

        Raises `error` itself if it is not the plugin's: the user pressed Ctrl-C.
        """
        if is_ctrl_c(error):
            raise error
        drop_callers(error)
        failure = cls(plugin, point, str(error) if isinstance(error, MissingCycleData) else described(error))
        failure.__cause__ = error
        return failure

    def record(self, failures: Failures, about: object = "") -> None:
        """Record the failure. `about`: the pod, for the log.

        The log has the plugin's frames if there are some, except for data that a wrong profile leaves missing, and for
        values of an object that can't be read.
        """
        work, cause = f"plugin {self.plugin} in {self.point}", self.__cause__
        expected = cause is None or isinstance(cause, (MissingCycleData, *_INVALID)) or not drop_callers(cause)
        failures.record(work, cause or self, about, message=str(self), expected=expected)
