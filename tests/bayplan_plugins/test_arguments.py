"""Each argument of each plugin changes what the plugin says: a verdict, a score, an order or a victim."""

from collections.abc import Iterator
from typing import get_args, get_origin

import msgspec
import pytest
from tests.bayplan_plugins.argument_effects import LOADED, OUTCOMES

from bayplan.core.config.shipped_plugins import shipped_plugin, shipped_plugins

WATCHER = {"watcherAddress": "one"}
SECRET = {"type": "Prometheus", "address": "prometheus", "token": "secret"}
LABEL = {"metadataKey": "key", "metadataSource": "Label", "metadataType": "Number", "scoringStrategy": "Highest"}
TIME = {**LABEL, "metadataSource": "Annotation", "metadataType": "Timestamp", "scoringStrategy": "Newest"}
NEAR = {"networkTopologyName": "near"}
OVER = {"cacheResyncPeriodSeconds": 5}
CPU = {"type": "LeastAllocated", "resources": [{"name": "cpu", "weight": 1}]}
BOTH = {"type": "LeastAllocated", "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]}
MODEL = {"a": {"k0": 300, "k1": -60, "k2": -0.05}, "b": {"k0": 400, "k1": -90, "k2": -0.07}}


def model(**changed):
    return {"nodePowerModel": {**MODEL, "a": MODEL["a"] | changed}}


def source(**changed):
    return {"metricProvider": SECRET | changed}


SOURCES = {
    "watcherAddress": (WATCHER, {"watcherAddress": "two"}),
    "metricProvider.type": (source(), {"metricProvider": {"type": "KubernetesMetricsServer"}}),
    "metricProvider.address": (source(), source(address="secure")),
    "metricProvider.token": (source(), source(token="other")),
    "metricProvider.insecureSkipVerify": (source(address="secure"), source(address="secure", insecureSkipVerify=False)),
}
EFFECTS = {
    "Coscheduling": {
        "permitWaitingTimeSeconds": ({}, {"permitWaitingTimeSeconds": 7}),
        "podGroupBackoffSeconds": ({}, {"podGroupBackoffSeconds": 30}),
        "podGroupRejectPercentage": ({}, {"podGroupRejectPercentage": 20}),
    },
    "LoadVariationRiskBalancing": {
        "safeVarianceMargin": (WATCHER, WATCHER | {"safeVarianceMargin": 0}),
        "safeVarianceSensitivity": (WATCHER, WATCHER | {"safeVarianceSensitivity": 3}),
    },
    "LowRiskOverCommitment": {
        "smoothingWindowSize": (WATCHER, WATCHER | {"smoothingWindowSize": 1}),
        "riskLimitWeights": (WATCHER, WATCHER | {"riskLimitWeights": {"cpu": 0, "memory": 0}}),
    },
    "NetworkOverhead": {
        "namespaces": (NEAR, NEAR | {"namespaces": ["other"]}),
        "weightsName": (NEAR, NEAR | {"weightsName": "Other"}),
        "networkTopologyName": (NEAR, {"networkTopologyName": "far"}),
    },
    "NodeMetadata": {
        "metadataKey": (LABEL, LABEL | {"metadataKey": "other"}),
        "metadataSource": (LABEL, LABEL | {"metadataSource": "Annotation"}),
        "metadataType": (TIME, LABEL | {"metadataSource": "Annotation"}),
        "scoringStrategy": (LABEL, LABEL | {"scoringStrategy": "Lowest"}),
        "timestampFormat": (TIME, TIME | {"timestampFormat": "2006"}),
    },
    "NodeResourcesAllocatable": {
        "mode": ({}, {"mode": "Most"}),
        "resources.name": tuple({"resources": [{"name": name, "weight": 1}]} for name in ("cpu", "memory")),
        "resources.weight": ({}, {"resources": [{"name": "cpu", "weight": 2**34}, {"name": "memory", "weight": 1}]}),
    },
    "NodeResourceTopologyMatch": {
        "scoringStrategy.type": (OVER, OVER | {"scoringStrategy": {"type": "MostAllocated"}}),
        "scoringStrategy.resources.name": tuple(
            OVER | {"scoringStrategy": {"type": "LeastAllocated", "resources": [{"name": name, "weight": 9}]}}
            for name in ("cpu", "memory")
        ),
        "scoringStrategy.resources.weight": (
            OVER | {"scoringStrategy": BOTH},
            OVER | {"scoringStrategy": BOTH | {"resources": [{"name": "cpu", "weight": 9}, BOTH["resources"][1]]}},
        ),
        "cacheResyncPeriodSeconds": ({}, OVER),
        "discardReservedNodes": (OVER, OVER | {"discardReservedNodes": True}),
        "cache.foreignPodsDetect": (OVER, OVER | {"cache": {"foreignPodsDetect": "OnlyExclusiveResources"}}),
        "cache.resyncMethod": (OVER, OVER | {"cache": {"resyncMethod": "OnlyExclusiveResources"}}),
        "cache.informerMode": (OVER, OVER | {"cache": {"informerMode": "Shared"}}),
        "cache.resyncScope": (OVER, OVER | {"cache": {"resyncScope": "OnlyResources"}}),
        "preemptionMode": (OVER, OVER | {"preemptionMode": "Enabled"}),
    },
    "Peaks": {
        "WatcherAddress": tuple(model() | {"WatcherAddress": name} for name in ("one", "two")),
        "NodePowerModel": tuple(WATCHER | {"NodePowerModel": model(k1=k1)["nodePowerModel"]} for k1 in (-60, -9)),
        "nodePowerModel": (WATCHER | model(), WATCHER | model(k1=-9)),
    },
    "PreemptionToleration": {
        "minCandidateNodesPercentage": (
            {"minCandidateNodesAbsolute": 1},
            {"minCandidateNodesAbsolute": 1, "minCandidateNodesPercentage": 100},
        ),
        "minCandidateNodesAbsolute": ({}, {"minCandidateNodesAbsolute": 1}),
    },
    "SySched": {
        "defaultProfileNamespace": ({}, {"defaultProfileNamespace": "other"}),
        "defaultProfileName": ({}, {"defaultProfileName": "few"}),
    },
    "TargetLoadPacking": {
        "defaultRequests": (WATCHER, WATCHER | {"defaultRequests": {"cpu": "2"}}),
        "defaultRequestsMultiplier": (WATCHER, WATCHER | {"defaultRequestsMultiplier": "3"}),
        "targetUtilization": (WATCHER, WATCHER | {"targetUtilization": 70}),
    },
    "TopologicalSort": {"namespaces": ({}, {"namespaces": ["other"]})},
}
"""By plugin and argument: arguments, and others that differ in that one."""
for name in LOADED:
    needed = model() if name == "Peaks" else {}
    EFFECTS[name] |= {field: (one | needed, other | needed) for field, (one, other) in SOURCES.items()}


def arguments_of(struct: type, path: str = "") -> Iterator[str]:
    """The names of all arguments; of a map, its own."""
    for field in msgspec.structs.fields(struct):
        inner = [each for each in (field.type, *get_args(field.type)) if _is_struct(each)]
        if field.name in {"apiVersion", "kind"}:
            continue
        if inner and get_origin(field.type) is not dict:
            yield from arguments_of(inner[0], f"{path}{field.name}.")
        else:
            yield f"{path}{field.name}"


def _is_struct(found: object) -> bool:
    return isinstance(found, type) and issubclass(found, msgspec.Struct)


def test_every_argument_is_tried():
    structs = {name: shipped_plugin(name).arguments for name in shipped_plugins()}
    known = {name: set(arguments_of(struct)) for name, struct in structs.items() if struct is not None}
    assert {name: effects.keys() for name, effects in EFFECTS.items()} == known


@pytest.mark.parametrize(("plugin", "argument"), [(name, each) for name in EFFECTS for each in EFFECTS[name]])
def test_an_argument_changes_what_the_plugin_says(plugin, argument):
    before, after = EFFECTS[plugin][argument]
    assert OUTCOMES[plugin](before) == OUTCOMES[plugin](before)
    assert OUTCOMES[plugin](before) != OUTCOMES[plugin](after)
