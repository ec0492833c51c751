"""Keeps the status of ElasticQuotas up to date: what the running pods of a namespace use.

Mirrors pkg/controllers/elasticquota_controller.go of scheduler-plugins. It runs in the plugin's `background` task,
beside attempts, and affects no decision.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

from bayplan.client import kind_of
from bayplan.plugin import ELASTIC_QUOTAS, Handle, InvalidQuantity, ObjectStore, PodInfo, amount_text, amounts_of
from bayplan_plugins.capacity_scheduling.quotas import key_of
from bayplan_plugins.status_writer import StatusWriter

log = logging.getLogger("bayplan.capacityscheduling")


class QuotaStatuses(StatusWriter):
    """Updates the status of ElasticQuotas in namespaces whose pods or quotas have changed."""

    def __init__(self, handle: Handle, pods: ObjectStore, quotas: ObjectStore) -> None:
        super().__init__(handle, log)
        self._kind = kind_of(ELASTIC_QUOTAS)
        self._pods, self._quotas = pods, quotas
        self._running: dict[str, dict[str, PodInfo]] = {}
        """By namespace: the running pods by UID."""
        pods.listen(self._pod_changed)
        quotas.listen(self._quota_changed)

    async def catch_up(self) -> list[str]:
        """Update the statuses in all changed namespaces. Returns those that failed."""
        due, failed = self.take(), []
        for key, quota in list(self._quotas.items()):
            namespace, name = key_of(quota)[0], key.partition("/")[2]
            if namespace in due and not await self.written(f"ElasticQuota {key}", self._update(namespace, name, quota)):
                failed.append(namespace)
        return failed

    async def _update(self, namespace: str, name: str, quota: Any) -> None:
        client = self._handle.client
        if client is None:
            return
        used = self.used(namespace, quota)
        if used != _known(quota):
            shown = {resource: amount_text(resource, amount) for resource, amount in used.items()}
            changes = {"status": {"used": shown}}
            await client.patch(self._kind, name, changes, namespace, subresource="status")

    def used(self, namespace: str, quota: Any) -> dict[str, int]:
        """Return what the running pods of a namespace use, with each resource that the quota names."""
        spec = quota.get("spec")
        named = [name for bound in ("min", "max") for name in ((spec or {}).get(bound) or {})] if spec else []
        used = Counter(dict.fromkeys(named, 0))
        for pod in self._running.get(namespace, {}).values():
            used.update(pod.requested)
        return dict(used)

    def _pod_changed(self, old: PodInfo | None, new: PodInfo | None) -> None:
        if old is not None:
            pods = self._running.get(old.namespace, {})
            if pods.pop(old.uid, None) is not None:
                self.note(old.namespace)
                if not pods:
                    del self._running[old.namespace]
        if new is not None and new.phase == "Running":
            self._running.setdefault(new.namespace, {})[new.uid] = new
            self.note(new.namespace)

    def _quota_changed(self, old: Any, new: Any) -> None:
        if new is not None:
            self.note(key_of(new)[0])


def _known(quota: Any) -> dict[str, int] | None:
    """Return the amounts that the status has; None if there are none, or if they are malformed."""
    status = quota.get("status")
    used = status.get("used") if isinstance(status, dict) else None
    try:
        return amounts_of(used) if isinstance(used, dict) else None
    except InvalidQuantity:
        return None
