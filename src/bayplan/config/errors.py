"""What is wrong with a configuration or a plugin of the user's, in words for the user."""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.api.field_errors import FieldError


class ConfigurationError(ValueError):
    """A configuration that cannot be used. `faults` says where and why; `source` is the file, if there is one."""

    def __init__(self, faults: Sequence[FieldError], source: str = "") -> None:
        self.faults = tuple(faults)
        self.source = source
        lines = "\n".join(f"  {fault}" for fault in self.faults)
        where = f"{source}: " if source else ""
        super().__init__(
            f"{where}{self.faults[0]}" if len(self.faults) == 1 else f"{where}{len(self.faults)} faults:\n{lines}"
        )


class PluginLoadError(ValueError):
    """A plugin that cannot be loaded or built: the message names it, what is wrong, and what would be right."""
