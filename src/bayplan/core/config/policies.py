"""Rejects a Policy, the former configuration format, with the equivalent configuration.

Each entry is converted as kube-scheduler 1.22 did (pkg/scheduler/framework/plugins/legacy_registry.go), or named in a
comment of the replacement.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from bayplan.core.api.field_errors import FieldError
from bayplan.core.config.policy_priorities import ConvertedPriorities, convert_priorities
from bayplan.core.config.types import API_VERSION, KIND, Extender, ExtenderTLSConfig

POLICY = "Policy"

PREDICATES = {
    "CheckNodeUnschedulable": ("NodeUnschedulable",),
    "CheckVolumeBinding": ("VolumeBinding",),
    "EvenPodsSpread": ("PodTopologySpread",),
    "GeneralPredicates": ("NodeName", "NodeAffinity", "NodePorts", "NodeResourcesFit"),
    "HostName": ("NodeName",),
    "MatchInterPodAffinity": ("InterPodAffinity",),
    "MatchNodeSelector": ("NodeAffinity",),
    "NoDiskConflict": ("VolumeRestrictions",),
    "NoVolumeZoneConflict": ("VolumeZone",),
    "PodFitsHostPorts": ("NodePorts",),
    "PodFitsPorts": ("NodePorts",),
    "PodFitsResources": ("NodeResourcesFit",),
    "PodToleratesNodeNoExecuteTaints": ("TaintToleration",),
    "PodToleratesNodeTaints": ("TaintToleration",),
    **{f"Max{kind}VolumeCount": ("NodeVolumeLimits",) for kind in ("EBS", "GCEPD", "AzureDisk", "Cinder", "CSI")},
    "MaxCSIVolumeCountPred": ("NodeVolumeLimits",),
    # Node conditions have become taints.
    **{
        f"CheckNode{name}": ("TaintToleration",)
        for name in ("Condition", "MemoryPressure", "DiskPressure", "PIDPressure")
    },
}
"""Predicates, and the plugins that replaced them."""

ALWAYS = ("NodeUnschedulable", "TaintToleration")
"""The plugins of the predicates that a Policy couldn't turn off."""

_FIELDS = {
    "alwaysCheckAllPredicates",
    "apiVersion",
    "extenderConfigs",
    "extenders",
    "hardPodAffinitySymmetricWeight",
    "kind",
    "metadata",
    "predicates",
    "priorities",
}


def policy_error(policy: Mapping[str, Any]) -> FieldError:
    """The error for a Policy: that it was removed, and what to write instead."""
    notes: list[str] = []
    replacement = _replacement(policy, notes)
    comments = [f"# {note}" for note in notes]
    written = yaml.safe_dump(replacement, sort_keys=False).rstrip()
    indented = "\n".join(f"    {line}" for line in (*comments, *written.splitlines()))
    return FieldError("kind", f"a {POLICY} is no longer supported. Write instead:\n{indented}")


def _replacement(policy: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    scores = convert_priorities(policy.get("priorities"), notes)
    configs: dict[str, dict[str, Any]] = dict(scores.arguments)
    affinity = _required_labels(policy.get("predicates"), notes)
    if affinity:
        configs["NodeAffinity"] = {"addedAffinity": affinity}
    weight = policy.get("hardPodAffinitySymmetricWeight")
    if isinstance(weight, int) and weight:
        configs["InterPodAffinity"] = {"hardPodAffinityWeight": weight}
    elif weight:
        notes.append(f"hardPodAffinitySymmetricWeight: expected an integer from 1 to 100, not {weight!r:.40}")
    if policy.get("alwaysCheckAllPredicates"):
        notes.append(
            "alwaysCheckAllPredicates: no equivalent: a node's reason is that of the first plugin to reject it"
        )
    notes += [f"{field}: no equivalent" for field in policy if field not in _FIELDS]
    extenders = _extenders(policy.get("extenders") or policy.get("extenderConfigs"), notes)
    replacement: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND, "profiles": [_profile(scores, configs)]}
    if extenders:
        replacement["extenders"] = extenders
    return replacement


