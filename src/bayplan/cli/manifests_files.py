"""What goes into the ConfigMap: a configuration, given or made, and plugins; judged as `bayplan run` judges them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from bayplan.cli.manifests_documents import CONFIGURATION_FILE, FOLDER, STOCK_LEASE
from bayplan.config import (
    ExtraPlugin,
    KubeSchedulerConfiguration,
    PluginLoadError,
    load_configuration,
    load_plugins,
    read_configuration,
)
from bayplan.config.types import API_VERSION, KIND, LeaderElection
from bayplan.plugins.coscheduling.plugin import Coscheduling

LARGEST = 1024 * 1024
"""Bytes that a ConfigMap may hold."""
_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")


class UnusableFile(Exception):
    """A file cannot be deployed so. The message names it and says what would be right."""


@dataclass(slots=True)
class Files:
    """The files of a scheduler, by their names in the ConfigMap, and what follows from them."""

    files: dict[str, str] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)
    """What `bayplan run` has to be told of them, beside where the configuration is."""
    lease: tuple[str, str] | None = None
    """(namespace, name), if leaders are elected."""
    pod_groups: bool = False
    """Whether a profile has Coscheduling."""
    warnings: list[str] = field(default_factory=list)


def collect(
    config: Path | None,
    plugins: Sequence[str],
    *,
    name: str,
    namespace: str,
    scheduler_name: str | None,
    replicas: int,
) -> Files:
    """Reads and judges all files. Raises UnusableFile, and what reading configurations and plugins raises."""
    found = Files()
    loaded = _collect_plugins(plugins, found, must_load=config is None)
    if config is None:
        found.lease = (namespace, name)
        found.files[CONFIGURATION_FILE] = _configuration(scheduler_name or name, found.lease, loaded or [])
    else:
        configuration = _collect_configuration(config, loaded, found)
        found.pod_groups = any(
            Coscheduling.name in profile.plugins.enabled_names() for profile in configuration.profiles
        )
        _judge_election(config, configuration.leaderElection, found, replicas)
        if scheduler_name is not None:
            _judge_profiles(config, configuration)
            found.arguments.append(f"--scheduler-name={scheduler_name}")
    size = sum(len(key) + len(text.encode()) for key, text in found.files.items())
    if size > LARGEST:
        raise UnusableFile(f"the files have {size} bytes, and a ConfigMap holds {LARGEST}: put plugins into the image")
    return found


def _collect_plugins(references: Sequence[str], found: Files, *, must_load: bool) -> list[ExtraPlugin] | None:
    """The plugins; None if some are modules that only the image has. Files go into the ConfigMap."""
    loaded: list[ExtraPlugin] | None = []
    for reference in references:
        place, _, name = reference.partition(":")
        if place.endswith(".py"):
            plugins = load_plugins([reference])
            path = Path(place)
            if not _KEY.fullmatch(path.name):
                raise UnusableFile(f"{path}: a ConfigMap takes names of letters, digits, '-', '_' and '.' only")
            if path.name in found.files:
                raise UnusableFile(f"{path}: there is another plugin file called {path.name}: rename one")
            found.files[path.name] = _text(path)
            found.arguments.append(f"--plugin={FOLDER}/{path.name}{':' if name else ''}{name}")
        else:
            try:
                plugins = load_plugins([reference])
            except PluginLoadError as error:
                if must_load:
                    why = "a module that only the image has needs a --config that names its plugins"
                    raise UnusableFile(f"{error}; {why}") from None
                loaded = None
            found.arguments.append(f"--plugin={reference}")
        if loaded is not None:
            loaded += plugins
    return loaded


def _text(path: Path) -> str:
    """The file as it goes into a ConfigMap, which holds text."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = "is not written in UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror
        raise UnusableFile(f"{path}: cannot be put into a ConfigMap: {why}") from None


def _configuration(scheduler_name: str, lease: tuple[str, str], plugins: Sequence[ExtraPlugin]) -> str:
    """A configuration of one profile with the default plugins and these."""
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


def _collect_configuration(path: Path, plugins: list[ExtraPlugin] | None, found: Files) -> KubeSchedulerConfiguration:
    if plugins is None:
        configuration = load_configuration(path)
    else:
        reading = read_configuration(path, plugins)
        found.warnings += reading.warning_lines()
        configuration = reading.configuration
        named = {name for profile in configuration.profiles for name in profile.plugins.enabled_names()}
        found.warnings += [
            f"{path}: warning: plugin {plugin.name!r} is in no profile: enable it in plugins.multiPoint"
            for plugin in plugins
            if plugin.name not in named
        ]
    found.files[CONFIGURATION_FILE] = _text(path)
    if configuration.clientConnection.kubeconfig:
        where = f"{path}: clientConnection.kubeconfig: {configuration.clientConnection.kubeconfig}"
        raise UnusableFile(f"{where} is no file of the pod's: leave it out, and its service account is used")
    return configuration


def _judge_profiles(path: Path, configuration: KubeSchedulerConfiguration) -> None:
    """A name on the command line is that of the only profile."""
    names = [profile.schedulerName for profile in configuration.profiles]
    if len(names) > 1:
        what = f"--scheduler-name: {path} has {len(names)} profiles, each with its own name ({', '.join(names)})"
        raise UnusableFile(f"{what}: change profiles[].schedulerName there")


def _judge_election(path: Path, election: LeaderElection, found: Files, replicas: int) -> None:
    if not election.leaderElect and replicas > 1:
        what = f"{path}: leaderElection.leaderElect: is false, and {replicas} replicas would decide about the same pods"
        raise UnusableFile(f"{what}: set it to true, or say --replicas 1")
    if election.leaderElect:
        found.lease = (election.resourceNamespace, election.resourceName)
    if found.lease == STOCK_LEASE:
        found.warnings.append(
            f"{path}: leaderElection.resourceName: warning: {STOCK_LEASE[1]} in {STOCK_LEASE[0]} is the lease of the "
            "stock kube-scheduler: while that one leads, Bayplan waits. To run beside it, name another lease"
        )
