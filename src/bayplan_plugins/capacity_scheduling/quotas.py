"""ElasticQuotas: what a namespace is guaranteed (`min`), and the most that it may use (`max`).

A namespace may use more than its min as long as all namespaces together use no more than the sum of their mins: it
borrows. A resource that no min names isn't shared out, and a resource that a max doesn't name isn't limited by it.
Mirrors apis/scheduling/v1alpha1/types.go and pkg/capacityscheduling/elasticquota.go.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from bayplan.plugin import CustomObject, InvalidQuantity, ObjectStore, amount_text, amounts_of

Amounts = Mapping[str, int]
"""Millicores of cpu, and whole units of other resources, by name."""

log = logging.getLogger("bayplan.capacityscheduling")


class ElasticQuotaSpec(msgspec.Struct):
    """The spec of an ElasticQuota, as it is written."""

    min: dict[str, str | int | float] | None = None
    max: dict[str, str | int | float] | None = None


@dataclass(frozen=True, slots=True)
class Quota:
    """A valid quota of a namespace."""

    namespace: str
    min: Amounts = field(default_factory=dict)
    max: Amounts = field(default_factory=dict)

    def over_max(self, used: Amounts) -> bool:
        """Return whether a use is more than the quota allows."""
        return any(used.get(resource, 0) > most for resource, most in self.max.items())


class ElasticQuotas:
    """The quota of each namespace. Of several in a namespace, the oldest one counts.

    `shared`: the resources that are shared out, because a min names them. `total`: the sum of all mins. `version`
    increases with every change. What is wrong with a quota is logged, once for each version of it.
    """

    def __init__(self, objects: ObjectStore) -> None:
        self._by_namespace: dict[str, dict[str, CustomObject]] = {}
        self._quotas: dict[str, Quota] = {}
        self._said: set[tuple[str, str]] = set()
        self.problems: dict[str, str] = {}
        """By `namespace/name`: what is wrong with a quota."""
        self.shared: frozenset[str] = frozenset()
        self.total: Amounts = {}
        self.version = 0
        objects.listen(self._changed)

    def of(self, namespace: str) -> Quota | None:
        """Return the quota of a namespace; None if it has no valid one."""
        return self._quotas.get(namespace)

    def __iter__(self) -> Iterator[Quota]:
        return iter(self._quotas.values())

    def over_min(self, quota: Quota, used: Amounts) -> bool:
        """Return whether a use is more than the quota guarantees: then the namespace borrows."""
        return any(used.get(resource, 0) > quota.min.get(resource, 0) for resource in self.shared)

    def over_total(self, used: Amounts) -> bool:
        """Return whether a use of all namespaces together is more than is shared out."""
        return any(used.get(resource, 0) > self.total[resource] for resource in self.shared)

    def _changed(self, old: CustomObject | None, new: CustomObject | None) -> None:
        for obj in (old, new):
            if obj is not None:
                namespace, key = key_of(obj)
                self._by_namespace.setdefault(namespace, {}).pop(key, None)
                self.problems.pop(key, None)
        if new is not None:
            namespace, key = key_of(new)
            self._by_namespace[namespace][key] = new
        if old is not None and new is not None and old.get("spec") == new.get("spec"):
            return
        for namespace in {key_of(obj)[0] for obj in (old, new) if obj is not None}:
            self._choose(namespace)
        self.version += 1
        self.shared = frozenset(resource for quota in self for resource in quota.min)
        self.total = {resource: sum(quota.min.get(resource, 0) for quota in self) for resource in self.shared}

    def _choose(self, namespace: str) -> None:
        """Find the quota of a namespace: the oldest valid one."""
        self._quotas.pop(namespace, None)
        candidates = sorted(self._by_namespace[namespace].items(), key=lambda each: (_created(each[1]), each[0]))
        chosen = ""
        for key, obj in candidates:
            quota = read(obj)
            if isinstance(quota, str):
                self._say(key, f"{quota}; it doesn't count")
            elif chosen:
                self._say(key, f"namespace {namespace} has several, and {chosen} is older; this one doesn't count")
            else:
                chosen, self._quotas[namespace] = key, quota
                above = [
                    f"min of {resource} is {amount_text(resource, least)}, which is above its max, "
                    f"{amount_text(resource, quota.max[resource])}"
                    for resource, least in quota.min.items()
                    if resource in quota.max and least > quota.max[resource]
                ]
                if above:
                    self._say(key, f"{'; '.join(above)}: its pods never get so much")

    def _say(self, key: str, problem: str) -> None:
        self.problems[key] = problem
        if (key, problem) not in self._said:
            self._said.add((key, problem))
            log.warning("ElasticQuota %s: %s", key, problem)


def read(obj: CustomObject) -> Quota | str:
    """Return the quota that an object describes, or what is wrong with it."""
    try:
        spec = msgspec.convert(obj.get("spec") or {}, ElasticQuotaSpec)
        least, most = amounts_of(spec.min or {}), amounts_of(spec.max or {})
    except (msgspec.ValidationError, InvalidQuantity) as error:
        return f"spec is invalid: {error}"
    for name, amounts in (("min", least), ("max", most)):
        for resource, amount in amounts.items():
            if amount < 0:
                return f"spec.{name}.{resource} is {amount_text(resource, amount)}, expected 0 or more"
    return Quota(key_of(obj)[0], least, most)


def key_of(obj: Mapping[str, Any]) -> tuple[str, str]:
    """Return the namespace of an object, and `namespace/name`."""
    metadata = obj.get("metadata")
    found = metadata if isinstance(metadata, Mapping) else {}
    namespace = str(found.get("namespace") or "default")
    return namespace, f"{namespace}/{found.get('name')}"


def _created(obj: CustomObject) -> datetime:
    try:
        created = obj.metadata.creationTimestamp
    except msgspec.ValidationError:
        created = None
    return datetime.max.replace(tzinfo=UTC) if created is None else created.replace(tzinfo=created.tzinfo or UTC)
