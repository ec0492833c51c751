"""Reads a KubeSchedulerConfiguration: decode, default, validate.

Mirrors apis/config/validation/validation.go. Whether plugins exist is found out when profiles are built.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bayplan.api import durations, field_errors, requests
from bayplan.api.field_errors import FieldError
from bayplan.config.documents import convert, parse_yaml
from bayplan.config.errors import ConfigurationError
from bayplan.config.types import API_VERSION, KIND, Extender, KubeSchedulerConfiguration, KubeSchedulerProfile
from bayplan.plugins.arguments import PluginArgs
from bayplan.plugins.registry import PLUGINS


def load_configuration(path: Path) -> KubeSchedulerConfiguration:
    """The configuration in a file. Raises ConfigurationError."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError([FieldError("", f"cannot be read: {error.strerror}")], str(path)) from None
    except UnicodeDecodeError:
        raise ConfigurationError([FieldError("", "is no text: expected YAML in UTF-8")], str(path)) from None
    return parse_configuration(parse_yaml(text, str(path)), str(path))


def parse_configuration(document: Mapping[str, Any], source: str = "") -> KubeSchedulerConfiguration:
    """The configuration that a document holds. Raises ConfigurationError with all that is wrong."""
    version, kind = document.get("apiVersion"), document.get("kind")
    if version != API_VERSION:
        raise ConfigurationError([field_errors.not_supported("apiVersion", version or "", (API_VERSION,))], source)
    if kind != KIND:
        raise ConfigurationError([field_errors.not_supported("kind", kind or "", (KIND,))], source)
    try:
        configuration = convert(document, KubeSchedulerConfiguration)
        faults = list(_faults(configuration))
    except ConfigurationError as error:
        raise ConfigurationError(error.faults, source) from None
    if faults:
        raise ConfigurationError(faults, source)
    return configuration


def plugin_arguments(profile: KubeSchedulerProfile, path: str = "") -> dict[str, PluginArgs]:
    """The typed arguments of the in-tree plugins that take some, by name. Raises ConfigurationError."""
    arguments: dict[str, PluginArgs] = {}
    for index, config in enumerate(profile.pluginConfig):
        entry = PLUGINS.get(config.name)
        if entry is None or entry.arguments is None:
            continue
        where = field_errors.join(path, f"pluginConfig[{index}].args")
        for field, expected in (("apiVersion", API_VERSION), ("kind", f"{config.name}Args")):
            if config.args.get(field) not in {None, "", expected}:
                fault = field_errors.not_supported(f"{where}.{field}", str(config.args[field]), (expected,))
                raise ConfigurationError([fault])
        arguments[config.name] = convert(config.args, entry.arguments, where)
    return arguments


def _faults(configuration: KubeSchedulerConfiguration) -> Iterator[FieldError]:
    if configuration.parallelism <= 0:
        problem = "should be an integer value greater than zero"
        yield field_errors.invalid("parallelism", configuration.parallelism, problem)
    yield from _percentage_faults("percentageOfNodesToScore", configuration.percentageOfNodesToScore)
    initial, longest = configuration.podInitialBackoffSeconds, configuration.podMaxBackoffSeconds
    if initial <= 0:
        yield field_errors.invalid("podInitialBackoffSeconds", initial, "must be greater than 0")
    if longest < initial:
        problem = "must be greater than or equal to podInitialBackoffSeconds"
        yield field_errors.invalid("podMaxBackoffSeconds", longest, problem)
    if configuration.clientConnection.burst < 0:
        yield field_errors.invalid(
            "clientConnection.burst", configuration.clientConnection.burst, "must not be negative"
        )
    yield from _leader_election_faults(configuration)
    names: set[str] = set()
    for index, profile in enumerate(configuration.profiles):
        path = f"profiles[{index}]"
        if not profile.schedulerName:
            yield field_errors.required(f"{path}.schedulerName")
        if profile.schedulerName in names:
            yield field_errors.duplicate(f"{path}.schedulerName", profile.schedulerName)
        names.add(profile.schedulerName)
        if profile.plugins.queueSort != configuration.profiles[0].plugins.queueSort:
            yield FieldError(f"{path}.plugins.queueSort", "must be the same for all profiles")
        yield from _profile_faults(profile, path)
    yield from _extender_faults(configuration.extenders)


def _profile_faults(profile: KubeSchedulerProfile, path: str) -> Iterator[FieldError]:
    if profile.percentageOfNodesToScore is not None:
        yield from _percentage_faults(f"{path}.percentageOfNodesToScore", profile.percentageOfNodesToScore)
    arguments = plugin_arguments(profile, path)
    seen: set[str] = set()
    for index, config in enumerate(profile.pluginConfig):
        where = f"{path}.pluginConfig[{index}]"
        if config.name in seen:
            yield field_errors.duplicate(where, config.name)
        elif config.name in arguments:
            yield from (fault.below(f"{where}.args") for fault in arguments[config.name].faults())
        seen.add(config.name)


def _percentage_faults(path: str, percentage: int) -> Iterator[FieldError]:
    if not 0 <= percentage <= 100:
        yield field_errors.invalid(path, percentage, "not in valid range [0-100]")


def _leader_election_faults(configuration: KubeSchedulerConfiguration) -> Iterator[FieldError]:
    election = configuration.leaderElection
    seconds: dict[str, float] = {}
    for name in ("leaseDuration", "renewDeadline", "retryPeriod"):
        text = getattr(election, name)
        try:
            seconds[name] = durations.parse(text)
        except ValueError as error:
            yield field_errors.invalid(f"leaderElection.{name}", text, str(error))
            continue
        if election.leaderElect and seconds[name] <= 0:
            yield field_errors.invalid(f"leaderElection.{name}", text, "must be greater than zero")
    if not election.leaderElect or len(seconds) < 3:
        return
    if seconds["leaseDuration"] <= seconds["renewDeadline"]:
        problem = "must be greater than renewDeadline"
        yield field_errors.invalid("leaderElection.leaseDuration", election.leaseDuration, problem)
    if election.resourceLock != "leases":
        problem = 'resourceLock value must be "leases"'
        yield field_errors.invalid("leaderElection.resourceLock", election.resourceLock, problem)


def _extender_faults(extenders: list[Extender]) -> Iterator[FieldError]:
    binders = 0
    managed: set[str] = set()
    for index, extender in enumerate(extenders):
        path = f"extenders[{index}]"
        binders += bool(extender.bindVerb)
        if extender.prioritizeVerb and extender.weight <= 0:
            yield field_errors.invalid(f"{path}.weight", extender.weight, "must have a positive weight applied to it")
        try:
            durations.parse(extender.httpTimeout)
        except ValueError as error:
            yield field_errors.invalid(f"{path}.httpTimeout", extender.httpTimeout, str(error))
        for position, resource in enumerate(extender.managedResources):
            where = f"{path}.managedResources[{position}].name"
            if not requests.is_extended(resource.name):
                yield field_errors.invalid(where, resource.name, "is an invalid extended resource name")
            elif resource.name in managed:
                yield field_errors.invalid(where, resource.name, "duplicate extender managed resource name")
            managed.add(resource.name)
    if binders > 1:
        found = f"found {binders} extenders implementing bind"
        yield field_errors.invalid("extenders", found, "only one extender can implement bind")
