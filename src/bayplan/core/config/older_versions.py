"""Converts v1beta1, v1beta2 and v1beta3 of the configuration to v1, with warnings about what changed.

Mirrors kube-scheduler's conversions, from when it supported these versions (pkg/scheduler/apis/config/v1beta1 to
v1beta3). Removed plugins and fields are ignored if only scores depended on them. If they decided which nodes are
feasible, they are errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bayplan.core.config import former_plugins
from bayplan.core.config.converted import Converted
from bayplan.core.config.scoring_strategies import convert_strategies
from bayplan.core.config.types import API_VERSION

V1BETA1, V1BETA2, V1BETA3 = (f"kubescheduler.config.k8s.io/v1beta{number}" for number in (1, 2, 3))
OLDER_VERSIONS = (V1BETA1, V1BETA2, V1BETA3)

FORMER_WEIGHTS = {"TaintToleration": 1, "NodeAffinity": 1, "InterPodAffinity": 1}
"""The default weights of v1beta1 and v1beta2 that differ in v1."""

REMOVED_FIELDS = {
    "healthzBindAddress": "use --bind-address and --secure-port",
    "metricsBindAddress": "use --bind-address and --secure-port",
    "featureGates": "use --feature-gates",
}
FORMER_LOCKS = ("endpoints", "configmaps", "endpointsleases", "configmapsleases")


def to_v1(data: Mapping[str, Any]) -> Converted:
    """Convert a document of one of OLDER_VERSIONS to v1. Values of a wrong type are reported later, by decoding."""
    version = data["apiVersion"]
    converted = Converted(_copy(data))
    document = converted.data
    document["apiVersion"] = API_VERSION
    for name, instead in REMOVED_FIELDS.items():
        if document.pop(name, None) is not None:
            converted.note(name, f"was removed: {instead}")
    _convert_election(document, converted)
    _convert_extenders(document, converted)
    if version != V1BETA3 and document.get("profiles") is None:
        document["profiles"] = [{}]
    for path, profile in _mappings(document.get("profiles"), "profiles"):
        _convert_profile(profile, path, version, converted)
    if document.pop("disablePreemption", None):
        converted.note("disablePreemption", "was removed: DefaultPreemption is disabled in postFilter instead")
        for _, profile in _mappings(document.get("profiles"), "profiles"):
            _add(profile, "postFilter", "disabled", {"name": "DefaultPreemption"})
    kept = ""
    if version != V1BETA3:
        kept = (
            "; the default weights of that version, 1 for TaintToleration, NodeAffinity and InterPodAffinity, are kept"
        )
    converted.note(
        "apiVersion", f"{version} is converted to {API_VERSION}; --write-config-to FILE writes the result{kept}"
    )
    return converted


def _convert_election(document: dict[str, Any], converted: Converted) -> None:
    election = document.get("leaderElection")
    if isinstance(election, dict) and election.get("resourceLock") in FORMER_LOCKS:
        converted.note("leaderElection.resourceLock", f"{election['resourceLock']!r} was removed: a Lease is used")
        election["resourceLock"] = "leases"


def _convert_extenders(document: dict[str, Any], converted: Converted) -> None:
    for path, extender in _mappings(document.get("extenders"), "extenders"):
        timeout = extender.get("httpTimeout")
        if isinstance(timeout, int) and not isinstance(timeout, bool) and abs(timeout) < 2**63:
            extender["httpTimeout"] = f"{timeout}ns"
            converted.note(f"{path}.httpTimeout", f"a number is in nanoseconds: write {timeout / 1e9:g}s")


def _convert_profile(profile: dict[str, Any], path: str, version: str, converted: Converted) -> None:
    plugins = profile.get("plugins")
    if isinstance(plugins, dict):
        if plugins.pop("unreserve", None):
            converted.note(f"{path}.plugins.unreserve", "was removed: reserve plugins also implement unreserve")
        if version != V1BETA3 and plugins.pop("multiPoint", None):
            converted.fault(f"{path}.plugins.multiPoint", f"does not exist in {version}: use apiVersion: {API_VERSION}")
        convert_strategies(profile, path, converted)
        for place, plugin_set in plugins.items():
            if isinstance(plugin_set, dict):
                _convert_enabled(plugin_set, f"{path}.plugins.{place}.enabled", converted)
                _convert_disabled(plugin_set, f"{path}.plugins.{place}.disabled", converted)
    else:
        convert_strategies(profile, path, converted)
    _convert_arguments(profile, path, version, converted)
    if version != V1BETA3:
        for name, weight in FORMER_WEIGHTS.items():
            _add(profile, "multiPoint", "enabled", {"name": name, "weight": weight})


def _convert_enabled(plugin_set: dict[str, Any], path: str, converted: Converted) -> None:
    names = [each.get("name") for _, each in _mappings(plugin_set.get("enabled"), path)]

    def keep(reference: dict[str, Any], where: str) -> bool:
        name = reference.get("name")
        if name in former_plugins.SCORES:
            converted.note(
                f"{where}.name", f"plugin {name!r} was removed and is ignored: {former_plugins.SCORES[name]}"
            )
        elif name in former_plugins.FILTERS:
            converted.fault(f"{where}.name", f"plugin {name!r} was removed: {former_plugins.FILTERS[name]}")
        elif name in former_plugins.LIMITS:
            converted.note(f"{where}.name", f"plugin {name!r} was removed: NodeVolumeLimits counts its volumes")
            reference["name"] = "NodeVolumeLimits"
            again = "NodeVolumeLimits" in names
            names.append("NodeVolumeLimits")
            return not again
        else:
            return True
        return False

    converted.filter(plugin_set, "enabled", path, keep)


def _convert_disabled(plugin_set: dict[str, Any], path: str, converted: Converted) -> None:
    def keep(reference: dict[str, Any], where: str) -> bool:
        name = reference.get("name")
        if name in former_plugins.LIMITS:
            problem = "was removed: NodeVolumeLimits counts its volumes and stays enabled"
        elif name in former_plugins.SCORES or name in former_plugins.FILTERS:
            problem = "was removed and needn't be disabled"
        else:
            return True
        converted.note(f"{where}.name", f"plugin {name!r} {problem}")
        return False

    converted.filter(plugin_set, "disabled", path, keep)


def _convert_arguments(profile: dict[str, Any], path: str, version: str, converted: Converted) -> None:
    def keep(config: dict[str, Any], where: str) -> bool:
        name, args = config.get("name"), config.get("args")
        if name in former_plugins.SCORES or name in former_plugins.FILTERS or name in former_plugins.LIMITS:
            converted.note(where, f"plugin {name!r} was removed, and its arguments are ignored")
            return False
        if isinstance(args, dict):
            if args.get("apiVersion") == version:
                args["apiVersion"] = API_VERSION
            lists = name == "PodTopologySpread" and version == V1BETA1 and args.get("defaultConstraints")
            if lists and not args.get("defaultingType"):
                args["defaultingType"] = "List"
                converted.note(f"{where}.args", "defaultConstraints need defaultingType: List, which is added")
        return True

    converted.filter(profile, "pluginConfig", f"{path}.pluginConfig", keep)


def _add(profile: dict[str, Any], place: str, side: str, reference: dict[str, Any]) -> None:
    """Add a plugin to a set, unless the set has a wrong type."""
    at: Any = profile
    for name, empty in (("plugins", dict), (place, dict), (side, list)):
        if at.get(name) is None:
            at[name] = empty()
        at = at[name]
        if not isinstance(at, empty):
            return
    at.append(reference)


def _mappings(items: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The items of a list that are mappings, with their paths."""
    for index, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, dict):
            yield f"{path}[{index}]", item


def _copy(value: Any) -> Any:
    """A deep copy without shared objects, which aliases in YAML create."""
    if isinstance(value, Mapping):
        return {name: _copy(item) for name, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value
