"""Reads a KubeSchedulerConfiguration: file, document, older versions, types, values, profiles. What is wrong is told
at once, as far as it can be known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayplan.api.field_errors import FieldError
from bayplan.config.catalog import Catalog, ExtraPlugin
from bayplan.config.decoding import decode
from bayplan.config.documents import Document, read_document, read_file
from bayplan.config.errors import ConfigurationError, beyond, placed
from bayplan.config.ineffective import ineffective_settings
from bayplan.config.planning import plan_profile
from bayplan.config.plugin_arguments import plugin_arguments
from bayplan.config.plugin_files import installed_plugins, load_installed
from bayplan.config.types import KubeSchedulerConfiguration
from bayplan.config.unprepared import unprepared_plugins
from bayplan.config.validation import configuration_faults
from bayplan.config.versions import current_version
from bayplan.plugins.registry import PLUGINS


@dataclass(frozen=True, slots=True)
class Reading:
    """A configuration that can be used, and what its author should know: settings without effect, and what changed
    its name or meaning since the version it is written in.
    """

    configuration: KubeSchedulerConfiguration
    plugins: Sequence[ExtraPlugin]
    """The user's own plugins that its profiles may name: those given, and installed ones that it does name."""
    warnings: Sequence[FieldError]
    document: Document

    def warning_lines(self) -> list[str]:
        """The warnings for people, a line each."""
        return [placed(each, self.document.source, self.document.line_of, "warning") for each in self.warnings]


def read_configuration(
    path: Path, extra_plugins: Sequence[ExtraPlugin] = (), gated_plugins: Sequence[str] = ()
) -> Reading:
    """The configuration in a file, whose profiles may name the in-tree plugins, these, and those that are installed.

    `gated_plugins` are those that feature gates add to the default ones.
    Raises ConfigurationError with all that is wrong, and PluginLoadError for a plugin whose name is taken or an
    installed one that cannot be loaded. What is left for `build_profiles` to find is a plugin that fails to start.
    """
    document = read_document(read_file(path), str(path))
    given = {plugin.name for plugin in extra_plugins}
    installed = installed_plugins()
    wanted = [
        name for name in dict.fromkeys(_named(document.data)) if name in installed.keys() - given - PLUGINS.keys()
    ]
    plugins = [*extra_plugins, *(load_installed(installed[name]) for name in wanted)]
    return read_document_of(document, Catalog(plugins, gated_plugins))


def load_configuration(path: Path) -> KubeSchedulerConfiguration:
    """The configuration in a file, whatever plugins it names. Raises ConfigurationError."""
    return read_document_of(read_document(read_file(path), str(path))).configuration


def parse_configuration(document: Mapping[str, Any], source: str = "") -> KubeSchedulerConfiguration:
    """The configuration that a document holds, whatever plugins it names. Raises ConfigurationError."""
    return read_document_of(Document(dict(document), source)).configuration


def read_document_of(document: Document, catalog: Catalog | None = None) -> Reading:
    """See `read_configuration`. Without a catalog, plugins that are not in-tree are taken to exist."""
    converted = current_version(document)
    configuration, found = decode(converted.data, KubeSchedulerConfiguration)
    faults = [*document.faults, *converted.faults, *map(converted.as_written, found)]

    def judge(found: Iterable[FieldError]) -> None:
        faults.extend(beyond(faults, map(converted.as_written, found)))

    if configuration is not None:
        judge(configuration_faults(configuration))
        for index, profile in enumerate(configuration.profiles):
            path = f"profiles[{index}]"
            if catalog is None:
                judge(plugin_arguments(profile, Catalog(), path)[1])
            else:
                judge(plan_profile(profile, catalog, path, earlier=faults)[1])
    if configuration is None or faults:
        raise ConfigurationError(document.in_order(faults), document.source, document.line_of)
    notes = list(converted.notes)
    if catalog is not None:
        notes += map(converted.as_written, ineffective_settings(configuration, catalog))
        notes += map(converted.as_written, unprepared_plugins(configuration, catalog))
    plugins = list(catalog.extras.values()) if catalog is not None else []
    return Reading(configuration, plugins, document.in_order(notes), document)


def _named(value: Any) -> Iterator[str]:
    """Everything that a document enables, whatever else is wrong with it."""
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
