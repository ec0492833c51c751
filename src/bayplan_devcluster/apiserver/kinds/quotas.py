"""Enforces the ResourceQuotas of a namespace, and keeps the usage in their status.

Mirrors apiserver's pkg/admission/plugin/resourcequota and Kubernetes' pkg/controller/resourcequota. Usage changes with
the write that changes it, where kube-controller-manager would follow a moment later.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bayplan.core.api.kinds import PERSISTENT_VOLUME_CLAIM, POD, RESOURCE_QUOTA, SERVICE, Kind
from bayplan.core.api.resource_lists import ZERO, Amounts, add_amounts, read_amounts
from bayplan.core.api.status import forbidden
from bayplan_devcluster.apiserver.kinds.quota_usage import in_scope, missing_resources, usage
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.storage.resource import Resource
from bayplan_devcluster.apiserver.storage.rest_storage import RestStorage
from bayplan_devcluster.apiserver.storage.store import Entry

CHECKED_ON_UPDATE = {SERVICE, PERSISTENT_VOLUME_CLAIM}


@dataclass(slots=True)
class _Tracker:
    """One quota, and its use by the objects of its namespace."""

    spec: Object
    hard: Amounts
    used: Amounts
    objects: dict[str, Amounts] = field(default_factory=dict)
    """By uid: the amounts of the limited resources that an object uses."""

    def usage_of(self, kind: Kind, obj: Object) -> Amounts:
        """The amounts of the limited resources that an object uses."""
        found = usage(kind, obj)
        relevant = {name: amount for name, amount in found.items() if name in self.hard}
        return relevant if relevant and in_scope(kind, self.spec, obj) else {}

    def set(self, uid: str, amounts: Amounts) -> bool:
        """Records the new amounts of an object. Returns whether the total has changed."""
        before = self.objects.pop(uid, {})
        if amounts:
            self.objects[uid] = amounts
        if before == amounts:
            return False
        for name, amount in before.items():
            self.used[name] = self.used[name].minus(amount)
        add_amounts(self.used, amounts)
        return True


class Quotas:
    """The quotas of all namespaces."""

    def __init__(self, storage: RestStorage) -> None:
        self._storage = storage
        self._trackers: dict[str, dict[str, _Tracker]] = {}
        """By namespace and name."""
        storage.reviews.append(self._review)
        storage.on_written.append(self._follow)

    def _review(self, resource: Resource, new: Object, old: Object | None, subresource: str) -> None:
        """Rejects an object that would exceed a quota. Raises 403."""
        kind, metadata = resource.kind, new["metadata"]
        trackers = self._trackers.get(metadata.get("namespace", ""))
        if not trackers or not _is_checked(kind, new, old, subresource):
            return
        for name in sorted(trackers):
            why = _problem(name, trackers[name], kind, new, old)
            if why:
                raise forbidden(kind, metadata.get("name", ""), why)

    def _follow(self, resource: Resource, entry: Entry, *, removed: bool) -> None:
        """Updates the quotas of a namespace after a write or a removal."""
        if resource.kind == RESOURCE_QUOTA:
            self._follow_quota(entry, removed=removed)
        trackers = self._trackers.get(entry.namespace)
        if not trackers:
            return
        stored = self._storage.served.stored(resource.collection) or resource
        obj = {} if removed else entry.load()
        for name, tracker in list(trackers.items()):
            if tracker.set(entry.uid, {} if removed else tracker.usage_of(stored.kind, obj)):
                self._write_status(entry.namespace, name, tracker)

    def _follow_quota(self, entry: Entry, *, removed: bool) -> None:
        trackers = self._trackers.setdefault(entry.namespace, {})
        if removed:
            trackers.pop(entry.name, None)
            if not trackers:
                del self._trackers[entry.namespace]
            return
        quota = entry.load()
        known = trackers.get(entry.name)
        if known is None or known.spec != quota["spec"]:
            known = trackers[entry.name] = self._count(entry.namespace, quota["spec"])
        self._write_status(entry.namespace, entry.name, known)

    def _count(self, namespace: str, spec: Object) -> _Tracker:
        """Counts what all objects of a namespace use of a quota."""
        hard = read_amounts(spec.get("hard"))
        tracker = _Tracker(spec, hard, dict.fromkeys(hard, ZERO))
        for collection, objects in self._storage.store.collections():
            stored = self._storage.served.stored(collection)
            if stored is not None and stored.kind.namespaced:
                for entry in objects.select(namespace):
                    tracker.set(entry.uid, tracker.usage_of(stored.kind, entry.load()))
        return tracker

    def _write_status(self, namespace: str, name: str, tracker: _Tracker) -> None:
        """Writes the usage into the quota's status, unless it is there already."""
        resource = self._storage.served.stored(RESOURCE_QUOTA.resource)
        if resource is None:
            return
        quota = self._storage.load(resource, namespace, name)
        used = {each: str(tracker.used[each]) for each in tracker.hard}
        status = {"hard": tracker.spec["hard"], "used": used} if used else {}
        if quota.get("status", {}) != status:
            quota["status"] = status
            self._storage.write(resource, quota)


def _is_checked(kind: Kind, new: Object, old: Object | None, subresource: str) -> bool:
    """Whether a request may use more of what quotas limit."""
    if old is None:
        return True
    if kind != POD:
        return kind in CHECKED_ON_UPDATE and not subresource
    deadlines = [pod["spec"].get("activeDeadlineSeconds") is not None for pod in (new, old)]
    return subresource == "resize" or (not subresource and deadlines[0] != deadlines[1])


def _problem(name: str, tracker: _Tracker, kind: Kind, new: Object, old: Object | None) -> str:
    """Returns why a quota rejects an object, "" if it does not."""
    wanted = tracker.usage_of(kind, new)
    if kind == POD and in_scope(kind, tracker.spec, new):
        missing = missing_resources(new["spec"], set(tracker.hard))
        if missing:
            return f"failed quota: {name}: {missing}"
    before = tracker.usage_of(kind, old) if old is not None else {}
    more = {one: amount.minus(before.get(one, ZERO)) for one, amount in wanted.items()}
    exceeded = {
        one: amount
        for one, amount in more.items()
        if amount.nanos > 0 and tracker.used[one].nanos + amount.nanos > tracker.hard[one].nanos
    }
    if not exceeded:
        return ""
    shown = [
        ",".join(f"{one}={amounts[one]}" for one in sorted(exceeded))
        for amounts in (exceeded, tracker.used, tracker.hard)
    ]
    return f"exceeded quota: {name}, requested: {shown[0]}, used: {shown[1]}, limited: {shown[2]}"
