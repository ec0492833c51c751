"""Whether the devices that a pod claims can be prepared on its node. Mirrors prepareResources of pkg/kubelet/cm/dra.

The drivers of all devices are simulated and finish at once.
"""

from __future__ import annotations

from bayplan.core.api.kinds import RESOURCE_CLAIM
from bayplan.core.api.served import Pod, ResourceClaim
from bayplan.core.devices.claims import (
    UnusableClaim,
    allocation_of,
    claim_names,
    group_of,
    is_made_for,
    is_reserved_for,
    key_of,
    not_made_for,
)
from bayplan.core.devices.extended_claims import extended_claim_name
from bayplan.running.client.client import Client
from bayplan.running.client.errors import ApiError


async def unprepared(client: Client, pod: Pod) -> str:
    """Why the pod can't have its devices; "" if it can. Reads the claims from the server, as a view may be outdated.

    Raises ApiError and TransportError.
    """
    try:
        named = list(claim_names(pod))
    except UnusableClaim as problem:
        return str(problem)
    extended = extended_claim_name(pod)
    if extended is not None:
        named.append((extended, False))
    for name, generated in named:
        problem_of_claim = await _problem(client, pod, name, generated=generated)
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
    if generated and not is_made_for(claim, pod.metadata.uid, group_of(pod)):
        return not_made_for(claim, key_of(pod), group_of(pod))
    if not is_reserved_for(claim, pod.metadata.uid, group_of(pod)):
        owner, wanted = f"{pod.metadata.name} ({pod.metadata.uid})", f"{name} ({claim.metadata.uid})"
        return f"pod {owner} is not allowed to use ResourceClaim {wanted}"
    return "" if allocation_of(claim) is not None else f"ResourceClaim {name}: not allocated"
