"""Decodes `pluginConfig` into the argument types of the plugins."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from bayplan.core.api import field_errors
from bayplan.core.api.field_errors import FieldError
from bayplan.core.config.catalog import Catalog, ExtraPlugin
from bayplan.core.config.decoding import decode, fields_of
from bayplan.core.config.errors import PluginLoadError, unrelated
from bayplan.core.config.former_plugins import LIMITS
from bayplan.core.config.origins import is_koordinators
from bayplan.core.config.types import API_VERSION, KubeSchedulerProfile
from bayplan.core.framework.arguments import PluginArgs
from bayplan.core.plugins.registry import PLUGINS
from bayplan.core.versions import DEFAULT_GATES, FeatureGates


def plugin_arguments(
    profile: KubeSchedulerProfile, catalog: Catalog, path: str = ""
) -> tuple[dict[str, Any], list[FieldError]]:
    """The decoded arguments of the plugins in pluginConfig, by name, and all errors in them.

    Mirrors validatePluginConfig (apis/config/validation/validation.go).
    """
    arguments: dict[str, Any] = {}
    faults: list[FieldError] = []
    seen: set[str] = set()
    for index, config in enumerate(profile.pluginConfig):
        where = field_errors.join(path, f"pluginConfig[{index}]")
        if config.name in seen:
            faults.append(field_errors.duplicate(where, config.name))
            continue
        seen.add(config.name)
        other = catalog.other(config.name)
        if config.name not in catalog.extras and is_koordinators(config.name, profile):
            continue
        if other is not None:
            typed, found = _extra(other, config.args, f"{where}.args", catalog.gates)
        else:
            if config.name in LIMITS:
                problem = f"plugin {config.name!r} was removed, and took no arguments: {LIMITS[config.name]}"
                faults.append(FieldError(where, problem))
            entry = PLUGINS.get(config.name)
            if entry is None or entry.arguments is None:
                continue
            typed, found = _checked(config.name, entry.arguments, config.args, f"{where}.args", catalog.gates)
        faults += found
        if typed is not None:
            arguments[config.name] = typed
    return arguments, faults


def _checked(
    name: str, cls: type[PluginArgs], args: Mapping[str, Any], where: str, gates: FeatureGates
) -> tuple[PluginArgs | None, list[FieldError]]:
    wrong = (
        [
            field_errors.not_supported(f"{where}.{field}", args[field], (expected,))
            for field, expected in (("apiVersion", API_VERSION), ("kind", f"{name}Args"))
            if args.get(field) not in {None, "", expected}
        ]
        if all(isinstance(args.get(field, ""), str | None) for field in ("apiVersion", "kind"))
        else []
    )
    if wrong:  # then the fields also belong to another type
        return None, wrong
    typed, faults = decode(args, cls, where)
    if typed is not None:
        faults += unrelated(faults, [fault.below(where) for fault in (*typed.faults(), *typed.gated_faults(gates))])
    return typed, faults


def _extra(
    extra: ExtraPlugin, args: Mapping[str, Any], where: str, gates: FeatureGates
) -> tuple[Any, list[FieldError]]:
    if not isinstance(extra, type) or extra.arguments is None:
        if not args:
            return None, []
        how = (
            ": set `arguments` of its class to their type" if isinstance(extra, type) else ", because it is a function"
        )
        return None, [FieldError(where, f"plugin {extra.name!r} takes no arguments{how}")]
    try:
        return decode_extra(extra.name, extra.arguments, args, where, gates)
    except PluginLoadError as error:
        return None, [FieldError(where, str(error))]


def own_arguments(extra: ExtraPlugin, *, given: bool) -> Any:
    """The default arguments of a plugin of the user's; None if it takes none, or if they are `given`.

    Raises PluginLoadError if required arguments are missing, or if the constructor requires other parameters than
    `handle`, `scheduler_name` and `args`.
    """
    if not isinstance(extra, type):
        return None
    offered = {"handle", "scheduler_name"} | ({"args"} if extra.arguments is not None else set())
    try:
        parameters = inspect.signature(extra).parameters
    except BaseException as error:
        raise PluginLoadError.of(f"plugin {extra.name!r}: __init__ can't be looked at", error) from error
    for parameter in parameters.values():
        optional = parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}
        if parameter.default is parameter.empty and not optional and parameter.name not in offered:
            raise PluginLoadError(
                f"plugin {extra.name!r}: __init__ requires an argument {parameter.name!r}, but only `args` (if "
                "the class sets `arguments`), `handle` and `scheduler_name` are passed"
            )
    if extra.arguments is None or given:
        return None
    arguments, faults = decode_extra(extra.name, extra.arguments, {})
    if faults:
        lacking = "; ".join(map(str, faults))
        raise PluginLoadError(f"plugin {extra.name!r} needs arguments in pluginConfig: {lacking}")
    return arguments


def decode_extra(
    name: str, cls: type[Any], args: Mapping[str, Any], where: str = "", gates: FeatureGates = DEFAULT_GATES
) -> tuple[Any, list[FieldError]]:
    """The decoded arguments of a plugin that isn't in-tree. They may have `apiVersion` and `kind`, as in Go.

    Raises PluginLoadError if the argument type raises an exception.
    """
    try:
        if issubclass(cls, PluginArgs):
            return _checked(name, cls, args, where, gates)
        own = fields_of(cls) or {}
        args = {field: value for field, value in args.items() if field in own or field not in {"apiVersion", "kind"}}
        return decode(args, cls, where)
    except BaseException as error:
        raise PluginLoadError.of(f"plugin {name!r} failed to decode its arguments", error) from error
