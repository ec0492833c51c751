"""Device claims that a pod waits for because their templates don't exist: which they are, and what would help."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec
from lightkube.models.core_v1 import PodResourceClaim

from bayplan.answers.insight.questions.documents import pod_document
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import DEVICE_CLASS, POD, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE
from bayplan.core.api.objects import UndecodableObject, decode, encode
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.devices.claims import UnusableClaim, claim_name
from bayplan.core.framework.near_names import near_name
from bayplan.core.framework.remedies import Remedy
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.core.expansion import claims


def template_notes(world: World, pod: PodInfo) -> Iterator[str]:
    """Yield which claims of a pod have not been made from their templates, and why."""
    for reference in _unmade(pod):
        template = reference.resourceClaimTemplateName or ""
        if _template(world, pod.namespace, template) is not None:
            yield f"the ResourceClaim controller has not made claim {reference.name} from template {template} yet"
            continue
        near = near_name(template, _names(world, pod.namespace))
        meant = f" (did you mean {near}?)" if near else ""
        yield (
            f"there is no resourceclaimtemplate {template} in {pod.namespace}{meant}, so claim {reference.name} "
            "can't be made (the ResourceClaim controller's event is FailedResourceClaimCreation)"
        )


def template_remedies(world: World, pod: PodInfo) -> Iterator[Remedy]:
    """Yield the use of a template with a similar name, and the creation of the missing ones."""
    wanted = {reference.name: reference.resourceClaimTemplateName or "" for reference in _unmade(pod)}
    missing = {name: template for name, template in wanted.items() if _template(world, pod.namespace, template) is None}
    if not missing:
        return
    near = {name: near_name(template, _names(world, pod.namespace)) for name, template in missing.items()}
    if all(near.values()):
        texts = [f"let the pod use resourceclaimtemplate {each}" for each in near.values()]
        yield Remedy(" and ".join(dict.fromkeys(texts)), pod=partial(_use, near))
    names = list(dict.fromkeys(missing.values()))
    for device_class in sorted(world.state.objects[DEVICE_CLASS])[:_CLASSES]:
        texts = [f"create the resourceclaimtemplate {name} for 1 device of class {device_class}" for name in names]
        documents = (_new_template(pod.namespace, name, device_class) for name in names)
        yield Remedy(" and ".join(texts), apply=tuple(documents))


_CLASSES = 3
"""The most device classes to try in a new template."""


def make_claims(world: World, key: str, new: tuple[Any, ...]) -> None:
    """Make the claims of a pod that have templates, as the ResourceClaim controller does.

    `new`: documents that were added, among them new templates.
    """
    pod = world.pending.get(key)
    if pod is None or not pod.spec.resourceClaims:
        return

    made = dict[str, str]()
    for reference in _unmade(pod):
        name = reference.resourceClaimTemplateName or ""
        template = _added(new, pod.namespace, name) or _template(world, pod.namespace, name)
        if template is not None:
            claim = claims.claim_of_template(template, POD, pod.object, reference.name)
            made[reference.name] = _add_claim(world, claim, pod)
    if made:
        document = pod_document(pod)
        status = document.get("status") or {}
        added = [{"name": reference, "resourceClaimName": claim} for reference, claim in made.items()]
        document["status"] = {**status, "resourceClaimStatuses": [*(status.get("resourceClaimStatuses") or ()), *added]}
        world.change(POD, key, PodInfo.from_raw(encode(document)))


def _add_claim(world: World, claim: Any, pod: PodInfo) -> str:
    """Add a generated claim with the name, the uid and the owner that it has in this world; return its name."""
    metadata = claim.metadata
    metadata.name, metadata.namespace = f"{metadata.generateName}new", pod.namespace
    metadata.uid = f"{metadata.name}-of-{pod.uid}"
    metadata.ownerReferences[0].uid = pod.uid
    world.change(RESOURCE_CLAIM, f"{pod.namespace}/{metadata.name}", claim)
    return str(metadata.name)


def _unmade(pod: PodInfo) -> Iterator[PodResourceClaim]:
    """The references of a pod to claims that have not been made from their templates."""
    for reference in pod.spec.resourceClaims or ():
        try:
            claim_name(pod.object, reference)
        except UnusableClaim:
            if reference.resourceClaimTemplateName is not None:
                yield reference


def _template(world: World, namespace: str, name: str) -> Any:
    raw = world.contents.documents.get(RESOURCE_CLAIM_TEMPLATE, {}).get(f"{namespace}/{name}")
    try:
        return None if raw is None else decode(RESOURCE_CLAIM_TEMPLATE.type, raw)
    except UndecodableObject:
        return None


def _added(new: tuple[Any, ...], namespace: str, name: str) -> Any:
    wanted = RESOURCE_CLAIM_TEMPLATE.kind, namespace, name
    for document in new:
        metadata = document["metadata"]
        if (document["kind"], metadata.get("namespace"), metadata["name"]) == wanted:
            return decode(RESOURCE_CLAIM_TEMPLATE.type, msgspec.json.encode(document))
    return None


def _names(world: World, namespace: str) -> list[str]:
    keys = (key.partition("/") for key in world.contents.documents.get(RESOURCE_CLAIM_TEMPLATE, {}))
    return [name for where, _, name in keys if where == namespace]


def _use(near: dict[str, str | None], document: dict[str, Any]) -> None:
    document["spec"]["resourceClaims"] = [
        {**each, "resourceClaimTemplateName": near[each["name"]]} if each["name"] in near else each
        for each in document["spec"]["resourceClaims"]
    ]


def _new_template(namespace: str, name: str, device_class: str) -> dict[str, Any]:
    exactly = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": 1}
    return {
        "apiVersion": RESOURCE_CLAIM_TEMPLATE.api_version,
        "kind": RESOURCE_CLAIM_TEMPLATE.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"spec": {"devices": {"requests": [{"name": "device", "exactly": exactly}]}}},
    }
