"""PluginArgs: the base class of arguments that report all their errors, with the paths of the fields."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from bayplan.core.api.field_errors import FieldError
from bayplan.core.versions import FeatureGates


class PluginArgs(msgspec.Struct, kw_only=True):
    """Arguments of a plugin, as `pluginConfig` has them: a field for each, with its default.

    Their `apiVersion` is that of the configuration, and their `kind` is the plugin's name with `Args`; both may be left
    out.
    """

    apiVersion: str = ""
    kind: str = ""

    def faults(self) -> Iterator[FieldError]:
        """Yield the validation errors, with paths relative to the arguments."""
        yield from ()

    def gated_faults(self, gates: FeatureGates) -> Iterator[FieldError]:
        """Yield the errors that depend on feature gates."""
        yield from ()
