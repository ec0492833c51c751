"""Plugins in the attempts of pods that have a node already, and whose resize waits for room there."""

from __future__ import annotations

from bayplan.core.framework.plugin import Plugin


class OnlyPlaces(Plugin):
    """The base class of plugins about where a pod is placed: they say nothing about resizes. See ForResizes."""

    def for_resizes(self) -> None:
        """Take no part."""
        return