def _profile(scores: ConvertedPriorities, configs: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    enabled = [{"name": name, "weight": weight} for name, weight in scores.weights.items()]
    score: dict[str, Any] = {"disabled": [{"name": "*"}]}
    if enabled:
        score["enabled"] = enabled
    profile: dict[str, Any] = {"plugins": {"score": score}}
    if configs:
        profile["pluginConfig"] = [{"name": name, "args": args} for name, args in configs.items()]
    return profile


def _required_labels(predicates: Any, notes: list[str]) -> dict[str, Any]:
    """The node affinity of all pods that predicates on labels become. Notes the predicates that can't be converted.

    A Policy without a list of predicates has the default ones.
    """
    if not isinstance(predicates, list):
        return {}
    expressions: list[dict[str, Any]] = []
    listed = set(ALWAYS)
    for name, argument in named_entries(predicates):
        labels = argument.get("labelsPresence")
        if name in PREDICATES:
            listed.update(PREDICATES[name])
        elif isinstance(labels, Mapping) and isinstance(labels.get("labels"), list):
            operator = "Exists" if labels.get("presence") else "DoesNotExist"
            expressions += [{"key": str(label), "operator": operator} for label in labels["labels"]]
            notes.append(f"predicate {name}: now addedAffinity in the arguments of NodeAffinity")
        elif argument.get("serviceAffinity") is not None or name == "CheckServiceAffinity":
            notes.append(f"predicate {name}: no equivalent: give the pods of each service a pod affinity")
        else:
            notes.append(f"predicate {name}: no equivalent")
    others = sorted({plugin for plugins in PREDICATES.values() for plugin in plugins} - listed)
    if others:
        notes.append(
            f"predicates not listed in the Policy are on: {', '.join(others)}; "
            "to turn one off, list it under disabled of preFilter and filter"
        )
    if not expressions:
        return {}
    terms = [{"matchExpressions": expressions}]
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}


def named_entries(entries: list[Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The names and arguments of predicates or priorities; empty ones in place of values of a wrong type."""
    for entry in entries:
        if isinstance(entry, Mapping):
            argument = entry.get("argument")
            yield str(entry.get("name", "")), argument if isinstance(argument, Mapping) else {}


# Extenders: their fields differ in two names and in the form of durations


_RENAMED_FIELDS = {"enableHttps": "enableHTTPS"}


def _extenders(extenders: Any, notes: list[str]) -> list[dict[str, Any]]:
    """The extenders as KubeSchedulerConfiguration has them. Notes the fields that it doesn't have."""
    if not isinstance(extenders, list):
        return []
    return [_converted_extender(extender, notes) for extender in extenders if isinstance(extender, Mapping)]


def _converted_extender(extender: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    named = f"extender {extender.get('urlPrefix', '')}".rstrip()
    renamed = {_RENAMED_FIELDS.get(str(name), str(name)): value for name, value in extender.items()}
    converted = _known_fields(renamed, Extender.__struct_fields__, named, notes)
    timeout = converted.get("httpTimeout")
    if isinstance(timeout, int) and abs(timeout) < 2**63:
        converted["httpTimeout"] = f"{timeout / 1e9:g}s"
    tls = converted.get("tlsConfig")
    if isinstance(tls, Mapping):
        converted["tlsConfig"] = _known_fields(tls, ExtenderTLSConfig.__struct_fields__, f"{named}: tlsConfig", notes)
    return converted


def _known_fields(value: Mapping[str, Any], fields: tuple[str, ...], named: str, notes: list[str]) -> dict[str, Any]:
    notes += [f"{named}: {name}: no equivalent" for name in value if name not in fields and name != "apiVersion"]
    return {name: item for name, item in value.items() if name in fields}
