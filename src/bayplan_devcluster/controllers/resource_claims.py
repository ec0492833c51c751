"""Creates claims from templates for pods, and releases claims that pods no longer use.

Mirrors pkg/controller/resourceclaim/controller.go with the features that are on by default, and claims of PodGroups.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import msgspec
from lightkube.models.resource_v1 import ResourceClaimConsumerReference, ResourceClaimStatus

from bayplan.core.api.kinds import POD, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, Kind
from bayplan.core.api.served import Pod, ResourceClaim
from bayplan.core.devices.claims import (
    FINALIZER,
    POD_GROUP_RESOURCE,
    SCHEDULING_GROUP,
    UnusableClaim,
    allocation_of,
    claim_name,
    group_of,
    group_reservation,
    is_made_for,
    is_of_group,
    is_pod_group,
    is_reserved_for,
    reservations,
)
from bayplan.core.devices.extended_claims import extended_claim_name
from bayplan.core.expansion import pods
from bayplan.core.expansion.claims import POD_CLAIM, claim_of_template
from bayplan.core.expansion.owner_references import controller_of
from bayplan.running.client.errors import ApiError
from bayplan_devcluster.controllers.controller import Controller, ControllerContext, Ignored
from bayplan_devcluster.controllers.informers import Informer, key_of, latest

REMEMBERED = 500
"""How many deleted pods are remembered. For other unknown pods, the controller asks the server."""

_POD, _CLAIM, _GROUP = "pod:", "claim:", "group:"


class ResourceClaimController(Controller):
    """Creates the missing claims of pods, and releases claims from pods that no longer use them."""

    name: ClassVar[str] = "resource_claim"
    workers: ClassVar[int] = 10

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._gone: deque[str] = deque(maxlen=REMEMBERED)
        self._templates = self.watch(RESOURCE_CLAIM_TEMPLATE)
        self._claims = self.watch(RESOURCE_CLAIM)
        self._pods = self.watch(POD)
        self._by_owner = self._claims.index(_owners)
        self._by_claim = self._pods.index(known_claims)
        self._by_template = self._pods.index(template_keys)
        self._groups: Informer | None = None
        self._users = {("", "pods"): self._pods}
        if context.pod_groups is not None:
            self._groups = self._users[SCHEDULING_GROUP, POD_GROUP_RESOURCE] = self.watch(context.pod_groups)
            self._members = self._pods.index(group_key)
            self._groups_by_claim = self._groups.index(known_claims)
            self._groups_by_template = self._groups.index(template_keys)
        self._pods.listen(self._pod_changed)
        self._claims.listen(self._claim_changed)
        self._templates.listen(self._template_changed)
        if self._groups is not None:
            self._groups.listen(self._group_changed)

    async def sync(self, key: str) -> None:
        """Sync one pod, one PodGroup or one claim."""
        if key.startswith(_POD):
            await self._sync_pod(key.removeprefix(_POD))
        elif key.startswith(_GROUP):
            await self._sync_group(key.removeprefix(_GROUP))
        else:
            await self._sync_claim(key.removeprefix(_CLAIM))

    # Pods

    async def _sync_pod(self, key: str) -> None:
        pod: Pod | None = self._pods.get(key)
        if pod is None or not self._needs_work(pod):
            return
        if self._group_name(pod) and self._group(pod) is None:
            return  # the pod is queued again once its group exists
        if await self._make_all(self._pods, pod):
            return
        for claim, consumer in self._unreserved(pod):
            # The pod was bound by another client that doesn't reserve claims.
            status = msgspec.structs.replace(_status(claim), reservedFor=[*reservations(claim), consumer])
            await self.write_status(self._claims, claim, status)

    async def _sync_group(self, key: str) -> None:
        assert self._groups is not None
        group = self._groups.get(key)
        if group is not None and self._group_needs_work(group):
            await self._make_all(self._groups, group)

    async def _make_all(self, informer: Informer, owner: Any) -> bool:
        """Make the missing claims of a pod or a PodGroup. Returns whether its next sync has to do the rest."""
        made = {}
        for reference in owner.spec.resourceClaims or ():
            try:
                name = await self._make(informer.kind, owner, reference)
            except _NoTemplate as problem:
                self._report(informer.kind, owner, reference, str(problem))
                return True  # it is queued again once the template exists
            except ApiError as error:
                self._report(informer.kind, owner, reference, f"create ResourceClaim : {error.message}")
                raise
            if name is not None:
                made[reference.name] = name
        if made:
            await self._tell(informer, owner, made)  # the change queues it again
        return bool(made)

    def _group_name(self, pod: Any) -> str:
        """The name of the PodGroup whose claims a pod may use, "" if there is none. PodGroups are in no other group."""
        return group_of(pod) if self._groups is not None and hasattr(pod.spec, "schedulingGroup") else ""

    def _group(self, pod: Any) -> Any:
        """The PodGroup whose claims a pod may use; None if there is none."""
        name = self._group_name(pod)
        return self._groups.get(f"{pod.metadata.namespace}/{name}") if name and self._groups is not None else None

    def _owner_of(self, owner: Any, reference: Any) -> Any:
        """Whose claim a reference of a pod or a PodGroup is to: the pod's PodGroup, or the object itself."""
        group = self._group(owner)
        return group if group is not None and is_of_group(reference, group.spec.resourceClaims or ()) else owner

    def _group_needs_work(self, group: Any) -> bool:
        """Whether a PodGroup lacks a claim from a template."""
        return not group.metadata.deletionTimestamp and any(
            self._is_missing(group, reference) for reference in group.spec.resourceClaims or ()
        )

    def _needs_work(self, pod: Pod) -> bool:
        """Whether a pod lacks a claim from a template, or a reservation that no other component writes.

        Unlike upstream, a finished pod gets no new claim after the deletion of its old one.
        """
        if pods.is_terminating(pod) or is_done(pod):
            return False
        return any(self._is_missing(pod, one) for one in pod.spec.resourceClaims or ()) or bool(self._unreserved(pod))

    def _is_missing(self, pod: Any, reference: Any) -> bool:
        """Whether a claim must be created. A claim of another owner blocks the name until it is gone."""
        try:
            name = claim_name(pod, reference)
        except UnusableClaim:
            return True
        generated = reference.resourceClaimTemplateName is not None
        missing = generated and name is not None and self._claims.get(f"{pod.metadata.namespace}/{name}") is None
        return missing and self._owner_of(pod, reference) is pod  # the claims of its group are not the pod's to make

    def _unreserved(self, pod: Pod) -> list[tuple[ResourceClaim, ResourceClaimConsumerReference]]:
        """The allocated claims of a bound pod that still need a reservation, each with the consumer to add."""
        if not pod.spec.nodeName:
            return []  # the scheduler reserves them
        found, uid, group = [], pod.metadata.uid, self._group_name(pod)
        for reference in pod.spec.resourceClaims or ():
            with contextlib.suppress(UnusableClaim):
                claim = self._claims.get(f"{pod.metadata.namespace}/{claim_name(pod, reference)}")
                if claim is not None and (reference.resourceClaimName is not None or is_made_for(claim, uid, group)):
                    found.append((claim, self._consumer(pod, reference)))
        return [
            (claim, consumer)
            for claim, consumer in found
            if allocation_of(claim) is not None and not is_reserved_for(claim, uid, group)
        ]

    def _consumer(self, pod: Pod, reference: Any) -> ResourceClaimConsumerReference:
        owner = self._owner_of(pod, reference).metadata
        if owner is not pod.metadata:
            return group_reservation(owner.name, owner.uid)
        return ResourceClaimConsumerReference(resource="pods", name=owner.name, uid=owner.uid)

    def _report(self, kind: Kind, owner: Any, reference: Any, problem: str) -> None:
        what = f"{kind.kind}ResourceClaim {reference.name}"
        self.recorder.warning(kind, owner, "FailedResourceClaimCreation", f"{what}: {problem}")

    async def _make(self, kind: Kind, pod: Any, reference: Any) -> str | None:
        """Create the claim for a reference of a pod or a PodGroup if it is missing. The claims of a pod's group aren't
        made for the pod. Returns the claim's name if the status lacks it.
        """
        if reference.resourceClaimTemplateName is None:
            return None
        try:
            name = claim_name(pod, reference)
        except UnusableClaim:
            pass
        else:
            claim: ResourceClaim | None = self._claims.get(f"{pod.metadata.namespace}/{name}")
            if name is None or (claim is not None and is_made_for(claim, pod.metadata.uid, self._group_name(pod))):
                return None
        # The claim may exist although the status lacks it.
        owner = self._owner_of(pod, reference)
        of_owner = self._by_owner.get(owner.metadata.uid)
        named = (one for one in of_owner if (one.metadata.annotations or {}).get(POD_CLAIM) == reference.name)
        claim = next(named, None)
        if claim is None and owner is not pod:
            return None  # the pod is queued again once its group has the claim
        if claim is None:
            claim = await self._create(kind, pod, reference)
        return str(claim.metadata.name)

    async def _create(self, kind: Kind, pod: Any, reference: Any) -> ResourceClaim:
        namespace, template_name = pod.metadata.namespace, reference.resourceClaimTemplateName
        template: Any = self._templates.get(f"{namespace}/{template_name}")
        if template is None:
            missing = f'resourceclaimtemplate.resource.k8s.io "{template_name}" not found'
            raise _NoTemplate(f'resource claim template "{template_name}": {missing}')
        made = claim_of_template(template, kind, pod, reference.name)
        claim: ResourceClaim = await self.client.create(RESOURCE_CLAIM, made, namespace)
        await self._claims.observe([claim])
        return claim

    async def _tell(self, informer: Informer, pod: Any, made: dict[str, str]) -> None:
        """Write the names of the created claims into the status of a pod or a PodGroup."""
        statuses = [{"name": name, "resourceClaimName": claim} for name, claim in made.items()]
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": {"resourceClaimStatuses": statuses}}
        await self.patch_status(informer, pod, patch)

    # Claims

    async def _sync_claim(self, key: str) -> None:
        claim: ResourceClaim | None = self._claims.get(key)
        if claim is None:
            return
        remaining = [one for one in reservations(claim) if await self._is_valid(claim, one)]
        if len(remaining) < len(reservations(claim)):
            # Deallocate a claim after its last consumer; a claim that was never used stays allocated.
            kept = _status(claim).allocation if remaining or not _is_protected(claim) else None
            status = msgspec.structs.replace(_status(claim), reservedFor=remaining or None, allocation=kept)
            claim = await self.write_status(self._claims, claim, status)
            if _is_protected(claim) and allocation_of(claim) is None:
                claim = await self._unprotect(claim)
        elif _is_protected(claim) and claim.metadata.deletionTimestamp is not None and not remaining:
            if allocation_of(claim) is not None:
                status = msgspec.structs.replace(_status(claim), allocation=None)
                claim = await self.write_status(self._claims, claim, status)
            claim = await self._unprotect(claim)
        if not remaining:
            await self._delete_if_unused(claim)

    async def _is_valid(self, claim: ResourceClaim, consumer: ResourceClaimConsumerReference) -> bool:
        """Whether a consumer may still use the claim. Consumers that are neither pods nor PodGroups always count."""
        users = self._users.get((consumer.apiGroup or "", consumer.resource))
        if users is None:
            return True
        if consumer.uid in self._gone:
            return False
        namespace = claim.metadata.namespace
        user: Any = users.get(f"{namespace}/{consumer.name}")
        if user is not None and user.metadata.uid == consumer.uid:
            return users is not self._pods or not is_done(user)
        # The view may not have the user yet, or only an older one of the same name.
        user = await self.ask_for(users.kind, consumer.name, namespace)
        return user is not None and bool(user.metadata.uid == consumer.uid)

    async def _delete_if_unused(self, claim: ResourceClaim) -> None:
        """Delete a claim that was created for a finished pod. For a deleted pod, the garbage collector does it."""
        owner, metadata = controller_of(claim), claim.metadata
        if metadata.deletionTimestamp or owner is None or (owner.apiVersion, owner.kind) != ("v1", POD.kind):
            return
        pod: Pod | None = self._pods.get(f"{metadata.namespace}/{owner.name}")
        if pod is None or (pod.metadata.uid == owner.uid and not is_done(pod)):
            return
        with Ignored(404):  # deleted already
            await self.client.delete(RESOURCE_CLAIM, metadata.name, metadata.namespace, uid=metadata.uid)

    async def _unprotect(self, claim: ResourceClaim) -> ResourceClaim:
        left = [one for one in claim.metadata.finalizers or () if one != FINALIZER]
        metadata = msgspec.structs.replace(claim.metadata, finalizers=left or None)
        unprotected = msgspec.structs.replace(claim, metadata=metadata)
        written: ResourceClaim = await self.client.update(RESOURCE_CLAIM, unprotected)
        await self._claims.observe([written])
        return written

    # Changes

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = latest(old, new)
        extended = extended_claim_name(pod)
        if not pod.spec.resourceClaims and extended is None:
            return
        if new is None:
            self._gone.append(pod.metadata.uid)
        if new is None or is_done(pod):
            for key in known_claims(pod):
                self.queue.add(f"{_CLAIM}{key}")
            if extended is not None:
                self.queue.add(f"{_CLAIM}{pod.metadata.namespace}/{extended}")
        if new is not None:
            self._consider(pod)

    def _consider(self, pod: Pod) -> None:
        if self._needs_work(pod):
            self.queue.add(f"{_POD}{key_of(pod)}")

    def _claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        claim = latest(old, new)
        if new is not None:
            self.queue.add(f"{_CLAIM}{key_of(claim)}")
        for pod in self._by_claim.get(key_of(claim)):
            self._consider(pod)
        if self._groups is not None:
            for group in self._groups_by_claim.get(key_of(claim)):
                self._consider_group(group)

    def _template_changed(self, old: Any, new: Any) -> None:
        if new is not None:
            for pod in self._by_template.get(key_of(new)):
                self._consider(pod)
            for group in self._groups_by_template.get(key_of(new)) if self._groups is not None else ():
                self._consider_group(group)

    def _group_changed(self, old: Any, new: Any) -> None:
        if new is None:
            self._gone.append(old.metadata.uid)
            for key in known_claims(old):
                self.queue.add(f"{_CLAIM}{key}")
        else:
            self._consider_group(new)

    def _consider_group(self, group: Any) -> None:
        """Queue a PodGroup, and the pods that may now have its claims."""
        if self._group_needs_work(group):
            self.queue.add(f"{_GROUP}{key_of(group)}")
        for pod in self._members.get(key_of(group)):
            self._consider(pod)


