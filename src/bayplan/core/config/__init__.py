"""KubeSchedulerConfiguration as typed values, strictly read, with defaults, and the profiles built from it.

A file passes through stages: wrapping (among other documents, or in a ConfigMap), document (lines, duplicates), version
(conversion to v1, with the paths of the file), types, values, and plan (effective plugins and arguments; nothing is
built yet). Each stage adds its errors to one list. What can't be parsed counts as empty, so that the rest is still
validated. `build_profiles` builds the plugins of a plan (`profiles.py`).

To read or validate more: the field in `types.py`, its values in `validation.py`, what has no effect in
`ineffective.py`. Plugins of other projects are known in `origins.py`, former Policies in `policies.py`.

Other packages use `catalog`, `documents`, `errors`, `loading`, `merging`, `origins`, `planning`, `plugin_files`,
`profiles`, `types`, `validation`, `wrapping`, `writing`.
"""

from typing import TYPE_CHECKING

from bayplan.foundations.lazy import lazily

if TYPE_CHECKING:  # what reads files is imported by those who read one
    from bayplan.core.config.catalog import Catalog, ExtraPlugin
    from bayplan.core.config.errors import ConfigurationError, PluginLoadError
    from bayplan.core.config.loading import (
        LoadedConfiguration,
        load_configuration,
        parse_configuration,
        read_configuration,
        rename_profile,
        single_profile_problem,
    )
    from bayplan.core.config.plugin_files import load_plugins
    from bayplan.core.config.profiles import build_profile, build_profiles, default_profile
    from bayplan.core.config.types import KubeSchedulerConfiguration, KubeSchedulerProfile

__all__ = [
    "Catalog",
    "ConfigurationError",
    "ExtraPlugin",
    "KubeSchedulerConfiguration",
    "KubeSchedulerProfile",
    "LoadedConfiguration",
    "PluginLoadError",
    "build_profile",
    "build_profiles",
    "default_profile",
    "load_configuration",
    "load_plugins",
    "parse_configuration",
    "read_configuration",
    "rename_profile",
    "single_profile_problem",
]

__getattr__, __dir__ = lazily(__name__)
