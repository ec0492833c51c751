"""Deletes pods that no kubelet deletes. Mirrors pkg/controller/podgc/gc_controller.go."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from lightkube.models.core_v1 import PodCondition

from bayplan.core.api.kinds import NODE, POD
from bayplan.core.api.served import Node, Pod
from bayplan.core.api.times import whole_seconds
from bayplan.core.expansion import pods
from bayplan.running.client.client import Client, PatchType
from bayplan_devcluster.controllers.controller import Controller, ControllerContext, Ignored
from bayplan_devcluster.controllers.informers import key_of
from bayplan_devcluster.controllers.node_lifecycle import node_names

QUARANTINE = 40.0
"""Seconds that a node must be missing before its pods are deleted."""


class PodGarbageCollector(Controller):
    """Deletes the pods of missing nodes, and terminating pods without a node."""

    name: ClassVar[str] = "pod-garbage-collector"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._nodes = self.watch(NODE)
        self._pods = self.watch(POD, self._pod_changed)
        self._by_node = self._pods.index(node_names)
        self._nodes.listen(self._node_changed)

    async def sync(self, key: str) -> None:
        """Sync one pod."""
        pod: Pod | None = self._pods.get(key)
        if pod is None:
            return
        now = whole_seconds(self.clock.now())
        if not pod.spec.nodeName:
            if pods.is_terminating(pod):
                await delete_with_condition(self.client, pod, None, "", now, grace=0)
        elif self._nodes.get(pod.spec.nodeName) is None and await self.ask_for(NODE, pod.spec.nodeName) is None:
            reason, message = "DeletionByPodGC", "PodGC: node no longer exists"
            await delete_with_condition(self.client, pod, reason, message, now, grace=0)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            return
        if new.spec.nodeName and self._nodes.get(new.spec.nodeName) is None:
            self.queue.add_after(key_of(new), QUARANTINE)
        elif not new.spec.nodeName and pods.is_terminating(new):
            self.queue.add(key_of(new))

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if old is not None and new is None:
            for pod in self._by_node.get(old.metadata.name):
                self.queue.add_after(key_of(pod), QUARANTINE)


async def delete_with_condition(
    client: Client, pod: Pod, reason: str | None, message: str, now: datetime, *, grace: int | None = None
) -> None:
    """Delete a pod, after adding a DisruptionTarget condition and, if `grace` is 0, setting the phase Failed."""
    metadata = pod.metadata
    status: dict[str, Any] = {}
    if reason is not None:
        others = [one for one in (pod.status and pod.status.conditions) or () if one.type != "DisruptionTarget"]
        condition = PodCondition(
            type="DisruptionTarget",
            status="True",
            reason=reason,
            message=message,
            lastTransitionTime=now,
            observedGeneration=metadata.generation,
        )
        status["conditions"] = [*others, condition]
    if grace == 0 and not pods.is_finished(pod):
        status["phase"] = "Failed"
    with Ignored(404, 409):  # deleted or replaced already
        if status:
            patch = {"metadata": {"uid": metadata.uid}, "status": status}
            await client.patch(
                POD, metadata.name, patch, metadata.namespace, type=PatchType.MERGE, subresource="status"
            )
        await client.delete(POD, metadata.name, metadata.namespace, uid=metadata.uid, grace_period_seconds=grace)
