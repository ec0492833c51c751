"""The events that can make a rejected pod schedulable. Mirrors EventsToRegister of dynamicresources.go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from lightkube.models.resource_v1 import DeviceTaintRule, ResourceClaim, ResourceClaimStatus

from bayplan.core.api.kinds import DEVICE_CLASS, DEVICE_TAINT_RULE, RESOURCE_CLAIM, RESOURCE_SLICE
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.devices.claims import UnusableClaim, allocation_of, claim_names, key_of, uid_of
from bayplan.core.framework.events import NODE, POD, Action, ClusterEvent, EventHint, Hint, Topics
from bayplan.core.framework.hints import OWN_UPDATE
from bayplan.core.plugins.dynamic_resources.pod_claims import claims_of, has_claims

_NODE_ACTIONS = Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE


def hints(claims: Mapping[str, ResourceClaim], *, taint_rules: bool, of_groups: bool = False) -> Iterable[EventHint]:
    """The events with their hints. `claims` by `namespace/name`. `taint_rules`: whether DeviceTaintRules count.
    `of_groups`: whether claims of PodGroups do.
    """
    yield EventHint(ClusterEvent(NODE, _NODE_ACTIONS))
    claim_change = ClusterEvent(RESOURCE_CLAIM.kind, Action.ADD | Action.UPDATE)
    yield EventHint(claim_change, partial(after_claim_change, claims, of_groups=of_groups), _OWN_CLAIM)
    pod_change = ClusterEvent(POD, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
    yield EventHint(pod_change, partial(after_pod_change, claims, of_groups=of_groups), OWN_UPDATE)
    yield EventHint(ClusterEvent(DEVICE_CLASS.kind, Action.ADD | Action.UPDATE))
    yield EventHint(ClusterEvent(RESOURCE_SLICE.kind, Action.ADD | Action.UPDATE))
    if taint_rules:  # upstream reports a change of the slices
        rule_change = Action.ADD | Action.UPDATE | Action.DELETE
        yield EventHint(ClusterEvent(DEVICE_TAINT_RULE.kind, rule_change), after_rule_change)


def after_claim_change(
    claims: Mapping[str, ResourceClaim],
    pod: PodInfo,
    old: ResourceClaim | None,
    new: ResourceClaim,
    *,
    of_groups: bool = False,
) -> Hint:
    """Requeue if a claim was deallocated, or if a claim of the pod was added or its status changed."""
    try:
        own = {uid_of(claim) for claim in claims_of(pod, claims, of_groups=of_groups)}
    except UnusableClaim:
        return Hint.SKIP
    if _deallocates(old, new):
        return Hint.QUEUE
    if uid_of(new) not in own:
        return Hint.SKIP
    nothing = ResourceClaimStatus()
    return Hint.SKIP if old is not None and (old.status or nothing) == (new.status or nothing) else Hint.QUEUE


def after_rule_change(pod: PodInfo, old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> Hint:
    """Requeue if a rule taints other devices than before, or in another way."""
    return Hint.SKIP if old is not None and new is not None and old.spec == new.spec else Hint.QUEUE


def after_pod_change(
    claims: Mapping[str, ResourceClaim], pod: PodInfo, old: PodInfo | None, new: PodInfo, *, of_groups: bool = False
) -> Hint:
    """Requeue if the pod itself changed and all its claims exist."""
    if pod.uid != new.uid:
        return Hint.SKIP
    try:
        claims_of(new, claims, of_groups=of_groups)
    except UnusableClaim:
        return Hint.SKIP
    return Hint.QUEUE


def _deallocates(old: ResourceClaim | None, new: ResourceClaim) -> bool:
    return old is not None and allocation_of(old) is not None and allocation_of(new) is None


def _claims_of(pod: PodInfo) -> list[str]:
    """The keys of the claims that a pod refers to; none if one of them is not created yet."""
    try:
        return [f"{pod.namespace}/{name}" for name, _ in claim_names(pod.object)] if has_claims(pod) else []
    except UnusableClaim:
        return []


def _changed_claim(old: ResourceClaim | None, new: ResourceClaim) -> list[str] | None:
    return None if _deallocates(old, new) else [key_of(new)]


_OWN_CLAIM = Topics(_claims_of, _changed_claim)
"""The topics of `after_claim_change`: the devices of a deallocated claim may help any pod."""
