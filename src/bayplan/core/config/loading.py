"""Reads a KubeSchedulerConfiguration in stages: file, document, older versions, types, values, profiles.

Reports the errors of all stages at once, as far as possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from bayplan.core.api.field_errors import FieldError
from bayplan.core.config.catalog import Catalog, ExtraPlugin, provided_names
from bayplan.core.config.decoding import decode
from bayplan.core.config.documents import Document
from bayplan.core.config.errors import ConfigurationError, error_line, unrelated
from bayplan.core.config.ineffective import ineffective_settings
from bayplan.core.config.planning import plan_profile
from bayplan.core.config.plugin_arguments import plugin_arguments
from bayplan.core.config.plugin_files import installed_plugins, load_installed
from bayplan.core.config.types import KubeSchedulerConfiguration
from bayplan.core.config.unprepared import unprepared_plugins
from bayplan.core.config.validation import configuration_faults
from bayplan.core.config.versions import current_version, of_later_versions
from bayplan.core.config.wrapping import configuration_at
from bayplan.core.versions import DEFAULT_GATES, FeatureGates


@dataclass(frozen=True, slots=True)
class LoadedConfiguration:
    """A valid configuration with warnings: settings without effect, and changes since the version of the file."""

    configuration: KubeSchedulerConfiguration
    plugins: Sequence[ExtraPlugin]
    """The user's plugins for its profiles: the given ones, and the installed ones that the configuration enables."""
    warnings: Sequence[FieldError]
    document: Document

    def unused_plugins(self) -> list[str]:
        """The names of the user's plugins that no profile enables."""
        named = {name for profile in self.configuration.profiles for name in profile.plugins.enabled_names()}
        return [plugin.name for plugin in self.plugins if plugin.name not in named]

    def warning_lines(self) -> list[str]:
        """The warnings as text, one per line."""
        return [error_line(each, self.document.source, self.document.line_of, "warning") for each in self.warnings]


def read_configuration(
    path: Path, extra_plugins: Sequence[ExtraPlugin] = (), gates: FeatureGates = DEFAULT_GATES
) -> LoadedConfiguration:
    """The configuration in a file. Its profiles may name in-tree plugins, `extra_plugins` and installed plugins.

    `gates` add plugins to the default ones, and allow arguments. Raises ConfigurationError with all errors, and
    PluginLoadError if two plugins have the same name or an installed one can't be loaded. After that, `build_profiles`
    can fail only if a plugin fails to start.
    """
    document = configuration_at(path)
    given = {plugin.name for plugin in extra_plugins}
    installed = installed_plugins()
    others = installed.keys() - given - set(provided_names())
    wanted = [name for name in dict.fromkeys(_named(document.data)) if name in others]
    plugins = [*extra_plugins, *(load_installed(installed[name]) for name in wanted)]
    return read_document_of(document, Catalog(plugins, gates))


def single_profile_problem(configuration: KubeSchedulerConfiguration, path: object) -> str:
    """Why --scheduler-name can't name the profiles of the configuration in a file; "" if there is a single one."""
    names = [profile.schedulerName for profile in configuration.profiles]
    if len(names) == 1:
        return ""
    what = f"{path} has {len(names)} profiles ({', '.join(names)})"
    return f"--scheduler-name: {what}: set profiles[].schedulerName there instead"


def rename_profile(configuration: KubeSchedulerConfiguration, names: Iterable[str]) -> None:
    """Serve the single profile of a configuration under other names."""
    (profile,) = configuration.profiles
    configuration.profiles = [replace(profile, schedulerName=name) for name in dict.fromkeys(names)]


def load_configuration(path: Path, gates: FeatureGates = DEFAULT_GATES) -> KubeSchedulerConfiguration:
    """The configuration in a file, which may name plugins that don't exist. Raises ConfigurationError."""
    return read_document_of(configuration_at(path), gates=gates).configuration


def parse_configuration(
    document: Mapping[str, Any], source: str = "", gates: FeatureGates = DEFAULT_GATES
) -> KubeSchedulerConfiguration:
    """The configuration in a document, which may name plugins that don't exist. Raises ConfigurationError."""
    return read_document_of(Document(dict(document), source), gates=gates).configuration


def read_document_of(
    document: Document, catalog: Catalog | None = None, gates: FeatureGates = DEFAULT_GATES
) -> LoadedConfiguration:
    """See `read_configuration`. Without a catalog, plugins that aren't in-tree are assumed to exist."""
    converted = current_version(document)
    configuration, found = decode(converted.data, KubeSchedulerConfiguration)
    found += of_later_versions(converted.data, catalog.gates if catalog is not None else gates)
    faults = [*document.faults, *converted.faults, *map(converted.in_original, found)]

    def add(found: Iterable[FieldError]) -> None:
        faults.extend(unrelated(faults, map(converted.in_original, found)))

    if configuration is not None:
        add(configuration_faults(configuration))
        for index, profile in enumerate(configuration.profiles):
            path = f"profiles[{index}]"
            if catalog is None:
                add(plugin_arguments(profile, Catalog(gates=gates), path)[1])
            else:
                add(plan_profile(profile, catalog, path, earlier=faults)[1])
    if configuration is None or faults:
        raise ConfigurationError(document.in_order(faults), document.source, document.line_of)
    notes = [*document.notes, *converted.notes]
    if catalog is not None:

        def is_given(path: str) -> bool:
            return converted.path_of(path) in document.places

        notes += map(converted.in_original, ineffective_settings(configuration, catalog, is_given))
        notes += map(converted.in_original, unprepared_plugins(configuration, catalog))
    plugins = list(catalog.extras.values()) if catalog is not None else []
    return LoadedConfiguration(configuration, plugins, document.in_order(notes), document)


def _named(value: Any) -> Iterator[str]:
    """The names of all plugins that a document enables, even if it has errors."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            if name == "enabled" and isinstance(item, list):
                names = [each.get("name") for each in item if isinstance(each, Mapping)]
                yield from (each for each in names if isinstance(each, str))
            else:
                yield from _named(item)
    elif isinstance(value, list):
        for item in value:
            yield from _named(item)
