"""KubeSchedulerConfiguration as typed values, strictly read, with defaults, and the profiles built from it."""

from bayplan.config.errors import ConfigurationError, PluginLoadError
from bayplan.config.loading import load_configuration, parse_configuration
from bayplan.config.plugin_files import load_plugins
from bayplan.config.profiles import ExtraPlugin, build_profile, default_profile, missing_plugins
from bayplan.config.types import KubeSchedulerConfiguration, KubeSchedulerProfile

__all__ = [
    "ConfigurationError",
    "ExtraPlugin",
    "KubeSchedulerConfiguration",
    "KubeSchedulerProfile",
    "PluginLoadError",
    "build_profile",
    "default_profile",
    "load_configuration",
    "load_plugins",
    "missing_plugins",
    "parse_configuration",
]
