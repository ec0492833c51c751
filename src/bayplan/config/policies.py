"""Rejects a Policy, the former configuration format, with the equivalent configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from bayplan.api.field_errors import FieldError
from bayplan.config.types import API_VERSION, KIND

POLICY = "Policy"

SCORES = {
    "BalancedResourceAllocation": "NodeResourcesBalancedAllocation",
    "EvenPodsSpreadPriority": "PodTopologySpread",
    "ImageLocalityPriority": "ImageLocality",
    "InterPodAffinityPriority": "InterPodAffinity",
    "LeastRequestedPriority": "NodeResourcesFit",
    "MostRequestedPriority": "NodeResourcesFit",
    "NodeAffinityPriority": "NodeAffinity",
    "RequestedToCapacityRatioPriority": "NodeResourcesFit",
    "SelectorSpreadPriority": "PodTopologySpread",
    "ServiceSpreadingPriority": "PodTopologySpread",
    "TaintTolerationPriority": "TaintToleration",
}
"""Priority functions, and the plugins that replaced them."""


def policy_error(policy: Mapping[str, Any]) -> FieldError:
    """The error for a Policy: that it was removed, and what to write instead."""
    instead: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND}
    weights = _weights(policy.get("priorities"))
    profile: dict[str, Any] = {}
    if weights:
        enabled = [{"name": name, "weight": weight} for name, weight in weights.items()]
        profile["plugins"] = {"score": {"disabled": [{"name": "*"}], "enabled": enabled}}
    if any(each.get("name") == "MostRequestedPriority" for each in _mappings(policy.get("priorities"))):
        strategy = {"type": "MostAllocated", "resources": [{"name": "cpu"}, {"name": "memory"}]}
        profile["pluginConfig"] = [{"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}]
    if profile:
        instead["profiles"] = [profile]
    extenders = [_extender(each) for each in _mappings(policy.get("extenders") or policy.get("extenderConfigs"))]
    if extenders:
        instead["extenders"] = extenders
    written = yaml.safe_dump(instead, sort_keys=False).rstrip()
    indented = "\n".join(f"    {line}" for line in written.splitlines())
    return FieldError(
        "kind", f"a {POLICY} is no longer supported; its predicates are enabled by default. Write instead:\n{indented}"
    )


def _weights(priorities: Any) -> dict[str, int]:
    weights: dict[str, int] = {}
    for each in _mappings(priorities):
        name, weight = SCORES.get(str(each.get("name"))), each.get("weight")
        if name is not None:
            weights[name] = weights.get(name, 0) + (weight if isinstance(weight, int) else 1)
    return weights


def _extender(extender: Mapping[str, Any]) -> dict[str, Any]:
    renamed = {"enableHttps": "enableHTTPS"}
    converted = {renamed.get(name, name): value for name, value in extender.items() if name != "apiVersion"}
    timeout = converted.get("httpTimeout")
    if isinstance(timeout, int) and abs(timeout) < 2**63:
        converted["httpTimeout"] = f"{timeout / 1e9:g}s"
    return converted


def _mappings(items: Any) -> list[Mapping[str, Any]]:
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []
