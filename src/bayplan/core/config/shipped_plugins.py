"""The plugins that come with Bayplan beside the in-tree ones: those of `bayplan_plugins`.

A configuration only has to name them, like in-tree plugins. They are entry points of Bayplan's own distribution. So a
name from outside imports nothing but a part of Bayplan.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution
from typing import TypeGuard

from bayplan.core.framework.checks import check_plugin
from bayplan.core.framework.interface import Plugin

ENTRY_POINTS = "bayplan.plugins"
"""The group of the entry points with which any distribution offers plugins."""
_PACKAGE = "bayplan_plugins"


@lru_cache(maxsize=1)
def shipped_plugins() -> Mapping[str, EntryPoint]:
    """The entry points of these plugins by name. Imports none of them."""
    try:
        found = distribution("bayplan").entry_points
    except PackageNotFoundError:  # sources that aren't installed
        return {}
    return {entry.name: entry for entry in found.select(group=ENTRY_POINTS) if _is_within(entry.module)}


@lru_cache
def shipped_plugin(name: str) -> type[Plugin] | None:
    """The class of one of these plugins; None if there is none of that name."""
    entry = shipped_plugins().get(name)
    if entry is None:
        return None
    cls = entry.load()
    assert _is_plugin(cls), entry
    assert cls.name == name, entry
    check_plugin(cls)
    return cls


def _is_within(module: str) -> bool:
    return module.partition(".")[0] == _PACKAGE


def _is_plugin(value: object) -> TypeGuard[type[Plugin]]:
    return isinstance(value, type) and issubclass(value, Plugin)
