"""The plugins that a configuration can name: the in-tree ones, and the user's own."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from bayplan.config.errors import PluginLoadError
from bayplan.framework.interface import Plugin
from bayplan.framework.profile import FORMS, Point
from bayplan.plugins.registry import DEFAULT_PLUGINS, PLUGINS, Entry

ExtraPlugin = type[Plugin] | Plugin
"""A plugin of the user's: a class that is built with its arguments, or one that needs none."""


class Catalog:
    """What there is by name. `gated_plugins`: in-tree plugins that feature gates add to the default ones.

    Raises PluginLoadError for a plugin of the user's whose name is taken.
    """

    def __init__(self, extra_plugins: Sequence[ExtraPlugin] = (), gated_plugins: Sequence[str] = ()) -> None:
        self.defaults: tuple[Entry, ...] = (*DEFAULT_PLUGINS, *(PLUGINS[name] for name in gated_plugins))
        """The plugins of multiPoint where nobody says otherwise, in their order."""
        self.extras: dict[str, ExtraPlugin] = {}
        for extra in extra_plugins:
            if extra.name in PLUGINS or extra.name in self.extras:
                owner = "an in-tree plugin" if extra.name in PLUGINS else "another one"
                raise PluginLoadError(f"plugin {extra.name!r} has the name of {owner}: give it one of its own")
            self.extras[extra.name] = extra

    @property
    def names(self) -> Collection[str]:
        """Of all plugins."""
        return (*PLUGINS, *self.extras)

    def takes_part(self, name: str, point: Point) -> bool:
        """Whether the plugin is there and implements a point."""
        plugin: Any = self.extras.get(name) or (PLUGINS[name].factory if name in PLUGINS else None)
        if plugin is None:
            return False
        cls = plugin if isinstance(plugin, type) else type(plugin)
        return any(issubclass(cls, form) for form in FORMS[point])

    def points(self, name: str) -> list[Point]:
        """All points that the plugin implements."""
        return [point for point in Point if self.takes_part(name, point)]
