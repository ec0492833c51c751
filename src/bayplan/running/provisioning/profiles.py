"""The profiles of provisioning requests: those of the scheduler, under another name, and with the request as the gang.

Pods of requests have a scheduler name that no real pod has, so that real pods are decided as ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bayplan.core.framework.profile import Point, Profile
from bayplan.running.provisioning.room import Rooms

_SUFFIX = "/provisioning"


def with_requests(profiles: Mapping[str, Profile], plugin: Any, rooms: Rooms, *, alone: bool) -> dict[str, Profile]:
    """Return the profiles with those of requests; only the latter if another scheduler places the pods."""
    derived = {name_for_requests(name): _derived(profile, plugin, rooms) for name, profile in profiles.items()}
    return derived if alone else {**profiles, **derived}


def name_for_requests(scheduler_name: str) -> str:
    """The scheduler name of a request's pods."""
    return f"{scheduler_name}{_SUFFIX}"


def _derived(profile: Profile, plugin: Any, rooms: Rooms) -> Profile:
    permit = [plugin, *profile.at(Point.PERMIT)]
    name = name_for_requests(profile.scheduler_name)
    plugins = {**profile.plugins, Point.PERMIT: permit}
    return replace(profile, scheduler_name=name, plugins=plugins, flushed=False, hints=rooms.hints(profile, name))
