"""The resource claims that are made of templates. Mirrors pkg/controller/resourceclaim/controller.go."""

from __future__ import annotations

from typing import Any

from lightkube.models import resource_v1
from lightkube.models.meta_v1 import ObjectMeta, OwnerReference

from bayplan.core.api.kinds import Kind

POD_CLAIM = "resource.kubernetes.io/pod-claim-name"
"""Annotation: the name of the entry in the pod's `spec.resourceClaims`."""
LONGEST_BASE = 57
"""The maximum length of a generated name, so that it is a valid label with the suffix of the server."""


def claim_of_template(template: Any, kind: Kind, pod: Any, reference: str) -> resource_v1.ResourceClaim:
    """A new claim for a reference of a pod, or of a PodGroup, which `kind` says. The server completes its name."""
    metadata = template.spec.metadata or ObjectMeta()
    owner = OwnerReference(
        apiVersion=kind.api_version, kind=kind.kind, name=pod.metadata.name, uid=pod.metadata.uid, controller=True
    )
    return resource_v1.ResourceClaim(
        metadata=ObjectMeta(
            generateName=name_prefix(pod.metadata.name, reference),
            labels=metadata.labels,
            annotations={**(metadata.annotations or {}), POD_CLAIM: reference},
            ownerReferences=[owner],
        ),
        spec=template.spec.spec,
    )


def name_prefix(pod: str, reference: str) -> str:
    """The prefix of a generated claim's name. If it is too long, both names are cut in proportion."""
    prefix = f"{pod}-{reference}-"
    if len(prefix) <= LONGEST_BASE:
        return prefix
    short = (name[: len(name) * LONGEST_BASE // len(prefix)] for name in (pod, reference))
    return "-".join(short)
