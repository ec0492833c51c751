"""Catalog: the plugins that a configuration can name: the in-tree plugins, those that come beside them, and the user's.

Names are unique, but a plugin of the user's may replace one of `shipped_plugins.py`. A file or a name from outside
imports nothing here but parts of Bayplan: the user's plugins are given, loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from bayplan.core.config.errors import PluginLoadError
from bayplan.core.config.shipped_plugins import shipped_plugin, shipped_plugins
from bayplan.core.framework.arguments import PluginArgs
from bayplan.core.framework.gangs import GangPostFilter
from bayplan.core.framework.interface import Plugin
from bayplan.core.framework.profile import FORMS, Point
from bayplan.core.plugins.registry import DEFAULT_PLUGINS, OTHER_PLUGINS, PLUGINS, RegisteredPlugin
from bayplan.core.versions import DEFAULT_GATES, FeatureGates

PREEMPTION = "DefaultPreemption"
"""The plugin that preempts, for a PodGroup at podGroupPostFilter."""
PREEMPTS_FOR_GROUPS = "WorkloadAwarePreemption"
"""The plugin of Bayplan's that takes the part of DefaultPreemption for PodGroups."""

ExtraPlugin = type[Plugin] | Plugin
"""A plugin of the user's: a class, or an instance."""


def provided_names() -> AbstractSet[str]:
    """Return the names of the plugins that Bayplan has: the in-tree ones and those that come beside them."""
    return PLUGINS.keys() | shipped_plugins().keys()


def in_tree_names() -> Collection[str]:
    """Return the names of the in-tree plugins, enabled or not."""
    return PLUGINS.keys()


def in_tree_plugin(name: str) -> type[Any] | None:
    """Return the class of an in-tree plugin; None if there is none of that name."""
    return PLUGINS[name].factory if name in PLUGINS else None


class Catalog:
    """Plugins by name. `gates` are read by the plugins, and add some to the default ones.

    Raises PluginLoadError if two plugins have the same name.
    """

    def __init__(self, extra_plugins: Sequence[ExtraPlugin] = (), gates: FeatureGates = DEFAULT_GATES) -> None:
        self.gates = gates
        self.defaults: tuple[RegisteredPlugin, ...] = (
            *(entry for entry in DEFAULT_PLUGINS if not entry.gated or entry.name in gates.plugins),
            *(entry for entry in OTHER_PLUGINS if entry.name in gates.plugins),
        )
        """The default plugins of multiPoint, in order."""
        self.extras: dict[str, ExtraPlugin] = {}
        for extra in extra_plugins:
            if extra.name in PLUGINS or extra.name in self.extras:
                other = self.extras.get(extra.name)
                owner = "an in-tree plugin" if other is None else f"another plugin, in {_file_of(other)}"
                raise PluginLoadError(
                    f"{_file_of(extra)}: plugin name {extra.name!r} is already used by {owner}: choose another name"
                )
            self.extras[extra.name] = extra

    @property
    def names(self) -> Collection[str]:
        """The names of all plugins."""
        return (*PLUGINS, *dict.fromkeys((*self.extras, *shipped_plugins())))

    def other(self, name: str) -> ExtraPlugin | None:
        """Return a plugin that isn't in-tree: the user's, or one that comes with Bayplan; None if there is none."""
        return self.extras.get(name) or shipped_plugin(name)

    def arguments_of(self, name: str) -> type[PluginArgs] | None:
        """Return the type of a plugin's arguments; None if it takes none, or if they are no PluginArgs."""
        other: Any = self.other(name)
        arguments = PLUGINS[name].arguments if name in PLUGINS else getattr(other, "arguments", None)
        return arguments if isinstance(arguments, type) and issubclass(arguments, PluginArgs) else None

    def takes_part(self, name: str, point: Point) -> bool:
        """Whether the plugin exists and implements the extension point."""
        cls = self._class_of(name)
        return cls is not None and any(issubclass(cls, form) for form in FORMS[point])

    def preempts_for_groups(self, name: str) -> bool:
        """Whether the plugin can be at podGroupPostFilter: Kubernetes' own one, or any that does what it does."""
        cls = self._class_of(name)
        return name == PREEMPTION or (cls is not None and issubclass(cls, GangPostFilter))

    def _class_of(self, name: str) -> type[Any] | None:
        plugin: Any = in_tree_plugin(name) or self.other(name)
        return plugin if plugin is None or isinstance(plugin, type) else type(plugin)

    def points(self, name: str) -> list[Point]:
        """The extension points that the plugin implements."""
        return [point for point in Point if self.takes_part(name, point)]


def _file_of(plugin: ExtraPlugin) -> str:
    """The file that defines a plugin, or its module."""
    definition: Any = plugin if isinstance(plugin, type) else getattr(plugin, "function", type(plugin))
    name = definition.__module__
    return getattr(sys.modules.get(name), "__file__", None) or str(name)
