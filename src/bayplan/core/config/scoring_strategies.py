"""Converts the plugins that scored free resources in v1beta1 to the scoringStrategy of NodeResourcesFit.

In v1beta1, each strategy was a plugin, and NodeResourcesLeastAllocated was enabled by default.
"""

from __future__ import annotations

from typing import Any

from bayplan.core.config.converted import Converted
from bayplan.core.config.former_plugins import STRATEGIES
from bayplan.core.plugins.arguments import LEAST_ALLOCATED

FIT = "NodeResourcesFit"


def convert_strategies(profile: dict[str, Any], path: str, converted: Converted) -> None:
    """Give NodeResourcesFit the strategy, weight and arguments of the plugin that was enabled."""
    plugins = profile.get("plugins")
    score = plugins.get("score") if isinstance(plugins, dict) else None
    chosen = ""
    if isinstance(score, dict):
        chosen = _rename_enabled(score, f"{path}.plugins.score", converted)
        _rename_disabled(score, f"{path}.plugins.score", chosen, converted)
    _convert_arguments(profile, path, chosen, converted)


def _rename_enabled(score: dict[str, Any], path: str, converted: Converted) -> str:
    """The plugin that is enabled; "" if there is none."""
    chosen: list[str] = []

    def keep(reference: dict[str, Any], where: str) -> bool:
        name = reference.get("name")
        if name not in STRATEGIES:
            return True
        chosen.append(name)
        if len(chosen) > 1:
            converted.fault(f"{where}.name", f"{FIT} has a single strategy: enable {chosen[0]} or {name}, not both")
            return False
        reference["name"] = FIT
        converted.note(f"{where}.name", f"plugin {name!r} is now {FIT} with scoringStrategy.type {STRATEGIES[name]}")
        return True

    converted.filter(score, "enabled", f"{path}.enabled", keep)
    return chosen[0] if chosen else ""


def _rename_disabled(score: dict[str, Any], path: str, chosen: str, converted: Converted) -> None:
    disabled: list[str] = []

    def keep(reference: dict[str, Any], where: str) -> bool:
        name = reference.get("name")
        if name not in STRATEGIES:
            disabled.append(str(name))
            return True
        disabled.append(name)
        if chosen or STRATEGIES[name] != LEAST_ALLOCATED:
            converted.note(f"{where}.name", f"plugin {name!r} was removed and needn't be disabled")
            return False
        reference["name"] = FIT
        converted.note(f"{where}.name", f"plugin {name!r} is now the score of {FIT}, which is disabled instead")
        return True

    converted.filter(score, "disabled", f"{path}.disabled", keep)
    both = chosen and STRATEGIES[chosen] != LEAST_ALLOCATED
    if both and not {"*", "NodeResourcesLeastAllocated"} & set(disabled):
        converted.note(path, f"NodeResourcesLeastAllocated no longer scores together with {chosen}")


def _convert_arguments(profile: dict[str, Any], path: str, chosen: str, converted: Converted) -> None:
    """Move the plugin's arguments to the strategy of NodeResourcesFit."""
    strategy: dict[str, Any] = {"type": STRATEGIES[chosen]} if chosen else {}
    came_from: dict[str, str] = {}

    def keep(config: dict[str, Any], where: str) -> bool:
        name, args = config.get("name"), config.get("args")
        if name not in STRATEGIES:
            return True
        if name != (chosen or "NodeResourcesLeastAllocated"):
            converted.note(where, f"has no effect: plugin {name!r} is not enabled")
        elif isinstance(args, dict):
            converted.note(where, f"moved to scoringStrategy in the arguments of {FIT}")
            strategy["type"] = STRATEGIES[name]
            for field, value in args.items():
                if field == "shape" and name == "RequestedToCapacityRatio":
                    strategy["requestedToCapacityRatio"] = {"shape": value}
                    came_from["requestedToCapacityRatio.shape"] = f"{where}.args.shape"
                elif field not in {"apiVersion", "kind"}:
                    strategy[field] = value
                    came_from[field] = f"{where}.args.{field}"
        return False

    converted.filter(profile, "pluginConfig", f"{path}.pluginConfig", keep)
    configs = profile.get("pluginConfig")
    if not strategy or not isinstance(configs, list | None):
        return
    configs = profile["pluginConfig"] = configs or []
    index = next((i for i, each in enumerate(configs) if isinstance(each, dict) and each.get("name") == FIT), -1)
    if index < 0:
        index = len(configs)
        configs.append({"name": FIT})
    if configs[index].get("args") is None:
        configs[index]["args"] = {}
    if isinstance(configs[index]["args"], dict):
        configs[index]["args"].setdefault("scoringStrategy", strategy)
        where = f"{path}.pluginConfig[{index}].args.scoringStrategy"
        converted.moved.update({f"{where}.{field}": place for field, place in came_from.items()})
