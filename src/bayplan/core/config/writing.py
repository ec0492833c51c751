"""Writes a configuration as YAML, like kube-scheduler's --write-config-to: with all defaults and merged plugins.

Mirrors encodeConfig (cmd/kube-scheduler/app/options/configfile.go) and the defaults of apis/config/v1/defaults.go.
"""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from typing import Any

import msgspec
import yaml

from bayplan.core.api import durations
from bayplan.core.config.catalog import Catalog
from bayplan.core.config.merging import effective_sets, effective_weight
from bayplan.core.config.plugin_arguments import own_arguments, plugin_arguments
from bayplan.core.config.types import (
    API_VERSION,
    DEFAULT_BURST,
    DEFAULT_QPS,
    POD_GROUP_POST_FILTER,
    Extender,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    Plugins,
    PluginSet,
)
from bayplan.core.framework.arguments import PluginArgs
from bayplan.core.plugins.registry import PLUGINS


def to_yaml(configuration: KubeSchedulerConfiguration, catalog: Catalog) -> str:
    """A valid configuration as YAML, with all defaults. It is equivalent when it is read again."""
    return yaml.dump(_document(configuration, catalog), Dumper=_Dumper, sort_keys=True, allow_unicode=True, width=120)


class _Dumper(yaml.SafeDumper):
    """Writes YAML like Go's library."""


def _string(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if text else '"')


_Dumper.add_representer(str, _string)
_Dumper.ignore_aliases = lambda *_: True  # type: ignore[method-assign]


def _document(configuration: KubeSchedulerConfiguration, catalog: Catalog) -> dict[str, Any]:
    document = msgspec.to_builtins(configuration)
    connection = document["clientConnection"]
    connection["qps"] = _number(DEFAULT_QPS if connection["qps"] is None else connection["qps"])
    connection["burst"] = DEFAULT_BURST if connection["burst"] is None else connection["burst"]
    election = document["leaderElection"]
    for name in ("leaseDuration", "renewDeadline", "retryPeriod"):
        election[name] = _duration(election[name])
    document["profiles"] = [_profile(profile, catalog) for profile in configuration.profiles]
    document["extenders"] = [_extender(extender) for extender in configuration.extenders]
    for name in ("extenders", "delayCacheUntilActive"):  # upstream omits these if they are empty
        if not document[name]:
            del document[name]
    return dict(document)


def _profile(profile: KubeSchedulerProfile, catalog: Catalog) -> dict[str, Any]:
    sets = effective_sets(profile.plugins, catalog)
    document: dict[str, Any] = {
        "schedulerName": profile.schedulerName,
        "plugins": {
            place: {
                side: [
                    {"name": each.name, "weight": effective_weight(each, place, catalog) if side == "enabled" else 0}
                    for each in getattr(getattr(sets, place), side)
                ]
                for side in ("enabled", "disabled")
                if getattr(getattr(sets, place), side)
            }
            for place in Plugins.__struct_fields__
            if place != POD_GROUP_POST_FILTER or getattr(sets, place) != PluginSet()  # 1.36 doesn't have it
        },
        "pluginConfig": _plugin_config(profile, sets, catalog),
    }
    if profile.percentageOfNodesToScore is not None:
        document["percentageOfNodesToScore"] = profile.percentageOfNodesToScore
    return document


def _plugin_config(profile: KubeSchedulerProfile, sets: Plugins, catalog: Catalog) -> list[dict[str, Any]]:
    """The profile's arguments with their defaults, then the default arguments of the other enabled plugins, by name."""
    typed, _ = plugin_arguments(profile, catalog)
    configs = [{"name": each.name, "args": _args(each.name, typed, each.args)} for each in profile.pluginConfig]
    given = {each.name for each in profile.pluginConfig}
    for name in sorted(set(sets.enabled_names()) - given):
        arguments = _default_arguments(name, catalog)
        if arguments is not None:
            configs.append({"name": name, "args": _args(name, {name: arguments}, {})})
    return configs


def _default_arguments(name: str, catalog: Catalog) -> Any:
    """The default arguments of a plugin; None if it takes none."""
    other = catalog.other(name)
    if other is not None:
        return own_arguments(other, given=False)
    entry = PLUGINS.get(name)
    return entry.arguments() if entry is not None and entry.arguments is not None else None


def _args(name: str, typed: dict[str, Any], raw: dict[str, Any]) -> dict[str, Any]:
    if name not in typed:
        return raw
    if not isinstance(typed[name], PluginArgs):
        return dict(_plain(typed[name]))
    args = _without_empty(msgspec.to_builtins(typed[name])) | {"apiVersion": API_VERSION, "kind": f"{name}Args"}
    for field in ("filterTimeout", "bindingTimeout"):
        if field in args:
            args[field] = _duration(args[field])
    return dict(args)


def _plain(value: Any) -> Any:
    """A value as plain types. msgspec omits the defaults of dataclasses."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return msgspec.to_builtins(value)


def _extender(extender: Extender) -> dict[str, Any]:
    document = msgspec.to_builtins(extender) | {"httpTimeout": _duration(extender.httpTimeout)}
    if extender.tlsConfig is not None:
        document["tlsConfig"] = {name: value for name, value in document["tlsConfig"].items() if value}
    return {name: value for name, value in document.items() if value or name in {"urlPrefix", "httpTimeout"}}


def _without_empty(value: Any) -> Any:
    """A value without nulls and empty lists."""
    if isinstance(value, dict):
        items = {name: _without_empty(item) for name, item in value.items()}
        return {name: item for name, item in items.items() if item is not None and item != []}
    return [_without_empty(item) for item in value] if isinstance(value, list) else value


def _number(value: float) -> float:
    return int(value) if float(value).is_integer() else value


def _duration(text: str) -> str:
    """A duration as Go prints it: `10m0s` for `600s`. Mirrors time.Duration.String."""
    nanoseconds = round(Decimal(str(durations.parse(text))) * 10**9)
    prefix, nanoseconds = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if not nanoseconds:
        return "0s"
    for unit, size in (("ns", 1), ("µs", 10**3), ("ms", 10**6)):
        if nanoseconds < size * 1000 and nanoseconds < 10**9:
            return f"{prefix}{_decimal(nanoseconds, size)}{unit}"
    minutes, rest = divmod(nanoseconds, 60 * 10**9)
    hours, minutes = divmod(minutes, 60)
    leading = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{prefix}{leading}{_decimal(rest, 10**9)}s"


def _decimal(value: int, size: int) -> str:
    text = format(Decimal(value) / size, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
