"""The runner of the binding cycle: calls a profile's Reserve, Permit, PreBind, Bind and PostBind plugins.

Mirrors pkg/scheduler/framework/runtime/framework.go, as `runner` does for the scheduling cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from inspect import isawaitable
from typing import Any

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework import interface
from bayplan.core.framework.calling import wait_for
from bayplan.core.framework.interface import CycleState, Wait
from bayplan.core.framework.profile import Point, Profile, implements
from bayplan.core.framework.runner import failure, status_of
from bayplan.core.framework.status import SKIP, Code, PluginError, Status, failed_in, success


def run_reserve(profile: Profile, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
    """Run the Reserve plugins up to the first that does not succeed. The caller then has to call `run_unreserve`."""
    for plugin in profile.at(Point.RESERVE):
        answer = cycle.call(plugin, "Reserve", plugin.reserve, cycle, pod, node_name)
        if answer is not None:
            status = _told(status_of(answer, plugin, "Reserve"), "Reserve")
            if status.code is not Code.SUCCESS:
                return status
    return success()


def run_unreserve(profile: Profile, cycle: CycleState, pod: PodInfo, node_name: str) -> list[PluginError]:
    """Call `unreserve` of all Reserve plugins, in reverse order. Returns their errors."""
    return _call_all(reversed(profile.at(Point.RESERVE)), "Unreserve", "unreserve", cycle, pod, node_name)


def run_release(profile: Profile, cycle: CycleState, pod: PodInfo, node_name: str) -> list[PluginError]:
    """Undo `run_reserve` in a what-if, as `run_unreserve` does, but with `release` where a plugin has it."""
    errors = []
    for plugin in reversed(profile.at(Point.RESERVE)):
        method = plugin.release if implements(plugin, interface.Release) else plugin.unreserve
        try:
            cycle.call(plugin, "Release", method, cycle, pod, node_name)
        except PluginError as error:
            errors.append(error)
    return errors


def run_permit(profile: Profile, cycle: CycleState, pod: PodInfo, node_name: str) -> tuple[Status, dict[str, float]]:
    """Run the Permit plugins up to the first rejection, and return it.

    Otherwise returns success, or WAIT with the timeout of each plugin that the pod waits for, in seconds.
    """
    waits: dict[str, float] = {}
    for plugin in profile.at(Point.PERMIT):
        answer = cycle.call(plugin, "Permit", plugin.permit, cycle, pod, node_name)
        if isinstance(answer, Wait):
            waits[plugin.name] = answer.seconds
        elif answer is not None:
            status = _told(status_of(answer, plugin, "Permit"), "Permit")
            if status.code is not Code.SUCCESS:
                return status, {}
    return (Status(Code.WAIT) if waits else success()), waits


async def run_pre_bind(plugins: Sequence[Any], cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
    """Run PreBind plugins one after the other, up to the first that does not succeed.

    `plugins`: those that `run_pre_bind_pre_flight` returned. Raises PluginError; its cause is what the plugin raised.
    """
    for plugin in plugins:
        status = await _finished(cycle, plugin, "PreBind", plugin.pre_bind, pod, node_name)
        if status.code is not Code.SUCCESS:
            return status
    return success()


def run_pre_bind_pre_flight(profile: Profile, cycle: CycleState, pod: PodInfo, node_name: str) -> list[Any]:
    """Return the PreBind plugins that have work: those that don't skip in PreBindPreFlight, or don't implement it."""
    plugins = []
    for plugin in profile.at(Point.PRE_BIND):
        if not implements(plugin, interface.PreBindPreFlight):
            plugins.append(plugin)
            continue
        answer = cycle.call(plugin, "PreBindPreFlight", plugin.pre_bind_pre_flight, cycle, pod, node_name)
        if answer is SKIP:
            continue
        status = status_of(answer, plugin, "PreBindPreFlight")
        if status.code not in {Code.SUCCESS, Code.SKIP}:
            raise failure(status, "PreBindPreFlight")
        if status.code is Code.SUCCESS:
            plugins.append(plugin)
    return plugins


async def run_bind(profile: Profile, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
    """Run the Bind plugins until one does not skip.

    Raises PluginError if one fails, with what it raised as the cause, or if all of them skip.
    """
    for plugin in profile.at(Point.BIND):
        status = await _finished(cycle, plugin, "Bind", plugin.bind, pod, node_name)
        if status.code is not Code.SKIP:
            return status
    raise PluginError(profile.scheduler_name, "Bind", "every Bind plugin of the profile skipped the pod")


def run_post_bind(profile: Profile, cycle: CycleState, pod: PodInfo, node_name: str) -> list[PluginError]:
    """Run the PostBind plugins. Returns their errors, because the pod is bound already."""
    return _call_all(profile.at(Point.POST_BIND), "PostBind", "post_bind", cycle, pod, node_name)


def _call_all(
    plugins: Iterable[Any], point: str, method: str, cycle: CycleState, pod: PodInfo, node_name: str
) -> list[PluginError]:
    """Call a method of all plugins, even if some of them fail. Returns the errors."""
    errors = []
    for plugin in plugins:
        try:
            cycle.call(plugin, point, getattr(plugin, method), cycle, pod, node_name)
        except PluginError as error:
            errors.append(error)
    return errors


async def _finished(cycle: CycleState, plugin: Any, point: str, method: Callable[..., Any], *arguments: Any) -> Status:
    """Call a method that may be asynchronous, and return its Status."""
    answer = cycle.call(plugin, point, method, cycle, *arguments)
    if isawaitable(answer):
        answer = await wait_for(plugin, point, answer)
    return _told(status_of(answer, plugin, point), point)


def _told(status: Status, point: str) -> Status:
    """Return a Status whose error says which plugin reported it."""
    if status.code is not Code.ERROR:
        return status
    return Status.error(failed_in(status.plugin, point, status.message)).by(status.plugin)
