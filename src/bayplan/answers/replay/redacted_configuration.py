"""Redacts configurations: labels and taints are replaced as in objects, and addresses and files are left out."""

from __future__ import annotations

from typing import Any

import yaml

from bayplan.answers.snapshots.redaction.names import Names, Rule
from bayplan.answers.snapshots.redaction.pods import NODE_AFFINITY
from bayplan.answers.snapshots.redaction.rules import (
    amounts,
    by_name,
    constant,
    each,
    fields,
    key,
    name,
    network_weights,
    resource_name,
    verbatim,
    verbatims,
    words,
)
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


def _measured_key(value: Any, names: Names) -> Any:
    """The key of a label or an annotation whose values are numbers or times: these are kept, too."""
    if not isinstance(value, str):
        return None
    names.measured.add(value)
    return names.key(value)


def _layout(value: Any, names: Names) -> Any:
    """An example of a time, which is kept if it is nothing else."""
    return value if isinstance(value, str) and names.is_measure(value.replace("MST", "")) else None


def _address(value: Any, names: Names) -> Any:
    return f"http://{names.new('address', value)}.invalid" if isinstance(value, str) and value else None


_RESOURCES = each(fields("weight", name=resource_name))
_SHAPE = each(fields("utilization score"))
_PREEMPTION = fields("minCandidateNodesPercentage minCandidateNodesAbsolute")
_NAMESPACES = each(name("namespace"))
_LOADS: dict[str, Rule] = {
    "metricProvider": fields(
        "insecureSkipVerify", type=words("KubernetesMetricsServer", "Prometheus", "SignalFx"), address=_address
    ),
    "watcherAddress": _address,
}
_POWER = by_name("node", fields("k0 k1 k2"))
_CACHE = words("All", "None", "OnlyExclusiveResources", "OnlyResources", "Autodetect", "Dedicated", "Shared")
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
    "DefaultPreemption": _PREEMPTION,
    # The plugins of scheduler-plugins
    "Coscheduling": fields("permitWaitingTimeSeconds podGroupBackoffSeconds podGroupRejectPercentage"),
    "LoadVariationRiskBalancing": fields("safeVarianceMargin safeVarianceSensitivity", **_LOADS),
    "LowRiskOverCommitment": fields("smoothingWindowSize", riskLimitWeights=amounts, **_LOADS),
    "NetworkOverhead": fields(
        namespaces=_NAMESPACES, weightsName=network_weights, networkTopologyName=name("networktopology")
    ),
    "NodeMetadata": fields(
        metadataKey=_measured_key,
        metadataSource=words("Label", "Annotation"),
        metadataType=words("Number", "Timestamp"),
        scoringStrategy=words("Highest", "Lowest", "Newest", "Oldest"),
        timestampFormat=_layout,
    ),
    "NodeResourcesAllocatable": fields(resources=_RESOURCES, mode=words("Least", "Most")),
    "NodeResourceTopologyMatch": fields(
        "cacheResyncPeriodSeconds discardReservedNodes",
        scoringStrategy=fields(
            type=words("MostAllocated", "LeastAllocated", "BalancedAllocation", "LeastNUMANodes"), resources=_RESOURCES
        ),
        cache=fields(foreignPodsDetect=_CACHE, resyncMethod=_CACHE, informerMode=_CACHE, resyncScope=_CACHE),
        preemptionMode=words("Enabled", "Disabled"),
    ),
    "Peaks": fields(NodePowerModel=_POWER, nodePowerModel=_POWER, WatcherAddress=_address, **_LOADS),
    "PreemptionToleration": _PREEMPTION,
    "SySched": fields(defaultProfileNamespace=name("namespace"), defaultProfileName=name("seccompprofile")),
    "TargetLoadPacking": fields("defaultRequestsMultiplier targetUtilization", defaultRequests=amounts, **_LOADS),
    "TopologicalSort": fields(namespaces=_NAMESPACES),
}
"""The rules for the arguments of the plugins that come with Bayplan."""
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
