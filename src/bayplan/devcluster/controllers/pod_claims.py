"""Index functions and checks for pods that use ResourceClaims."""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.devcluster.controllers import pods
from bayplan.devcluster.controllers.served import Pod
from bayplan.devices.claims import UnusableClaim, claim_name


def known_claims(pod: Pod) -> Iterator[str]:
    """Keys of the claims that the pod refers to and that exist, except the claim for extended resources."""
    for reference in pod.spec.resourceClaims or ():
        try:
            name = claim_name(pod, reference)
        except UnusableClaim:
            continue
        if name is not None:
            yield f"{pod.metadata.namespace}/{name}"


def template_keys(pod: Pod) -> Iterator[str]:
    """The keys of the templates of the pod's claims."""
    for reference in pod.spec.resourceClaims or ():
        if reference.resourceClaimTemplateName is not None:
            yield f"{pod.metadata.namespace}/{reference.resourceClaimTemplateName}"


def is_done(pod: Pod) -> bool:
    """Whether no container of the pod runs or will run."""
    return pods.is_finished(pod) or (pods.is_terminating(pod) and not pod.spec.nodeName)
