"""Devices and claims on them: what a driver publishes, and what the controller of claims makes of templates.

Mirrors test/integration/scheduler_perf/dra.go.
"""

from __future__ import annotations

from typing import Any

from bayplan.api import kinds
from bayplan.api.objects import convert, encode
from bayplan.cluster.objects import Objects
from bayplan.testing.scheduler_perf.templates import BenchmarkError


def publish(objects: Objects, driver: str, node: str, number: int) -> None:
    """Publish the slice of a node with so many devices."""
    devices = [
        {
            "name": f"instance-{index}",
            "attributes": {
                "model": {"string": "A100"},
                "family": {"string": "GPU"},
                "driverVersion": {"version": "1.2.3"},
                "dra.example.com/numa": {"int": index},
            },
            "capacity": {"memory": {"value": "1Gi"}},
        }
        for index in range(number)
    ]
    pool = {"name": node, "generation": 0, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": devices}
    document = {"metadata": {"name": node}, "spec": spec}
    objects[kinds.RESOURCE_SLICE].set(node, convert(kinds.RESOURCE_SLICE.type, document))


def with_claims(pod: dict[str, Any], objects: Objects) -> dict[str, Any]:
    """The pod with the claims that its templates ask for, which are made. Raises BenchmarkError."""
    metadata, statuses = pod["metadata"], []
    for reference in pod["spec"].get("resourceClaims") or ():
        name = reference.get("resourceClaimTemplateName")
        if not name:
            continue
        template = objects[kinds.RESOURCE_CLAIM_TEMPLATE].get(f"{metadata['namespace']}/{name}")
        if template is None:
            raise BenchmarkError(f"no ResourceClaimTemplate {name} in namespace {metadata['namespace']}")
        made = f"{metadata['name']}-{reference['name']}"
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
        }
        of_claim = {"name": made, "namespace": metadata["namespace"], "uid": made, "ownerReferences": [owner]}
        claim = convert(kinds.RESOURCE_CLAIM.type, {"metadata": of_claim})
        claim.spec = template.spec.spec
        objects[kinds.RESOURCE_CLAIM].set(f"{metadata['namespace']}/{made}", claim)
        statuses.append({"name": reference["name"], "resourceClaimName": made})
    if not statuses:
        return pod
    return {**pod, "status": {**(pod.get("status") or {}), "resourceClaimStatuses": statuses}}


def pod_for(claim: Any, number: int) -> bytes:
    """A pod that uses a claim and nothing else."""
    metadata = {"name": f"user-{number}", "namespace": claim.metadata.namespace, "uid": f"user-{number}"}
    references = [{"name": "claim", "resourceClaimName": claim.metadata.name}]
    return encode({"metadata": metadata, "spec": {"containers": [{"name": "c"}], "resourceClaims": references}})
