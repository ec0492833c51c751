"""Evicts pods whose allocated devices have NoExecute taints that their claims don't tolerate.

Mirrors pkg/controller/devicetainteviction/device_taint_eviction.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any, ClassVar, NamedTuple

from lightkube.models.resource_v1 import DeviceTaint, ResourceSlice
from msgspec.structs import replace

from bayplan.core.api.kinds import POD, RESOURCE_CLAIM, RESOURCE_SLICE
from bayplan.core.api.served import DeviceTaintRule, Pod, ResourceClaim
from bayplan.core.api.times import rfc3339, whole_seconds
from bayplan.core.api.tolerations import NO_EXECUTE
from bayplan.core.devices.claims import (
    POD_GROUP_RESOURCE,
    SCHEDULING_GROUP,
    UnusableClaim,
    allocation_of,
    claim_name,
    group_of,
    is_made_for,
    is_reserved_for,
    reservations,
    results_of,
)
from bayplan.core.devices.device_taints import end_of_toleration, evicting_rules, evicting_taints
from bayplan.core.devices.slices import DeviceId, PoolId, TaintRule
from bayplan.core.expansion import pods
from bayplan_devcluster.controllers.controller import Controller, ControllerContext
from bayplan_devcluster.controllers.informers import Informer, key_of, latest
from bayplan_devcluster.controllers.pod_gc import delete_with_condition
from bayplan_devcluster.controllers.resource_claims import group_key

EVENT = "DeviceTaintManagerEviction"
REASON = "DeletionByDeviceTaintManager"
CONDITION = "EvictionInProgress"
STATUS_PERIOD = 10.0
"""Seconds between two updates of the status of a rule."""
_POD, _RULE = "pod:", "rule:"


class PlannedEviction(NamedTuple):
    """When a pod is evicted, and the names of the rules among the causes."""

    when: datetime
    rules: frozenset[str]


class DeviceTaintEvictionController(Controller):
    """Deletes pods at once, or when the tolerations of their claims expire, and says so in the status of rules."""

    name: ClassVar[str] = "device-taint-eviction"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._planned: dict[str, PlannedEviction] = {}
        """uid -> the eviction of a pod that is to come."""
        self._evicted: Counter[str] = Counter()
        """The uid of a rule -> how many pods were evicted because of it."""
        self._seen: dict[str, datetime] = {}
        """The name of a slice -> since when its taints without a time are known."""
        self._slices = self.watch(RESOURCE_SLICE)
        self._by_pool = self._slices.index(_pool_of)
        self._claims = self.watch(RESOURCE_CLAIM)
        self._by_device = self._claims.index(_devices_of)
        self._pods = self.watch(POD)
        self._of_groups = context.pod_groups is not None
        self._by_group = self._pods.index(group_key)
        kind = context.taint_rules
        self._rules: Informer | None = None if kind is None else self.watch(kind)
        self._pods.listen(self._pod_changed)
        self._claims.listen(self._claim_changed)
        self._slices.listen(self._slice_changed)
        if self._rules is not None:
            self._rules.listen(self._rule_changed)

    async def sync(self, key: str) -> None:
        """Sync one pod, or the status of one rule."""
        if key.startswith(_POD):
            await self._sync_pod(key.removeprefix(_POD))
        else:
            await self._sync_rule(key.removeprefix(_RULE))

    # Pods

    async def _sync_pod(self, key: str) -> None:
        pod: Pod | None = self._pods.get(key)
        if pod is None or pods.is_terminating(pod):
            return
        uid, planned = pod.metadata.uid, self._eviction_of(pod)
        if planned is None:
            if self._planned.pop(uid, None) is not None:
                self.recorder.normal(POD, pod, EVENT, "Cancelling deletion")
            return
        self._planned[uid] = planned
        for name in planned.rules:
            self.queue.add_after(_RULE + name, STATUS_PERIOD)
        left = (planned.when - self.clock.now()).total_seconds()
        if left > 0:
            self.queue.add_after(_POD + key, left)
            return
        self.recorder.normal(POD, pod, EVENT, "Marking for deletion")
        message = "Device Taint manager: deleting due to NoExecute taint"
        await delete_with_condition(self.client, pod, REASON, message, whole_seconds(self.clock.now()))
        await self._pods.observe_deletions([pod])
        for name in planned.rules:
            rule: DeviceTaintRule | None = None if self._rules is None else self._rules.get(name)
            if rule is not None:
                self._evicted[rule.metadata.uid] += 1

    def _eviction_of(self, pod: Pod, rules: Iterable[DeviceTaintRule] | None = None) -> PlannedEviction | None:
        """The eviction of a pod; None if its claims tolerate all taints. `rules`: those that count, by default all."""
        if not pod.spec.nodeName:
            return None
        counted = self._evicting_rules() if rules is None else list(map(_as_evicting, rules))
        moments, causes = [], set()
        for claim in self._claims_of(pod):
            for result in results_of(allocation_of(claim)):
                slices: list[ResourceSlice] = self._by_pool.get(PoolId(result.driver, result.pool))
                for taint, rule in evicting_taints(result, slices, counted, self._timed):
                    when = end_of_toleration(result, taint)
                    if when is not None:
                        moments.append(when)
                        causes |= {rule} - {""}
        return PlannedEviction(min(moments), frozenset(causes)) if moments else None

    def _claims_of(self, pod: Pod) -> Iterator[ResourceClaim]:
        """The claims that are reserved for a pod."""
        uid, group = pod.metadata.uid, group_of(pod) if self._of_groups else ""
        for reference in pod.spec.resourceClaims or ():
            with suppress(UnusableClaim):
                claim = self._claims.get(f"{pod.metadata.namespace}/{claim_name(pod, reference)}")
                own = reference.resourceClaimName is not None or (claim is not None and is_made_for(claim, uid, group))
                if claim is not None and own and is_reserved_for(claim, uid, group):
                    yield claim

    def _timed(self, taint: DeviceTaint, parent: ResourceSlice) -> DeviceTaint:
        """A taint of a slice. kube-apiserver sets the time of one without; here, it is when the taint was seen."""
        if taint.timeAdded is not None:
            return taint
        seen = self._seen.setdefault(key_of(parent), self.clock.now())
        return replace(taint, timeAdded=seen)

    def _evicting_rules(self) -> list[TaintRule]:
        return evicting_rules(() if self._rules is None else self._rules.objects.values())

    # The status of rules

    async def _sync_rule(self, name: str) -> None:
        rule: DeviceTaintRule | None = None if self._rules is None else self._rules.get(name)
        if self._rules is None or rule is None:
            return
        conditions = (rule.status.conditions if rule.status else None) or ()
        old = next((each for each in conditions if each.type == CONDITION), None)
        now, generation = whole_seconds(self.clock.now()), rule.metadata.generation
        if old is not None and old.observedGeneration == generation:
            since = (now - old.lastTransitionTime).total_seconds()
            if since < STATUS_PERIOD:
                self.queue.add_after(_RULE + name, STATUS_PERIOD - since)
                return
        status, reason, message = self._condition_of(rule)
        if old is None or (old.status, old.reason, old.message, old.observedGeneration) != (
            status,
            reason,
            message,
            generation,
        ):
            condition = {
                "type": CONDITION,
                "status": status,
                "reason": reason,
                "message": message,
                "observedGeneration": generation,
                "lastTransitionTime": rfc3339(now),
            }
            await self.patch_status(self._rules, rule, {"status": {"conditions": [condition]}})

    def _condition_of(self, rule: DeviceTaintRule) -> tuple[str, str, str]:
        """Status, reason and message of the condition of a rule."""
        effect, evicted = rule.spec.taint.effect, self._evicted[rule.metadata.uid]
        status, reason, message = "False", "OtherEffect", "Eviction only happens for the NoExecute effect."
        if effect == NO_EXECUTE:
            number, namespaces = self._pending(rule)
            reason, message = "Completed" if evicted else "NotStarted", ""
            if number:
                needs = "1 pod needs" if number == 1 else f"{number} pods need"
                status, reason = "True", "PodsPendingEviction"
                message = f"{needs} to be evicted in {_in_namespaces(namespaces)}."
        elif effect == "None":
            reason, message = "NoEffect", self._would_evict(rule)
        if evicted:
            done = f"{_counted(evicted, 'pod')} evicted since starting the controller."
            message = f"{message} {done}" if message else done
        return status, reason, message

    def _pending(self, rule: DeviceTaintRule) -> tuple[int, int]:
        """How many pods a rule evicts, or would evict, that are still there, and in how many namespaces they are."""
        if rule.spec.deviceSelector is None:
            return 0, 0
        found = [
            pod.metadata.namespace
            for pod in self._pods.objects.values()
            if not pods.is_terminating(pod)
            and (planned := self._eviction_of(pod, [rule])) is not None
            and planned.rules
        ]
        return len(found), len(set(found))

    def _would_evict(self, rule: DeviceTaintRule) -> str:
        """What a rule without an effect would do."""
        selects = TaintRule.of(rule).matches if rule.spec.deviceSelector is not None else lambda _device: False
        published = sum(
            selects(DeviceId(each.spec.driver, each.spec.pool.name, device.name))
            for each in self._slices.objects.values()
            if (each.spec.pool.generation or 0)
            == max(other.spec.pool.generation or 0 for other in self._by_pool.get(*_pool_of(each)))
            for device in each.spec.devices or ()
        )
        allocated = sum(
            selects(DeviceId(result.driver, result.pool, result.device))
            for claim in self._claims.objects.values()
            for result in results_of(allocation_of(claim))
        )
        number, namespaces = self._pending(rule)
        return (
            f"{_counted(published, 'published device')} selected. {_counted(allocated, 'allocated device')} selected. "
            f"{_counted(number, 'pod')} would be evicted in {_in_namespaces(namespaces)} if the effect was NoExecute. "
            "This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
        )

    # What the watches report

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            self._planned.pop(latest(old, new).metadata.uid, None)
        elif new.spec.resourceClaims:
            self.queue.add(_POD + key_of(new))

    def _claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        for claim in filter(None, (old, new)):
            self._enqueue_users(claim)

    def _enqueue_users(self, claim: ResourceClaim) -> None:
        for consumer in reservations(claim):
            if not consumer.apiGroup and consumer.resource == "pods":
                self.queue.add(f"{_POD}{claim.metadata.namespace}/{consumer.name}")
            elif self._of_groups and (consumer.apiGroup, consumer.resource) == (SCHEDULING_GROUP, POD_GROUP_RESOURCE):
                for pod in self._by_group.get(f"{claim.metadata.namespace}/{consumer.name}"):
                    self.queue.add(_POD + key_of(pod))

    def _slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        if new is None or old is None or _tainted(old) != _tainted(new):
            self._seen.pop(key_of(latest(old, new)), None)
        for each in filter(None, (old, new)):
            for claim in {
                key_of(claim): claim
                for name in _tainted(each)
                for claim in self._by_device.get(DeviceId(each.spec.driver, each.spec.pool.name, name))
            }.values():
                self._enqueue_users(claim)

    def _rule_changed(self, old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> None:
        rule: DeviceTaintRule = latest(old, new)
        if new is None:
            self._evicted.pop(rule.metadata.uid, None)
        elif old is None or old.spec != new.spec:
            self.queue.add(_RULE + rule.metadata.name)
        if old is None or new is None or old.spec != new.spec:
            for claim in self._claims.objects.values():
                self._enqueue_users(claim)


def _as_evicting(rule: DeviceTaintRule) -> TaintRule:
    """A rule as if its effect were NoExecute."""
    read = TaintRule.of(rule)
    return read._replace(taint=replace(read.taint, effect=NO_EXECUTE))


def _pool_of(each: ResourceSlice) -> tuple[PoolId]:
    return (PoolId(each.spec.driver, each.spec.pool.name),)


def _devices_of(claim: ResourceClaim) -> Iterator[DeviceId]:
    for result in results_of(allocation_of(claim)):
        yield DeviceId(result.driver, result.pool, result.device)


def _tainted(each: ResourceSlice) -> dict[str, list[Any]]:
    """The names of the devices that have NoExecute taints, with these taints."""
    devices = ((device.name, device.taints or ()) for device in each.spec.devices or ())
    found = ((name, [taint for taint in taints if taint.effect == NO_EXECUTE]) for name, taints in devices)
    return {name: taints for name, taints in found if taints}


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _in_namespaces(number: int) -> str:
    return "1 namespace" if number == 1 else f"{number} different namespaces"
