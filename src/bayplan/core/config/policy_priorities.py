"""Converts the priorities of a Policy to plugins that score, with their weights and arguments.

Mirrors the producers of pkg/scheduler/framework/plugins/legacy_registry.go (kube-scheduler 1.22).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bayplan.core.plugins.arguments import LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO

FIT = "NodeResourcesFit"
SPREAD = "PodTopologySpread"

PLUGINS = {
    "BalancedResourceAllocation": "NodeResourcesBalancedAllocation",
    "ImageLocalityPriority": "ImageLocality",
    "InterPodAffinityPriority": "InterPodAffinity",
    "NodeAffinityPriority": "NodeAffinity",
    "TaintTolerationPriority": "TaintToleration",
}
"""Priorities with a plugin of their own that takes no arguments from them."""

SPREADING = ("EvenPodsSpreadPriority", "SelectorSpreadPriority", "ServiceSpreadingPriority")
"""Priorities that PodTopologySpread replaced. Of several, the first one has the weight."""

LEAST, MOST = "LeastRequestedPriority", "MostRequestedPriority"

DEFAULT_PRIORITIES = {
    "SelectorSpreadPriority": 1,
    "InterPodAffinityPriority": 1,
    LEAST: 1,
    "BalancedResourceAllocation": 1,
    "NodeAffinityPriority": 1,
    "TaintTolerationPriority": 1,
    "ImageLocalityPriority": 1,
    "EvenPodsSpreadPriority": 2,
}
"""The priorities of a Policy that lists none, except NodePreferAvoidPodsPriority, which read an annotation."""

REMOVED = {
    "NodePreferAvoidPodsPriority": "taint the nodes with PreferNoSchedule",
    "ResourceLimitsPriority": "it scored limits instead of requests",
}

_FORMER_SHAPE = [{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]
"""The shape of RequestedToCapacityRatioPriority without arguments."""


@dataclass(slots=True)
class ConvertedPriorities:
    """The plugins that score, with their weights, and the arguments of plugins."""

    weights: dict[str, int] = field(default_factory=dict)
    arguments: dict[str, dict[str, Any]] = field(default_factory=dict)


def convert_priorities(priorities: Any, notes: list[str]) -> ConvertedPriorities:
    """The plugins for the priorities of a Policy. Notes those that have no equivalent."""
    weights, ratio = _read(priorities, notes)
    scores = ConvertedPriorities()
    for name, weight in weights.items():
        if name in PLUGINS:
            scores.weights[PLUGINS[name]] = weight
        elif name in SPREADING:
            scores.weights.setdefault(SPREAD, next(weights[each] for each in SPREADING if each in weights))
        elif name in {LEAST, MOST, REQUESTED_TO_CAPACITY_RATIO}:
            scores.weights.setdefault(FIT, 0)  # its place in the order
    if SPREADING[0] in weights and not any(name in weights for name in SPREADING[1:]):
        scores.arguments[SPREAD] = {"defaultingType": "List"}  # then pods without constraints aren't spread
    _convert_resources(weights, ratio, scores, notes)
    return scores


def _read(priorities: Any, notes: list[str]) -> tuple[dict[str, int], Mapping[str, Any]]:
    """The weights by the names of priorities, and the arguments of RequestedToCapacityRatio."""
    if not isinstance(priorities, list):
        notes.append("the Policy lists no priorities: these are the default ones of its time")
        return dict(DEFAULT_PRIORITIES), {}
    weights: dict[str, int] = {}
    ratio: Mapping[str, Any] = {}
    for entry in priorities:
        if not isinstance(entry, Mapping):
            continue
        name = str(entry.get("name", ""))
        argument = entry.get("argument")
        argument = argument if isinstance(argument, Mapping) else {}
        weight = entry.get("weight")
        if type(weight) is not int or weight <= 0:
            notes.append(f"priority {name}: expected an integer above 0 as its weight, not {weight!r:.40}; 1 is taken")
            weight = 1
        given = argument.get("requestedToCapacityRatioArguments")
        if isinstance(given, Mapping) or name in {
            REQUESTED_TO_CAPACITY_RATIO,
            f"{REQUESTED_TO_CAPACITY_RATIO}Priority",
        }:
            if REQUESTED_TO_CAPACITY_RATIO in weights:
                notes.append(f"priority {name}: replaces the earlier {REQUESTED_TO_CAPACITY_RATIO}, as it did")
            weights[REQUESTED_TO_CAPACITY_RATIO] = weight
            ratio = given if isinstance(given, Mapping) else {}
        elif name in PLUGINS or name in SPREADING or name in {LEAST, MOST}:
            weights[name] = weight
        else:
            _note_unconverted(name, argument, notes)
    return weights, ratio


def _note_unconverted(name: str, argument: Mapping[str, Any], notes: list[str]) -> None:
    preferred, spread = argument.get("labelPreference"), argument.get("serviceAntiAffinity")
    if isinstance(preferred, Mapping):
        operator = "Exists" if preferred.get("presence") else "DoesNotExist"
        notes.append(
            f"priority {name}: no equivalent of its own: NodeAffinity's addedAffinity can prefer nodes on which "
            f"label {preferred.get('label')} {operator}"
        )
    elif isinstance(spread, Mapping):
        notes.append(
            f"priority {name}: no equivalent: PodTopologySpread's defaultConstraints can spread pods over "
            f"{spread.get('label')}"
        )
    elif name == "EqualPriority":
        notes.append(f"priority {name}: not needed: it scored all nodes alike")
    else:
        notes.append(f"priority {name}: no equivalent{f': {REMOVED[name]}' if name in REMOVED else ''}")


def _convert_resources(
    weights: Mapping[str, int], ratio: Mapping[str, Any], scores: ConvertedPriorities, notes: list[str]
) -> None:
    """Convert the priorities that scored free resources. NodeResourcesFit has one strategy in their place.

    The scores of LeastRequestedPriority and MostRequestedPriority add up to the same on every node. So together, they
    rank nodes as one of them does with the difference of their weights.
    """
    least, most = weights.get(LEAST, 0), weights.get(MOST, 0)
    strategies = {
        LEAST_ALLOCATED: max(least - most, 0),
        MOST_ALLOCATED: max(most - least, 0),
        REQUESTED_TO_CAPACITY_RATIO: weights.get(REQUESTED_TO_CAPACITY_RATIO, 0),
    }
    kept = max(strategies, key=lambda name: strategies[name])
    if least and most:
        rest = next(
            (f"{name} ({strategies[name]})" for name in (LEAST_ALLOCATED, MOST_ALLOCATED) if strategies[name]), ""
        )
        notes.append(f"priorities {LEAST} ({least}) and {MOST} ({most}) oppose each other: {rest or 'nothing'} remains")
    lost = [f"{name} ({weight})" for name, weight in strategies.items() if weight and name != kept]
    if lost:
        notes.append(f"{', '.join(lost)}: no equivalent: {FIT} has one strategy, which is {kept} here")
    if not strategies[kept]:
        scores.weights.pop(FIT, None)
        return
    scores.weights[FIT] = strategies[kept]
    if kept == MOST_ALLOCATED:
        scores.arguments[FIT] = {"scoringStrategy": _strategy(kept, None)}
    elif kept == REQUESTED_TO_CAPACITY_RATIO:
        shape = ratio.get("shape") or _FORMER_SHAPE
        strategy = {**_strategy(kept, ratio.get("resources")), "requestedToCapacityRatio": {"shape": shape}}
        scores.arguments[FIT] = {"scoringStrategy": strategy}


def _strategy(kind: str, resources: Any) -> dict[str, Any]:
    return {"type": kind, "resources": resources or [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]}
