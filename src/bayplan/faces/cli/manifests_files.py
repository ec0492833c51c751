"""The files of the ConfigMap: a given or generated configuration, and plugins, validated as `bayplan run` does."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from bayplan.core.config import (
    Catalog,
    ExtraPlugin,
    KubeSchedulerConfiguration,
    PluginLoadError,
    load_configuration,
    load_plugins,
    read_configuration,
    single_profile_problem,
)
from bayplan.core.config.types import API_VERSION, KIND, LeaderElection
from bayplan.core.config.wrapping import configuration_at
from bayplan.faces.cli.manifests_documents import CONFIGURATION_FILE, FOLDER, STOCK_LEASE, Document

LARGEST = 1024 * 1024
"""The maximum size of a ConfigMap in bytes."""
_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")


class UnusableFile(Exception):
    """A file can't be deployed. The message says which one, and what to do."""


@dataclass(slots=True)
class SchedulerFiles:
    """The files of a scheduler by their names in the ConfigMap, and settings derived from them."""

    files: dict[str, str] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)
    """Arguments of `bayplan run` in addition to --config."""
    lease: tuple[str, str] | None = None
    """(namespace, name) of the lease, with leader election."""
    rules: list[Document] = field(default_factory=list)
    """What the plugins of its profiles may do, beside what every scheduler may: rules of a ClusterRole."""
    definitions: list[Document] = field(default_factory=list)
    """The CustomResourceDefinitions that these plugins need."""
    warnings: list[str] = field(default_factory=list)
    configuration: KubeSchedulerConfiguration | None = None
    """The configuration that was given, if all its plugins could be loaded."""


def collect(
    config: Path | None, plugins: Sequence[str], *, name: str, namespace: str, scheduler_name: str | None, replicas: int
) -> SchedulerFiles:
    """Read and validate all files. Raises UnusableFile, ConfigurationError and PluginLoadError."""
    found = SchedulerFiles()
    loaded = collect_plugins(plugins, found, must_load=config is None)
    if config is None:
        found.lease = (namespace, name)
        found.files[CONFIGURATION_FILE] = _configuration(scheduler_name or name, found.lease, loaded or [])
        add_needs([plugin.name for plugin in loaded or ()], loaded or (), found)
    else:
        configuration = _collect_configuration(config, loaded, found)
        found.configuration = configuration if loaded == [] else None
        add_needs(enabled_in(configuration), loaded or (), found)
        _check_election(config, configuration.leaderElection, found, replicas)
        if scheduler_name is not None:
            problem = single_profile_problem(configuration, config)
            if problem:
                raise UnusableFile(problem)
            found.arguments.append(f"--scheduler-name={scheduler_name}")
    size = sum(len(key) + len(text.encode()) for key, text in found.files.items())
    if size > LARGEST:
        raise UnusableFile(
            f"the files have {size} bytes, but a ConfigMap can hold {LARGEST}: put the plugins into the image"
        )
    return found


def enabled_in(configuration: KubeSchedulerConfiguration) -> Sequence[str]:
    """The names of the plugins that the profiles enable."""
    return list(dict.fromkeys(name for each in configuration.profiles for name in each.plugins.enabled_names()))


def add_needs(names: Iterable[str], plugins: Sequence[ExtraPlugin], found: SchedulerFiles) -> None:
    """Add what plugins declare to need in the cluster. `plugins`: the user's."""
    catalog = Catalog(plugins)
    for name in names:
        plugin = catalog.other(name)
        if plugin is None:
            continue
        found.rules += [dict(rule) for rule in plugin.permissions if rule not in found.rules]
        found.definitions += [dict(each) for each in plugin.definitions() if each not in found.definitions]


