"""Whether the devices that a pod claims can be prepared on its node. Mirrors prepareResources of pkg/kubelet/cm/dra.

The drivers of all devices are simulated and finish at once.
"""

from __future__ import annotations

from bayplan.api.kinds import RESOURCE_CLAIM
from bayplan.client import ApiError, Client
from bayplan.devcluster.controllers.pod_claims import (
    NotCreatedYet,
    claim_name,
    extended_claim_name,
    is_allocated,
    is_made_for,
    is_reserved_for,
    not_made_for,
)
from bayplan.devcluster.controllers.served import Pod, ResourceClaim


async def unprepared(client: Client, pod: Pod) -> str:
    """Why the pod can't have its devices; "" if it can. Reads the claims from the server, as a view may be outdated.

    Raises ApiError and TransportError.
    """
    try:
        named = [
            (claim_name(pod, reference), reference.resourceClaimName is None)
            for reference in pod.spec.resourceClaims or ()
        ]
    except NotCreatedYet as problem:
        return str(problem)
    for name, generated in (*named, (extended_claim_name(pod), False)):
        problem_of_claim = await _problem(client, pod, name, generated=generated) if name is not None else ""
        if problem_of_claim:
            return problem_of_claim
    return ""


async def _problem(client: Client, pod: Pod, name: str, *, generated: bool) -> str:
    try:
        claim: ResourceClaim = await client.get(RESOURCE_CLAIM, name, pod.metadata.namespace)
    except ApiError as error:
        if error.status != 404:
            raise
        return f"fetch ResourceClaim {name}: {error.message}"
    if generated and not is_made_for(claim, pod):
        return not_made_for(claim, pod)
    if not is_reserved_for(claim, pod):
        owner, wanted = f"{pod.metadata.name} ({pod.metadata.uid})", f"{name} ({claim.metadata.uid})"
        return f"pod {owner} is not allowed to use ResourceClaim {wanted}"
    return "" if is_allocated(claim) else f"ResourceClaim {name}: not allocated"
