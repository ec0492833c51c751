"""Gives each node that a DaemonSet wants one pod. Mirrors pkg/controller/daemon: daemon_controller.go and update.go."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from lightkube.models.meta_v1 import LabelSelector

from bayplan.core.api.kinds import CONTROLLER_REVISION, DAEMON_SET, NODE, Kind
from bayplan.core.api.served import ControllerRevision, DaemonSet, Node, Pod
from bayplan.core.api.times import whole_seconds
from bayplan.core.expansion import pods
from bayplan.core.expansion.daemon_pods import Eligibility, by_node, new_pod
from bayplan.core.expansion.pods import REVISION_HASH
from bayplan.running.client.errors import ApiError
from bayplan_devcluster.controllers.controller import ControllerContext
from bayplan_devcluster.controllers.daemon_rollout import (
    DaemonState,
    RolloutPlan,
    calculate_status,
    plan_nodes,
    plan_rolling_update,
)
from bayplan_devcluster.controllers.informers import key_of
from bayplan_devcluster.controllers.owners import OwnerController
from bayplan_devcluster.controllers.pod_control import PodControl
from bayplan_devcluster.controllers.revisions import RevisionHistory


class DaemonSetController(OwnerController):
    """Creates a pod for each node that qualifies, and replaces pods of former templates."""

    name: ClassVar[str] = "daemonset-controller"
    kind: ClassVar[Kind] = DAEMON_SET

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._history = RevisionHistory(self.client, DAEMON_SET, self.watch(CONTROLLER_REVISION), REVISION_HASH)
        self._control = PodControl(self.client, self._dependents, self.recorder, DAEMON_SET)
        self._backoff = FailedPodsBackoff()
        self._nodes = self.watch(NODE, self._node_changed)

    async def sync(self, key: str) -> None:
        """Take one DaemonSet a step closer to its spec."""
        daemon_set: DaemonSet | None = self._owners.get(key)
        if daemon_set is None or daemon_set.metadata.deletionTimestamp is not None:
            return
        if daemon_set.spec.selector == LabelSelector():
            message = "This daemon set is selecting all pods. A non-empty selector is required."
            self.recorder.warning(DAEMON_SET, daemon_set, "SelectingAll", message)
            return
        revisions = await self._history.claim(daemon_set)
        current, collisions = await self._history.current(daemon_set, revisions)
        digest = (current.metadata.labels or {}).get(REVISION_HASH, current.metadata.name)
        await self.claim(daemon_set)
        failure = await self._manage(daemon_set, digest)
        if failure is None:
            failure = await self._update(daemon_set, digest)
        if failure is None:
            await self._clean_up(daemon_set, [one for one in revisions if one.metadata.uid != current.metadata.uid])
        await self._report(daemon_set, digest, collisions)
        if failure is not None:
            raise failure

    def _state(self, daemon_set: DaemonSet, digest: str) -> DaemonState:
        """The DaemonSet's nodes and pods as the informers show them now."""
        placement = Eligibility.of(daemon_set)
        return DaemonState(
            daemon_set=daemon_set,
            digest=digest,
            verdicts={name: placement.judge(node) for name, node in self._nodes.objects.items()},
            pods=by_node(self.owned(daemon_set)),
            now=self.clock.now(),
        )

    async def _manage(self, daemon_set: DaemonSet, digest: str) -> ApiError | None:
        state = self._state(daemon_set, digest)
        plan = plan_nodes(state)
        plan.delete += self._ended(state)
        return await self._carry_out(state, plan)

    async def _update(self, daemon_set: DaemonSet, digest: str) -> ApiError | None:
        strategy = daemon_set.spec.updateStrategy
        if strategy is not None and strategy.type == "OnDelete":
            return None
        state = self._state(daemon_set, digest)
        return await self._carry_out(state, plan_rolling_update(state))

    def _ended(self, state: DaemonState) -> list[Pod]:
        """The pods that have ended where they belong. A pod that keeps failing is replaced less and less often."""
        return [
            pod
            for node, there in state.pods.items()
            if node in state.verdicts and state.verdicts[node].stay
            for pod in there
            if pods.is_finished(pod) and not pods.is_terminating(pod) and self._may_go(state, pod, node)
        ]

    def _may_go(self, state: DaemonState, pod: Pod, node: str) -> bool:
        daemon_set, metadata = state.daemon_set, pod.metadata
        where = f"daemon pod {metadata.namespace}/{metadata.name} on node {node}"
        if pods.phase(pod) == "Succeeded":
            message = f"Found succeeded {where}, will try to delete it"
            self.recorder.normal(DAEMON_SET, daemon_set, "SucceededDaemonPod", message)
            return True
        generation = (daemon_set.status.observedGeneration if daemon_set.status else None) or 0
        wait = self._backoff.wait((daemon_set.metadata.uid, generation, node), state.now)
        if wait > 0:
            self.queue.add_after(key_of(daemon_set), wait)
            return False
        message = f"Found failed {where}, will try to kill it"
        self.recorder.warning(DAEMON_SET, daemon_set, "FailedDaemonPod", message)
        return True

    async def _carry_out(self, state: DaemonState, plan: RolloutPlan) -> ApiError | None:
        daemon_set = state.daemon_set
        wanted = [new_pod(daemon_set, state.digest, node) for node in plan.create]
        failures = [await self._control.create(daemon_set, wanted), await self._control.delete(daemon_set, plan.delete)]
        return next((failure for failure in failures if failure is not None), None)

    async def _clean_up(self, daemon_set: DaemonSet, old: Sequence[ControllerRevision]) -> None:
        """Delete the oldest revisions beyond revisionHistoryLimit that no pod uses."""
        limit = daemon_set.spec.revisionHistoryLimit
        if limit is None or len(old) <= limit:
            return
        live = {(pod.metadata.labels or {}).get(REVISION_HASH) for pod in self.owned(daemon_set)}
        unused = [one for one in old if (one.metadata.labels or {}).get(REVISION_HASH) not in live]
        await self._history.delete(unused[: len(old) - limit])

    async def _report(self, daemon_set: DaemonSet, digest: str, collisions: int | None) -> None:
        state = self._state(daemon_set, digest)
        await self.write_status(self._owners, daemon_set, calculate_status(state, collisions))
        self.await_availability(daemon_set, whole_seconds(state.now))

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        """A node concerns every DaemonSet when it comes, goes, or changes what pods are matched against."""
        if old is not None and new is not None and _matched(old) == _matched(new):
            return
        for key, one in self._owners.objects.items():
            self.enqueue_for(key, self._by_controller.count(one.metadata.uid))


def _matched(node: Node) -> tuple[object, object]:
    return (node.metadata.labels, node.spec.taints if node.spec else None)


FIRST_DELAY = 1.0
LONGEST_DELAY = 15 * 60.0
"""Seconds of the cluster's clock."""

Key = tuple[str, int, str]
"""The DaemonSet's uid, its observed generation, and the node."""


class FailedPodsBackoff:
    """A delay that doubles each time a pod fails again on the same node, and starts over after a long time."""

    def __init__(self) -> None:
        self._entries: dict[Key, tuple[float, datetime]] = {}

    def wait(self, key: Key, now: datetime) -> float:
        """Seconds until the failed pod may be deleted, 0 for now: then the next failure has to wait longer."""
        self._forget(now)
        delay, since = self._entries.get(key, (0.0, now))
        passed = (now - since).total_seconds()
        if passed < delay:
            return delay - passed
        self._entries[key] = (min(delay * 2, LONGEST_DELAY) if delay else FIRST_DELAY, now)
        return 0.0

    def _forget(self, now: datetime) -> None:
        for key, (_, since) in tuple(self._entries.items()):
            if (now - since).total_seconds() > 2 * LONGEST_DELAY:
                del self._entries[key]
