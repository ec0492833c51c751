"""Defaults of the kinds of networking, discovery and autoscaling.

Mirrors defaults.go of Kubernetes' pkg/apis/core, networking, discovery and autoscaling.
"""

from __future__ import annotations

from typing import Any

from bayplan.devcluster.apiserver.schema import Object

SCALE_UP: Object = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
SCALE_DOWN: Object = {
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}
CPU_UTILIZATION = 80


def default_endpoints(endpoints: Object) -> None:
    """Sets the protocol of each port to TCP."""
    for subset in endpoints.get("subsets") or ():
        for port in subset.get("ports", ()):
            port.setdefault("protocol", "TCP")


def default_endpoint_slice(endpoint_slice: Object) -> None:
    """Sets the name and the protocol of each port."""
    for port in endpoint_slice.get("ports") or ():
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def default_ingress_class(ingress_class: Object) -> None:
    """Sets the scope of the parameters."""
    parameters = ingress_class.get("spec", {}).get("parameters")
    if parameters is not None and parameters.get("scope") is None:
        parameters["scope"] = "Cluster"


def default_network_policy(policy: Object) -> None:
    """Sets the policy types from the rules, and the protocol of each port to TCP."""
    spec = policy["spec"]
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    for rule in [*spec.get("ingress", ()), *spec.get("egress", ())]:
        for port in rule.get("ports", ()):
            port.setdefault("protocol", "TCP")


def default_autoscaler(autoscaler: Object) -> None:
    """Sets the minimum, the metric, and the rules that a behavior leaves out."""
    spec = autoscaler["spec"]
    spec.setdefault("minReplicas", 1)
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": CPU_UTILIZATION}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    behavior = spec.get("behavior")
    if behavior is not None:
        for direction, rules in (("scaleUp", SCALE_UP), ("scaleDown", SCALE_DOWN)):
            behavior[direction] = {**_copy(rules), **behavior.get(direction, {})}


def _copy(rules: Object) -> dict[str, Any]:
    return {**rules, "policies": [dict(policy) for policy in rules["policies"]]}