def collect_plugins(references: Sequence[str], found: SchedulerFiles, *, must_load: bool) -> list[ExtraPlugin] | None:
    """The plugins, or None if some are modules that only the image has. Adds plugin files to the ConfigMap."""
    loaded: list[ExtraPlugin] | None = []
    for reference in references:
        place, _, name = reference.partition(":")
        if place.endswith(".py"):
            plugins = load_plugins([reference])
            path = Path(place)
            if not _KEY.fullmatch(path.name):
                raise UnusableFile(
                    f"{path}: file names in a ConfigMap may contain only letters, digits, '-', '_' and '.'"
                )
            if path.name in found.files:
                raise UnusableFile(f"{path}: another plugin file has the name {path.name}: rename one of them")
            found.files[path.name] = text_of(path)
            found.arguments.append(f"--plugin={FOLDER}/{path.name}{':' if name else ''}{name}")
        else:
            try:
                plugins = load_plugins([reference])
            except PluginLoadError as error:
                if must_load:
                    why = "to use a module that only the image has, enable its plugins in a --config"
                    raise UnusableFile(f"{error}; {why}") from None
                loaded = None
            found.arguments.append(f"--plugin={reference}")
        if loaded is not None:
            loaded += plugins
    return loaded


def text_of(path: Path) -> str:
    """The text of a file for the ConfigMap. Raises UnusableFile."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = "is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error.strerror
        raise UnusableFile(f"{path}: cannot be added to the ConfigMap: {why}") from None


def _configuration(scheduler_name: str, lease: tuple[str, str], plugins: Sequence[ExtraPlugin]) -> str:
    """A configuration with one profile: the default plugins and these."""
    profile: dict[str, Any] = {"schedulerName": scheduler_name}
    if plugins:
        profile["plugins"] = {"multiPoint": {"enabled": [{"name": plugin.name} for plugin in plugins]}}
    election = {"leaderElect": True, "resourceNamespace": lease[0], "resourceName": lease[1]}
    document: Mapping[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "leaderElection": election,
        "profiles": [profile],
    }
    text: str = yaml.safe_dump(document, sort_keys=False)
    return text


def _collect_configuration(
    path: Path, plugins: list[ExtraPlugin] | None, found: SchedulerFiles
) -> KubeSchedulerConfiguration:
    if plugins is None:
        configuration = load_configuration(path)
    else:
        reading = read_configuration(path, plugins)
        found.warnings += reading.warning_lines()
        configuration = reading.configuration
        problem = "is not enabled in any profile: enable it in plugins.multiPoint"
        found.warnings += [f"{path}: warning: plugin {name!r} {problem}" for name in reading.unused_plugins()]
    found.files[CONFIGURATION_FILE] = (
        text_of(path) if path.exists() else yaml.safe_dump(configuration_at(path).data, sort_keys=False)  # FILE#NAME
    )
    check_connection(path, configuration)
    return configuration


def check_connection(path: Path, configuration: KubeSchedulerConfiguration) -> None:
    """Raise UnusableFile if a configuration names a kubeconfig, which is not in the pod."""
    if configuration.clientConnection.kubeconfig:
        where = f"{path}: clientConnection.kubeconfig: {configuration.clientConnection.kubeconfig}"
        raise UnusableFile(f"{where} does not exist in the pod: remove it, so that the service account is used")


def _check_election(path: Path, election: LeaderElection, found: SchedulerFiles, replicas: int) -> None:
    if not election.leaderElect and replicas > 1:
        what = f"{path}: leaderElection.leaderElect: is false, but {replicas} replicas would schedule the same pods"
        raise UnusableFile(f"{what}: set it to true, or use --replicas 1")
    if election.leaderElect:
        found.lease = (election.resourceNamespace, election.resourceName)
    if found.lease == STOCK_LEASE:
        found.warnings.append(
            f"{path}: leaderElection.resourceName: warning: {STOCK_LEASE[1]} in {STOCK_LEASE[0]} is the lease of the "
            "stock kube-scheduler, and Bayplan waits while that one leads: to run both, use another lease"
        )
