"""Invalid arguments: the messages are those of upstream's plugins.

They were read off a kube-scheduler 1.35.4 with scheduler-plugins compiled in, started with such a file; those
of NodeMetadata are upstream's texts. What upstream says of a value is the end of a line here; it begins with the path
of the argument in the file.
"""

import pytest
from tests.bayplan_plugins.argument_effects import configured
from tests.support.tables import cases

from bayplan.core.config.errors import ConfigurationError

PROVIDER = {"metricProvider": {"type": "Else"}}
METADATA = {"metadataKey": "k", "metadataSource": "Label", "metadataType": "Number", "scoringStrategy": "Highest"}
RANGE = "Invalid value: {}: must be between 0 and 100"
WEIGHT = "Invalid value: {0}: resource weight of {1} should be a positive value, got :{0}"
SAME_TIME = "Invalid value: 0: cannot be zero at the same time as minCandidateNodes{}"
REFUSED = {
    "wait": (
        "Coscheduling",
        {"permitWaitingTimeSeconds": -10},
        {"permitWaitingTimeSeconds": "Invalid value: -10: must be greater than 0"},
    ),
    "two": (
        "Coscheduling",
        {"permitWaitingTimeSeconds": -10, "podGroupBackoffSeconds": -20},
        {
            "permitWaitingTimeSeconds": "Invalid value: -10: must be greater than 0",
            "podGroupBackoffSeconds": "Invalid value: -20: must be greater than 0",
        },
    ),
    "above": ("Coscheduling", {"podGroupRejectPercentage": 150}, {"podGroupRejectPercentage": RANGE.format(150)}),
    "below": ("Coscheduling", {"podGroupRejectPercentage": -1}, {"podGroupRejectPercentage": RANGE.format(-1)}),
    "mode": (
        "NodeResourcesAllocatable",
        {"mode": "Some"},
        {"mode": 'Invalid value: "Some": invalid support ModeType'},
    ),
    "weights": (
        "NodeResourcesAllocatable",
        {"resources": [{"name": "cpu", "weight": 0}, {"name": "memory", "weight": -3}]},
        {"resources[0].weight": WEIGHT.format(0, "cpu"), "resources[1].weight": WEIGHT.format(-3, "memory")},
    ),
    "strategy": (
        "NodeResourceTopologyMatch",
        {"scoringStrategy": {"type": "Else"}},
        {"scoringStrategy.type": 'Invalid value: "Else": invalid ScoringStrategyType'},
    ),
    "source": (
        "NodeMetadata",
        METADATA | {"metadataSource": "Taint"},
        {"metadataSource": 'Invalid value: "Taint": metadataSource must be either "Label" or "Annotation"'},
    ),
    "type": (
        "NodeMetadata",
        METADATA | {"metadataType": "Text"},
        {"metadataType": 'Invalid value: "Text": metadataType must be either "Number" or "Timestamp"'},
    ),
    "newest": (
        "NodeMetadata",
        METADATA | {"scoringStrategy": "Newest"},
        {
            "scoringStrategy": 'Invalid value: "Newest": scoringStrategy "Newest" and "Oldest" are only valid for '
            'metadataType "Timestamp"'
        },
    ),
    "multiplier": (
        "TargetLoadPacking",
        {"defaultRequestsMultiplier": "much"},
        {
            "defaultRequestsMultiplier": "unable to parse DefaultRequestsMultiplier: strconv.ParseFloat: "
            'parsing "much": invalid syntax'
        },
    ),
    **{
        f"provider of {name}": (name, PROVIDER, {"metricProvider.type": "invalid MetricProvider.Type, got Else"})
        for name in ("TargetLoadPacking", "LoadVariationRiskBalancing", "LowRiskOverCommitment")
    },
    "percentage": (
        "PreemptionToleration",
        {"minCandidateNodesPercentage": 101},
        {"minCandidateNodesPercentage": "Invalid value: 101: not in valid range [0, 100]"},
    ),
    "absolute": (
        "PreemptionToleration",
        {"minCandidateNodesAbsolute": -1},
        {"minCandidateNodesAbsolute": "Invalid value: -1: not in valid range [0, inf)"},
    ),
    "no nodes": (
        "PreemptionToleration",
        {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
        {
            "minCandidateNodesPercentage": SAME_TIME.format("Absolute"),
            "minCandidateNodesAbsolute": SAME_TIME.format("Percentage"),
        },
    ),
}
"""plugin, arguments, and what upstream says of each argument"""


@cases("plugin, arguments, messages", REFUSED)
def test_upstreams_messages(plugin, arguments, messages):
    with pytest.raises(ConfigurationError) as caught:
        configured(plugin, arguments)
    lines = str(caught.value).splitlines()
    paths = [f"profiles[0].pluginConfig[0].args.{argument}: " for argument in messages]
    assert [line.startswith(path) for line, path in zip(lines, paths, strict=True)] == [True] * len(paths)
    assert [line.endswith(text) for line, text in zip(lines, messages.values(), strict=True)] == [True] * len(paths)


OTHERWISE = {
    "a wrong type": (
        "Coscheduling",
        {"permitWaitingTimeSeconds": "x"},
        "permitWaitingTimeSeconds: expected an integer",
    ),
    "an unknown field": ("Coscheduling", {"permitWaiting": 3}, "permitWaiting: unknown field: expected one of "),
    "a value that upstream takes": (
        "NodeResourceTopologyMatch",
        {"cache": {"foreignPodsDetect": "Else"}},
        "must be one of All, None, OnlyExclusiveResources",
    ),
    "a target above 100": ("TargetLoadPacking", {"targetUtilization": 120}, "must be a percentage up to 100"),
}


@cases("plugin, arguments, message", OTHERWISE)
def test_messages_of_bayplans_own(plugin, arguments, message):
    with pytest.raises(ConfigurationError) as caught:
        configured(plugin, arguments)
    assert message in str(caught.value)
