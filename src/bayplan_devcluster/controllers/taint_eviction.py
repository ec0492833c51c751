"""Evicts pods that do not tolerate their node's NoExecute taints. Mirrors pkg/controller/tainteviction."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import ClassVar

from lightkube.models.core_v1 import Taint

from bayplan.core.api.kinds import NODE, POD
from bayplan.core.api.served import Node, Pod
from bayplan.core.api.times import whole_seconds
from bayplan.core.api.tolerations import tolerated_seconds
from bayplan.core.expansion import pods
from bayplan_devcluster.controllers.controller import Controller, ControllerContext
from bayplan_devcluster.controllers.informers import key_of, latest
from bayplan_devcluster.controllers.node_lifecycle import node_names
from bayplan_devcluster.controllers.pod_gc import delete_with_condition


class TaintEvictionController(Controller):
    """Deletes pods at once, or when their toleration expires."""

    name: ClassVar[str] = "taint-eviction-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._since: dict[str, datetime] = {}
        """Since when each pod tolerates a NoExecute taint, by uid."""
        self._nodes = self.watch(NODE)
        self._pods = self.watch(POD, self._pod_changed)
        self._by_node = self._pods.index(node_names)
        self._nodes.listen(self._node_changed)

    async def sync(self, key: str) -> None:
        """Sync one pod."""
        pod: Pod | None = self._pods.get(key)
        if pod is None or pods.is_terminating(pod):
            return
        node: Node | None = self._nodes.get(pod.spec.nodeName or "")
        taints = no_execute(node)
        if not taints:
            self._since.pop(pod.metadata.uid, None)
            return
        now = self.clock.now()
        since = self._since.setdefault(pod.metadata.uid, now)
        seconds = tolerated_seconds(taints, pod.spec.tolerations or ())
        if math.isinf(seconds):
            return
        left = (since + timedelta(seconds=seconds) - now).total_seconds()
        if left > 0:
            self.queue.add_after(key, left)
            return
        self.recorder.normal(POD, pod, "TaintManagerEviction", f"Marking for deletion Pod {key}")
        reason, message = "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"
        await delete_with_condition(self.client, pod, reason, message, whole_seconds(now))

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            self._since.pop(latest(old, new).metadata.uid, None)
        elif no_execute(self._nodes.get(new.spec.nodeName or "")):
            self.queue.add(key_of(new))

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is not None and no_execute(new) != no_execute(old):
            for pod in self._by_node.get(new.metadata.name):
                self.queue.add(key_of(pod))


def no_execute(node: Node | None) -> list[Taint]:
    """The node's NoExecute taints."""
    taints = (node.spec.taints if node is not None and node.spec else None) or ()
    return [taint for taint in taints if taint.effect == "NoExecute"]
