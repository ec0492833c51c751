"""Defaults of network policies that depend on other fields. Mirrors Kubernetes' pkg/apis/networking/v1/defaults.go."""

from __future__ import annotations

from bayplan.devcluster.apiserver.schema import Object


def default_network_policy(policy: Object) -> None:
    """Sets the policy types from the rules."""
    spec = policy["spec"]
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
