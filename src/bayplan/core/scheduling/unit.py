"""Unit: what one attempt schedules, a pod or a gang.

A plugin's `gang_of` names the pods that are placed together. The first plugin in the order of Permit that names a gang
decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.calling import call
from bayplan.core.framework.gangs import Gang, GangOf
from bayplan.core.framework.profile import Point, Profile, implements
from bayplan.core.framework.status import PluginError
from bayplan.foundations.failures import shown


class Unit(NamedTuple):
    """A pod, and the gang that must be placed with it, if it has one.

    `pod`: the pod whose turn it is. `gang`: the gang as the plugin `named_by` returned it. `pending`: the members that
    are in the scheduling queue, of any profile.
    """

    pod: PodInfo
    gang: Gang | None = None
    named_by: GangOf | None = None
    pending: tuple[PodInfo, ...] = ()

    @property
    def gang_plugin(self) -> str:
        """The name of the plugin that named the gang."""
        return str(getattr(self.named_by, "name", ""))


def unit_of(pod: PodInfo, profile: Profile, pending: Callable[[str], PodInfo | None]) -> Unit:
    """Return the unit that a pod belongs to; the first GangOf plugin that names a gang decides.

    A pod whose resize is attempted is one by itself.

    `pending` looks up a pod of the scheduling queue by uid. Raises PluginError.
    """
    for plugin in () if profile.resizes(pod) else profile.at(Point.PERMIT):
        if implements(plugin, GangOf):
            gang = call(plugin, "GangOf", plugin.gang_of, pod)
            if isinstance(gang, Gang):
                found = (pending(member.uid) for member in gang.members)
                return Unit(pod, gang, plugin, tuple(member for member in found if member is not None))
            if gang is not None:
                raise PluginError(plugin.name, "GangOf", f"answered {shown(gang)}, expected a Gang or None")
    return Unit(pod)
