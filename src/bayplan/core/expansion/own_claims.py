"""The claims that come with a pod: of its ResourceClaimTemplates, and of its generic ephemeral volumes.

For pods that don't exist: their claims have names made of theirs, and no API server knows them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lightkube.models.core_v1 import (
    PersistentVolumeClaim,
    PersistentVolumeClaimStatus,
    Pod,
    PodResourceClaimStatus,
    PodStatus,
)
from lightkube.models.meta_v1 import ObjectMeta
from msgspec import structs

from bayplan.core.api.kinds import PERSISTENT_VOLUME_CLAIM, POD, RESOURCE_CLAIM, Kind
from bayplan.core.api.volumes import annotations_of, claim_name
from bayplan.core.api.well_known_labels import DEFAULT_STORAGE_CLASS
from bayplan.core.expansion.claims import claim_of_template
from bayplan.core.expansion.owner_references import controller_reference

OwnClaim = tuple[Kind, Any]
"""The kind of a claim, and the claim."""


class NoTemplateError(ValueError):
    """A ResourceClaimTemplate that a pod names does not exist. The message names it."""


def has_own_claims(pod: Pod) -> bool:
    """Whether claims come with a pod."""
    spec = pod.spec
    return spec is not None and (
        any(each.resourceClaimTemplateName for each in spec.resourceClaims or ())
        or any(each.ephemeral is not None for each in spec.volumes or ())
    )


def with_own_claims(
    pod: Pod, templates: Mapping[str, Any], storage_classes: Mapping[str, Any]
) -> tuple[Pod, list[OwnClaim]]:
    """Return a pod that names its claims, and the claims. Raises NoTemplateError.

    `templates`: the ResourceClaimTemplates by `namespace/name`. `storage_classes`: by name.
    """
    assert pod.metadata is not None
    assert pod.spec is not None
    claims: list[OwnClaim] = []
    statuses = []
    for reference in pod.spec.resourceClaims or ():
        if not reference.resourceClaimTemplateName:
            continue
        template = templates.get(f"{pod.metadata.namespace}/{reference.resourceClaimTemplateName}")
        if template is None:
            raise NoTemplateError(f"there is no ResourceClaimTemplate {reference.resourceClaimTemplateName}")
        claim = claim_of_template(template, POD, pod, reference.name)
        name, metadata = f"{pod.metadata.name}-{reference.name}", claim.metadata
        assert metadata is not None
        metadata.generateName, metadata.name = None, name
        metadata.namespace, metadata.uid = pod.metadata.namespace, _uid(pod, reference.name)
        claims.append((RESOURCE_CLAIM, claim))
        statuses.append(PodResourceClaimStatus(name=reference.name, resourceClaimName=name))
    claims += ((PERSISTENT_VOLUME_CLAIM, claim) for claim in _volume_claims(pod, storage_classes))
    return structs.replace(pod, status=PodStatus(resourceClaimStatuses=statuses or None)), claims


def _volume_claims(pod: Pod, classes: Mapping[str, Any]) -> Iterator[PersistentVolumeClaim]:
    assert pod.metadata is not None
    assert pod.spec is not None
    default = next(
        (name for name, each in classes.items() if annotations_of(each).get(DEFAULT_STORAGE_CLASS) == "true"), None
    )
    for volume in pod.spec.volumes or ():
        if volume.ephemeral is None or volume.ephemeral.volumeClaimTemplate is None:
            continue
        template = volume.ephemeral.volumeClaimTemplate
        described = template.metadata or ObjectMeta()
        spec = template.spec
        if spec.storageClassName is None and default is not None:
            spec = structs.replace(spec, storageClassName=default)
        yield PersistentVolumeClaim(
            metadata=ObjectMeta(
                name=claim_name(pod.metadata.name or "", volume),
                namespace=pod.metadata.namespace,
                uid=_uid(pod, volume.name),
                labels=described.labels,
                annotations=described.annotations,
                ownerReferences=[controller_reference(POD, pod)],
            ),
            spec=spec,
            status=PersistentVolumeClaimStatus(phase="Pending"),
        )


def _uid(pod: Pod, name: str) -> str:
    assert pod.metadata is not None
    return f"{pod.metadata.uid}-{name}"
