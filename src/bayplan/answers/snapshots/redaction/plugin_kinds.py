"""The fields of custom resources that plugins of scheduler-plugins read, and that a redacted snapshot keeps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from bayplan.answers.snapshots.redaction.names import Names, Rule
from bayplan.answers.snapshots.redaction.rules import (
    amounts,
    by_name,
    constant,
    custom,
    each,
    fields,
    key,
    name,
    network_weights,
    obj,
    resource_name,
    verbatim,
    words,
)


def _value_of(label: str) -> Rule:
    """A rule for a text that is the value of a label."""
    return lambda value, names: names.value(label, value) if isinstance(value, str) else None


def _matching(pattern: str) -> Rule:
    """A rule for a text that is kept if it has this form."""
    form = re.compile(pattern)
    return lambda value, _: value if isinstance(value, str) and form.fullmatch(value) else None


def _loads(value: Any, _: Names) -> Any:
    """The loads of a node, in which null means that something isn't measured."""
    return [item if isinstance(item, int | float) else None for item in value] if isinstance(value, list) else None


def _source(value: Any, names: Names) -> Any:
    """The name of a report, which says what kind of source it is of."""
    return _OF_SOURCE(value, names) or name("loadreport")(value, names)


_OF_SOURCE = _matching("(load-watcher|prometheus|kubernetesmetricsserver)(-[0-9]+)?")
_WORKLOAD = fields(selector=_value_of("appgroup.diktyo.x-k8s.io.workload"))
_PLACE = _value_of("topology.kubernetes.io/zone")
_ZONE_NAME = _matching("node-[0-9]+")


def _each_named(rule: Rule) -> Rule:
    """A rule for lists of things that have names. Those whose names aren't kept mean nothing to decisions."""
    listed = each(rule)
    return lambda value, names: [item for item in listed(value, names) or () if item.get("name")]


def _setting(value: Any, _: Names) -> Any:
    """The value of a setting of the Topology Manager; one that it doesn't have stays one."""
    return value if isinstance(value, str) and _SETTING.fullmatch(value) else "another"


_SETTING = re.compile("[0-9]+|none|best-effort|restricted|single-numa-node|pod|container")
_ATTRIBUTES: Mapping[str, Rule] = {
    **dict.fromkeys(("topologyManagerPolicy", "topologyManagerScope", "topologyManagerMaxNUMANodes"), _setting),
    "nodeTopologyPodsFingerprint": name("fingerprint"),
}


def _attribute(value: Any, names: Names) -> Any:
    """An attribute of a topology that decisions rest on: a setting of the Topology Manager, or a hash of names."""
    about = value.get("name") if isinstance(value, dict) else None
    rule = _ATTRIBUTES.get(about) if isinstance(about, str) else None
    return None if rule is None else {"name": about, "value": rule(value.get("value"), names)}


OF_PLUGINS: Mapping[tuple[str, str], Rule] = {
    ("scheduling.x-k8s.io", "podgroups"): custom(
        "podgroup",
        "PodGroup",
        spec=fields("minMember scheduleTimeoutSeconds", minResources=amounts),
        status=fields("phase scheduled running succeeded failed"),
    ),
    ("scheduling.x-k8s.io", "elasticquotas"): custom(
        "elasticquota",
        "ElasticQuota",
        spec=fields(min=amounts, max=amounts),
        status=fields(used=amounts),
    ),
    ("appgroup.diktyo.x-k8s.io", "appgroups"): custom(
        "appgroup",
        "AppGroup",
        spec=fields(
            "numMembers",
            workloads=each(
                fields(workload=_WORKLOAD, dependencies=each(fields("minBandwidth maxNetworkCost", workload=_WORKLOAD)))
            ),
        ),
        status=fields(topologyOrder=each(fields("index", workload=_WORKLOAD))),
    ),
    ("networktopology.diktyo.x-k8s.io", "networktopologies"): custom(
        "networktopology",
        "NetworkTopology",
        spec=fields(
            weights=each(
                fields(
                    name=network_weights,
                    topologyList=each(
                        fields(
                            topologyKey=key,
                            originList=each(
                                fields(
                                    origin=_PLACE,
                                    costList=each(fields("bandwidthCapacity networkCost", destination=_PLACE)),
                                )
                            ),
                        )
                    ),
                )
            )
        ),
    ),
    ("topology.node.k8s.io", "noderesourcetopologies"): custom(
        "node",
        "NodeResourceTopology",
        topologyPolicies=each(_matching("None|(SingleNUMANode|BestEffort|Restricted)(Pod|Container)Level")),
        attributes=each(_attribute),
        zones=_each_named(
            fields(
                name=_ZONE_NAME,
                type=words("Node"),
                costs=_each_named(fields("value", name=_ZONE_NAME)),
                resources=each(fields("capacity allocatable available", name=resource_name)),
            )
        ),
    ),
    ("security-profiles-operator.x-k8s.io", "seccompprofiles"): custom(
        "seccompprofile",
        "SeccompProfile",
        spec=fields(syscalls=each(fields(action=_matching("SCMP_ACT_[A-Z_]+"), names=each(name("syscall"))))),
    ),
    ("bayplan.dev", "loadreports"): obj(
        "loadreport",
        "end",
        named=_source,
        apiVersion=verbatim,
        kind=constant("LoadReport"),
        nodes=by_name("node", _loads),
    ),
}
"""(group, plural) -> the rule for its objects"""
