"""Redacts configurations: labels and taints are replaced as in objects, and addresses and files are left out."""

from __future__ import annotations

from typing import Any

import yaml

from bayplan.answers.snapshots.redaction.names import Names, Rule
from bayplan.answers.snapshots.redaction.pods import NODE_AFFINITY
from bayplan.answers.snapshots.redaction.rules import constant, each, fields, key, verbatim, verbatims
from bayplan.core.api import durations
from bayplan.core.config.types import API_VERSION, KIND, Plugins


def redacted_configuration(text: str, names: Names) -> tuple[str, list[str]]:
    """A KubeSchedulerConfiguration in YAML, redacted, and the plugins whose arguments were left out.

    The names of plugins, schedulers and resources are kept.
    """
    document = yaml.safe_load(text) if text else None
    if not isinstance(document, dict):
        return "", []
    profiles = document.get("profiles") or []
    given = {config["name"] for profile in profiles for config in profile.get("pluginConfig") or () if config["args"]}
    redacted = {"apiVersion": API_VERSION, "kind": KIND, **_CONFIGURATION(document, names)}
    return yaml.safe_dump(redacted), sorted(given - _ARGUMENTS.keys())


def _duration(value: Any, _: Names) -> Any:
    try:
        durations.parse(value)
    except (ValueError, TypeError):
        return None
    return value


def _plugin_config(value: Any, names: Names) -> Any:
    rule = _ARGUMENTS.get(value.get("name"))
    if rule is None:
        return None
    header = {"apiVersion": API_VERSION, "kind": f"{value['name']}Args"}
    return {"name": value["name"], "args": header | rule(value.get("args") or {}, names)}


_RESOURCES = each(fields("weight", name=verbatim))
_SHAPE = each(fields("utilization score"))
_ARGUMENTS: dict[str, Rule] = {
    "NodeAffinity": fields(addedAffinity=NODE_AFFINITY),
    "NodeResourcesFit": fields(
        ignoredResources=verbatims,
        ignoredResourceGroups=verbatims,
        scoringStrategy=fields(type=verbatim, resources=_RESOURCES, requestedToCapacityRatio=fields(shape=_SHAPE)),
    ),
    "NodeResourcesBalancedAllocation": fields(resources=_RESOURCES),
    "VolumeBinding": fields("bindTimeoutSeconds", shape=_SHAPE),
    "PodTopologySpread": fields(
        defaultingType=verbatim,
        defaultConstraints=each(
            fields("maxSkew minDomains whenUnsatisfiable nodeAffinityPolicy nodeTaintsPolicy", topologyKey=key)
        ),
    ),
    "InterPodAffinity": fields("hardPodAffinityWeight ignorePreferredTermsOfExistingPods"),
    "DynamicResources": fields(filterTimeout=_duration, bindingTimeout=_duration),
    "DefaultPreemption": fields("minCandidateNodesPercentage minCandidateNodesAbsolute"),
    "Coscheduling": fields("permitWaitingTimeSeconds podGroupBackoffSeconds podGroupRejectPercentage"),
}
"""The rules for the arguments of the in-tree plugins."""
_SETS = each(fields("weight", name=verbatim))
_PLUGINS = fields(**dict.fromkeys(Plugins.__struct_fields__, fields(enabled=_SETS, disabled=_SETS)))
_EXTENDER = fields(
    "weight ignorable nodeCacheCapable",
    urlPrefix=constant("http://extender.invalid"),
    filterVerb=constant("filter"),
    preemptVerb=constant("preempt"),
    prioritizeVerb=constant("prioritize"),
    bindVerb=constant("bind"),
    httpTimeout=_duration,
    managedResources=each(fields("ignoredByScheduler", name=verbatim)),
)
_CONFIGURATION = fields(
    "parallelism percentageOfNodesToScore podInitialBackoffSeconds podMaxBackoffSeconds delayCacheUntilActive",
    profiles=each(
        fields("percentageOfNodesToScore", schedulerName=verbatim, plugins=_PLUGINS, pluginConfig=each(_plugin_config))
    ),
    extenders=each(_EXTENDER),
)
