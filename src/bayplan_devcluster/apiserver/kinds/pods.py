"""Hooks of pods. Mirrors Kubernetes' pkg/registry/core/pod/strategy.go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bayplan.core.api.field_errors import FieldError, invalid
from bayplan.core.api.names import name_errors
from bayplan.core.api.pod_conditions import GATED
from bayplan.core.api.resource_lists import qos_class
from bayplan_devcluster.apiserver.schema import Object

KEPT = ("qosClass",)
KEPT_CLAIMS = ("resourceClaimStatuses", "extendedResourceClaimStatus")
"""What clients that are older than these fields would remove."""


def prepare_pod(pod: Object) -> None:
    """Sets a new pod's first status, and completes selectors with the pod's own labels."""
    spec, metadata = pod["spec"], pod["metadata"]
    status: Object = {"phase": "Pending"}
    if spec.get("schedulingGates"):
        status["conditions"] = [{**GATED, "lastTransitionTime": metadata["creationTimestamp"]}]
    status["qosClass"] = qos_class(spec)
    pod["status"] = status
    labels = metadata.get("labels", {})
    for constraint in spec.get("topologySpreadConstraints", ()):
        _merge_label_keys(constraint, labels)
    for term in _affinity_terms(spec):
        _merge_label_keys(term, labels)


def prepare_pod_status(pod: Object, old: Object, kept: Iterable[str] = KEPT) -> None:
    """Keeps what a status update of a kubelet leaves out. `kept`: fields of the status."""
    for field in kept:
        if not pod["status"].get(field) and old["status"].get(field):
            pod["status"][field] = old["status"][field]
    owners = old["metadata"].get("ownerReferences")
    pod["metadata"].pop("ownerReferences", None)
    if owners:
        pod["metadata"]["ownerReferences"] = owners


def validate_node_name(target: Object) -> Iterator[FieldError]:
    """The name of a node in a Binding must be one that a node can have. Mirrors ValidatePodBinding."""
    for detail in name_errors(target["name"], "subdomain"):
        yield invalid("target.name", target["name"], detail)


def _affinity_terms(spec: Object) -> Iterator[Object]:
    affinity = spec.get("affinity", {})
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind, {})
        for weighted in rules.get("preferredDuringSchedulingIgnoredDuringExecution", ()):
            yield weighted.get("podAffinityTerm", {})
        yield from rules.get("requiredDuringSchedulingIgnoredDuringExecution", ())


def _merge_label_keys(term: Object, labels: dict[str, str]) -> None:
    """Turns matchLabelKeys and mismatchLabelKeys into expressions. Without a selector, nothing is selected."""
    selector = term.get("labelSelector")
    if selector is None:
        return
    for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        for key in term.get(field, ()):
            if key in labels:
                requirement = {"key": key, "operator": operator, "values": [labels[key]]}
                selector["matchExpressions"] = [*selector.get("matchExpressions", ()), requirement]


def grace_period(pod: Object, requested: int | None) -> int:
    """Seconds until a deleted pod may be removed: 0 if no kubelet runs it, or if it has terminated."""
    spec = pod["spec"]
    if not spec.get("nodeName") or pod["status"].get("phase") in {"Succeeded", "Failed"}:
        return 0
    seconds: int = spec.get("terminationGracePeriodSeconds", 30) if requested is None else requested
    return 1 if seconds < 0 else seconds
