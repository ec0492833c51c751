"""The end of a binding cycle in memory: PreBind, and the pod on its node."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from bayplan.api.kinds import POD
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.binding_runner import run_pre_bind, run_pre_bind_pre_flight
from bayplan.framework.interface import CycleState
from bayplan.framework.profile import Point, Profile
from bayplan.framework.status import Code, PluginError, Status
from bayplan.simulation.world import World
from bayplan.simulation.writes import NO_LOOP, WouldWaitError, finished


@dataclass(slots=True)
class ReservedPod:
    """A pod that is reserved on its node. `pod`: with its node."""

    pod: PodInfo
    node_name: str
    profile: Profile
    cycle: CycleState


def bind(world: World, binding: ReservedPod) -> Status:
    """Bind the pod after PreBind, whose plugins get a client that writes in memory.

    A plugin that waits for something else is taken to succeed: here, it would wait forever.
    """
    world.handle.client = world.client
    try:
        for plugin in run_pre_bind_pre_flight(binding.profile, binding.cycle, binding.pod, binding.node_name):
            with suppress(WouldWaitError):
                status = _pre_bind(plugin, binding)
                if status.code is not Code.SUCCESS:
                    return status
    except PluginError as error:
        return Status(Code.ERROR, (str(error),), error.plugin)
    finally:
        world.handle.client = None
    world.change(POD, binding.pod.key, binding.pod)
    _shrink(binding)
    return Status(Code.SUCCESS)


def _pre_bind(plugin: Any, binding: ReservedPod) -> Status:
    """The result of PreBind. Raises PluginError or WouldWaitError."""
    try:
        status = finished(run_pre_bind([plugin], binding.cycle, binding.pod, binding.node_name))
    except PluginError as error:
        if isinstance(error.__cause__, WouldWaitError) or NO_LOOP in str(error):
            raise WouldWaitError(str(error)) from None
        raise
    if NO_LOOP in status.message:  # a plugin that makes a status of every exception
        raise WouldWaitError(status.message)
    return status


def _shrink(binding: ReservedPod) -> None:
    """Drop the cycle's data of plugins that don't reserve: the cycle is kept for `unreserve`.

    Such data may be arrays as long as the node table.
    """
    profile, data = binding.profile, binding.cycle.data
    reserving = {plugin.name for plugin in profile.at(Point.RESERVE)}
    unneeded = {plugin.name for plugin in profile.every() if plugin.name not in reserving}
    for key in [key for key in data if (key[0] if isinstance(key, tuple) else key) in unneeded]:
        del data[key]
