"""Settings: single changes of a scheduler's configuration, such as `NodeResourcesFit.weight=5`.

`--set` of compare, simulate, sweep and replay. They are read as a configuration file would be, so the errors are the
same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import yaml

from bayplan.answers.backtest.errors import BacktestError
from bayplan.answers.simulation.usual import USUAL_GATES, usual_configuration
from bayplan.core.api.suggestions import did_you_mean
from bayplan.core.config import Catalog, ConfigurationError, ExtraPlugin, KubeSchedulerConfiguration
from bayplan.core.config.documents import Document
from bayplan.core.config.loading import read_document_of
from bayplan.core.config.types import KubeSchedulerProfile
from bayplan.core.framework.profile import Point
from bayplan.core.versions import FeatureGates

_SYNTAX = (
    "expected [PROFILE/]PLUGIN.ARGUMENT=VALUE, PLUGIN.weight=N, PLUGIN.enabled=false, PLUGIN.POINT.enabled=false or "
    "FIELD=VALUE, as in NodeResourcesFit.scoringStrategy.type=MostAllocated"
)
_FIELDS = frozenset(each.encode_name for each in msgspec.structs.fields(KubeSchedulerConfiguration))
"""Those of a configuration, which no plugin hides that has the name of one."""
_POINTS = frozenset(point.value for point in Point)


def with_settings(
    configuration: KubeSchedulerConfiguration | None,
    plugins: Sequence[ExtraPlugin],
    settings: Sequence[str],
    gates: FeatureGates = USUAL_GATES,
) -> KubeSchedulerConfiguration | None:
    """Return a configuration with some settings; None is the usual one. Raises BacktestError."""
    if not settings:
        return configuration
    document = msgspec.to_builtins(configuration or usual_configuration(plugins, gates))
    for setting in settings:
        _set(document, setting, set(Catalog(plugins).names))
    for profile in document["profiles"]:  # an empty point may be one that this version doesn't have
        profile["plugins"] = {point: each for point, each in profile["plugins"].items() if any(each.values())}
    try:
        return read_document_of(Document(document), Catalog(plugins, gates)).configuration
    except ConfigurationError as error:
        raise BacktestError(f"--set {' '.join(settings)}: {error.faults[0]}") from None


def settings_document(settings: Sequence[str], profile: str) -> dict[str, Any]:
    """Return a KubeSchedulerConfiguration with nothing but some settings of a profile. Raises BacktestError."""
    only = KubeSchedulerConfiguration(profiles=[KubeSchedulerProfile(schedulerName=profile)])
    document = msgspec.to_builtins(only)
    kept = {name: document[name] for name in ("apiVersion", "kind", "profiles")}
    for setting in settings:
        _set(kept, setting, set(Catalog().names))
    for each in kept["profiles"]:
        sets = {
            point: {name: found for name, found in plugins.items() if found}
            for point, plugins in each["plugins"].items()
        }
        each["plugins"] = {point: plugins for point, plugins in sets.items() if plugins}
    kept["profiles"] = [{name: each for name, each in found.items() if each} for found in kept["profiles"]]
    return kept


def _set(document: dict[str, Any], setting: str, known: set[str]) -> None:
    path, equals, text = setting.partition("=")
    profile, slash, rest = path.rpartition("/")
    keys = rest.split(".")
    if not equals or not all(keys):
        raise BacktestError(f"--set {setting}: {_SYNTAX}")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        raise BacktestError(f"--set {setting}: {text!r} is not a value in YAML") from None
    if keys[0] in _FIELDS:
        _put(document, keys, value, setting)
        return
    if keys[0][:1].islower() and keys[0] not in known:  # a plugin from a function may have such a name
        hint = did_you_mean(keys[0], _FIELDS | known)
        raise BacktestError(f"--set {setting}: there is no field and no plugin {keys[0]}{hint}")
    profiles = [each for each in document["profiles"] if not slash or each["schedulerName"] == profile]
    if not profiles:
        names = ", ".join(each["schedulerName"] for each in document["profiles"])
        raise BacktestError(f"--set {setting}: there is no profile {profile!r}; there is {names}")
    if len(keys) == 1:
        raise BacktestError(f"--set {setting}: {_SYNTAX}")
    plugin, *argument = keys
    if plugin not in known:
        raise BacktestError(f"--set {setting}: there is no plugin {plugin}{did_you_mean(plugin, known)}")
    for each in profiles:
        if argument == ["weight"]:
            _enable(each, {"name": plugin, "weight": value})
        elif argument == ["enabled"]:
            if value:
                _enable(each, {"name": plugin})
            else:
                each["plugins"]["multiPoint"]["disabled"].append({"name": plugin})
        elif len(argument) == 2 and argument[0] in _POINTS and argument[1] == "enabled":
            _enable_at(each["plugins"][argument[0]], plugin, enabled=bool(value))
        else:
            _put(_arguments(each, plugin), argument, value, setting)


def _enable(profile: dict[str, Any], reference: dict[str, Any]) -> None:
    enabled = profile["plugins"]["multiPoint"]["enabled"]
    enabled[:] = [each for each in enabled if each["name"] != reference["name"]] + [reference]


def _enable_at(plugins: dict[str, Any], name: str, *, enabled: bool) -> None:
    """Enable or disable a plugin at one point."""
    for key, wanted in (("enabled", enabled), ("disabled", not enabled)):
        others = [each for each in plugins[key] if each["name"] != name]
        plugins[key] = [*others, {"name": name}] if wanted else others


def _arguments(profile: dict[str, Any], plugin: str) -> dict[str, Any]:
    for each in profile["pluginConfig"]:
        if each["name"] == plugin:
            arguments: dict[str, Any] = each["args"]
            return arguments
    profile["pluginConfig"].append({"name": plugin, "args": {}})
    found: dict[str, Any] = profile["pluginConfig"][-1]["args"]
    return found


def _put(target: dict[str, Any], keys: Sequence[str], value: object, setting: str) -> None:
    for key in keys[:-1]:
        target = target.setdefault(key, {})
        if not isinstance(target, dict):
            raise BacktestError(f"--set {setting}: {key} is not a group of settings")
    target[keys[-1]] = value