class _NoTemplate(Exception):
    """The template of a claim doesn't exist; the message names it."""


def _owners(claim: ResourceClaim) -> Iterable[str]:
    owner = controller_of(claim)
    made = owner is not None and ((owner.apiVersion, owner.kind) == ("v1", POD.kind) or is_pod_group(owner))
    return (owner.uid,) if owner is not None and made else ()


def _status(claim: ResourceClaim) -> ResourceClaimStatus:
    return claim.status or ResourceClaimStatus()


def _is_protected(claim: ResourceClaim) -> bool:
    return FINALIZER in (claim.metadata.finalizers or ())


def group_key(pod: Pod) -> Iterator[str]:
    """The key of the PodGroup that a pod is in."""
    name = group_of(pod)
    if name:
        yield f"{pod.metadata.namespace}/{name}"


def known_claims(pod: Any) -> Iterator[str]:
    """Keys of the claims that a pod or a PodGroup refers to and that exist, except the claim for extended resources."""
    for reference in pod.spec.resourceClaims or ():
        try:
            name = claim_name(pod, reference)
        except UnusableClaim:
            continue
        if name is not None:
            yield f"{pod.metadata.namespace}/{name}"


def template_keys(pod: Any) -> Iterator[str]:
    """The keys of the templates of the claims of a pod or a PodGroup."""
    for reference in pod.spec.resourceClaims or ():
        if reference.resourceClaimTemplateName is not None:
            yield f"{pod.metadata.namespace}/{reference.resourceClaimTemplateName}"


def is_done(pod: Pod) -> bool:
    """Whether no container of the pod runs or will run."""
    return pods.is_finished(pod) or (pods.is_terminating(pod) and not pod.spec.nodeName)
