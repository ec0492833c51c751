"""The pods of simulated kubelets: admission, start, end and deletion.

Mirrors the effects of pkg/kubelet/pod_workers.go on the API.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from lightkube.models.core_v1 import Container

from bayplan.core.api.kinds import JOB, NODE, POD
from bayplan.core.api.served import Node, Pod
from bayplan.core.api.times import whole_seconds
from bayplan.core.expansion import pods
from bayplan.core.expansion.owner_references import controller_of
from bayplan_devcluster import kubelet_status
from bayplan_devcluster.controllers.controller import Controller, ControllerContext
from bayplan_devcluster.controllers.informers import key_of, latest
from bayplan_devcluster.controllers.node_lifecycle import node_names
from bayplan_devcluster.kubelet_admission import Accounting, Rejection, requests_of
from bayplan_devcluster.kubelet_devices import unprepared
from bayplan_devcluster.kubelet_status import Addresses, Patch

RUN_SECONDS = "bayplan.dev/run-seconds"
"""Annotation: how many seconds the pod's containers run. Only for restartPolicy Never or OnFailure."""
EXIT_CODE = "bayplan.dev/exit-code"
"""Annotation: the exit code of the containers, 0 by default."""
PREPARE_AGAIN = 10.0
"""Seconds until the next attempt to prepare devices, unless the pod changes earlier."""


@dataclass(frozen=True, slots=True)
class KubeletDelays:
    """Delays in seconds of the cluster's clock."""

    start: float = 1.0
    """From the binding to Running."""
    stop: float = 1.0
    """From SIGTERM to the end of the containers of pods without the annotation, within the grace period."""
    job: float = 10.0
    """The run time of pods of Jobs without the annotation."""


@dataclass(slots=True)
class _Record:
    """A pod on one of the nodes.

    ::

        admitted --start, devices ready--> Running --run time--> Succeeded or Failed
        rejected --> Failed                                      (deletion: from any state, after the stop delay)
    """

    node: str
    rejection: Rejection | None
    starts: datetime
    generation: int | None
    """The pod's generation at the last check of its requests."""
    stopping: datetime | None = None
    """When the kubelet began to stop the running containers of a deleted pod."""
    deferred: bool = False
    """Whether a resize of the pod waits for free resources."""
    reported: str = "Pending"
    """The last reported or observed phase."""


class PodManager(Controller):
    """Runs the pods of all simulated nodes."""

    name: ClassVar[str] = "kubelet"
    workers: ClassVar[int] = 64

    def __init__(
        self,
        context: ControllerContext,
        serves: Callable[[str], bool],
        address: Callable[[str], str],
        delays: KubeletDelays,
    ) -> None:
        super().__init__(context)
        self._serves = serves
        self._address = address
        self._delays = delays
        self._records: dict[str, _Record] = {}
        """By uid."""
        self._accounting: dict[str, Accounting] = {}
        """By node."""
        self._pod_addresses = 0
        self._nodes = self.watch(NODE, self._node_changed)
        self._pods = self.watch(POD, self._pod_changed)
        self._by_node = self._pods.index(node_names)

    def accounting(self, node: str) -> Accounting:
        """The accounting of a node."""
        return self._accounting.setdefault(node, Accounting())

    def revisit(self, node: str) -> None:
        """Sync all pods of a node after its kubelet restarted."""
        for pod in self._by_node.get(node):
            self.queue.add(key_of(pod))

    async def sync(self, key: str) -> None:
        """Move one pod to its next state if that is due."""
        pod: Pod | None = self._pods.get(key)
        if pod is None or not pod.spec.nodeName or not self._serves(pod.spec.nodeName):
            return
        record = self._records.get(pod.metadata.uid)
        if record is None:
            record = self._admit(pod)
        now = self.clock.now()
        if pods.is_terminating(pod):
            await self._terminate(key, pod, record, now)
        elif record.reported == "Pending":
            await self._start(key, pod, record, now)
        elif record.reported == "Running":
            await self._resize(pod, record, now)
            await self._end(key, pod, record, now)

    def _admit(self, pod: Pod) -> _Record:
        """Admit or reject a new pod of a node."""
        name, phase = pod.spec.nodeName or "", pods.phase(pod)
        node: Node | None = self._nodes.get(name)
        accounting, rejection = self.accounting(name), None
        if phase == "Pending" and node is not None and not pods.is_terminating(pod):
            rejection = accounting.check(node, pod)
        if rejection is None and not pods.is_finished(pod):
            accounting.add(pod)
        starts = self.clock.now() + timedelta(seconds=0 if rejection else self._delays.start)
        record = _Record(name, rejection, starts, pod.metadata.generation, reported=phase)
        self._records[pod.metadata.uid] = record
        return record

    async def _start(self, key: str, pod: Pod, record: _Record, now: datetime) -> None:
        if record.rejection is not None:
            self.recorder.warning(POD, pod, record.rejection.reason, record.rejection.message)
            await self._report(pod, record, kubelet_status.rejected(pod, record.rejection))
            return
        wait = (record.starts - now).total_seconds()
        if wait > 0:
            self.queue.add_after(key, wait)
            return
        problem = await unprepared(self.client, pod)
        if problem:
            message = f"Failed to prepare dynamic resources: prepare dynamic resources: {problem}"
            self.recorder.warning(POD, pod, "FailedPrepareDynamicResources", message)
            self.queue.add_after(key, PREPARE_AGAIN)
            return
        host = self._address(record.node)
        addresses = Addresses(host if pod.spec.hostNetwork else self._next_address(), host)
        await self._report(pod, record, kubelet_status.running(pod, addresses, whole_seconds(now)))

    async def _resize(self, pod: Pod, record: _Record, now: datetime) -> None:
        """Grant a resize of a running pod, defer it until resources are free, or report it as infeasible."""
        node: Node | None = self._nodes.get(record.node)
        accounting = self.accounting(record.node)
        if node is None or (record.generation == pod.metadata.generation and not record.deferred):
            return
        record.generation = pod.metadata.generation
        known = pods.condition(pod, kubelet_status.RESIZE_PENDING)
        granted = accounting.requests(pod.metadata.uid)
        if granted == requests_of(pod) and known is None:
            return
        rejection = accounting.check(node, pod)
        if rejection is None:
            accounting.add(pod)
            record.deferred = False
            await self._report(pod, record, kubelet_status.resized(pod))
            if any(amount > requests_of(pod).get(name, 0) for name, amount in (granted or {}).items()):
                self._retry_resizes(record.node)
            return
        record.deferred = Accounting().check(node, pod) is None
        reason = "Deferred" if record.deferred else "Infeasible"
        if known is None or (known.reason, known.observedGeneration) != (reason, pod.metadata.generation):
            patch = kubelet_status.resize_pending(pod, reason, rejection.message, whole_seconds(now))
            await self._report(pod, record, patch)

    async def _end(self, key: str, pod: Pod, record: _Record, now: datetime) -> None:
        """End a running pod when its containers have run their time, or when its deadline has passed."""
        began = (pod.status.startTime if pod.status else None) or now
        deadline, run = pod.spec.activeDeadlineSeconds, self._run_seconds(pod)
        ends = [seconds for seconds in (deadline, run) if seconds is not None]
        if not ends:
            return
        exit_code = _exit_code(pod)
        if run is not None and run <= min(ends):
            began = _latest_start(pod) or began
        wait = (began + timedelta(seconds=min(ends)) - now).total_seconds()
        if wait > 0:
            self.queue.add_after(key, wait)
        elif deadline is not None and (run is None or deadline < run):
            message = "Pod was active on the node longer than the specified deadline"
            patch = kubelet_status.ended(pod, 137, whole_seconds(now), reason="DeadlineExceeded", message=message)
            await self._report(pod, record, patch)
        elif exit_code and pod.spec.restartPolicy == "OnFailure":
            await self._report(pod, record, kubelet_status.restarted(pod, exit_code, whole_seconds(now)))
        else:
            await self._report(pod, record, kubelet_status.ended(pod, exit_code, whole_seconds(now)))

    async def _terminate(self, key: str, pod: Pod, record: _Record, now: datetime) -> None:
        """Stop the containers of a deleted pod within its grace period, report their end, and delete the object."""
        if record.stopping is None and record.reported == "Running":
            record.stopping = now
        # Computed again each time: another delete may have shortened the grace period.
        takes = timedelta(seconds=stop_seconds(pod, self._delays.stop))
        stopped = now if record.stopping is None else record.stopping + takes
        wait = (stopped - now).total_seconds()
        if wait > 0:
            self.queue.add_after(key, wait)
            return
        metadata = pod.metadata
        if metadata.finalizers and not pods.is_finished(pod):  # the object outlives its containers
            await self._report(pod, record, kubelet_status.ended(pod, 143, whole_seconds(now)))
        if metadata.deletionGracePeriodSeconds == 0 and metadata.finalizers:
            return  # only the finalizers are left
        await self.delete(POD, pod, grace_period_seconds=0)

    async def _report(self, pod: Pod, record: _Record, patch: Patch) -> None:
        await self.patch_status(self._pods, pod, patch)
        record.reported = patch["status"].get("phase", record.reported)

    def _run_seconds(self, pod: Pod) -> float | None:
        """The run time of the containers in seconds; None for no limit."""
        if pod.spec.restartPolicy not in {"Never", "OnFailure"}:
            return None
        stated = (pod.metadata.annotations or {}).get(RUN_SECONDS)
        if stated is not None:
            try:
                return max(float(stated), 0.0)
            except ValueError:
                pass  # ignore an annotation that isn't a number
        owner = controller_of(pod)
        return self._delays.job if owner is not None and owner.kind == JOB.kind else None

    def _next_address(self) -> str:
        self._pod_addresses += 1
        number = self._pod_addresses
        return f"10.{128 + (number >> 16 & 127)}.{number >> 8 & 255}.{number & 255}"

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        uid = latest(old, new).metadata.uid
        if new is None or pods.is_finished(new):
            record = self._records.get(uid)
            if record is not None:
                self._make_room(record.node, uid)
                record.reported = pods.phase(new) if new is not None else record.reported
        if new is None:
            self._records.pop(uid, None)
        elif new.spec.nodeName:
            self.queue.add(key_of(new))

    def _make_room(self, node: str, uid: str) -> None:
        self.accounting(node).remove(uid)
        self._retry_resizes(node)

    def _retry_resizes(self, node: str) -> None:
        """Try the deferred resizes on a node again, because it may have room for them."""
        for pod in self._by_node.get(node):
            record = self._records.get(pod.metadata.uid)
            if record is not None and record.deferred:
                self.queue.add(key_of(pod))

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if old is not None and new is None:
            self._accounting.pop(old.metadata.name, None)
        elif old is not None and new is not None and _allocatable(old) != _allocatable(new):
            self._retry_resizes(new.metadata.name)


def _allocatable(node: Node) -> dict[str, str]:
    return (node.status.allocatable if node.status else None) or {}


def _exit_code(pod: Pod) -> int:
    stated = (pod.metadata.annotations or {}).get(EXIT_CODE, "0")
    return int(stated) if stated.isascii() and stated.isdigit() else 0


def _latest_start(pod: Pod) -> datetime | None:
    statuses = (pod.status.containerStatuses if pod.status else None) or ()
    running = [one.state.running for one in statuses if one.state and one.state.running]
    return max((one.startedAt for one in running if one.startedAt), default=None)


STOP_SECONDS = "bayplan.dev/stop-seconds"
"""Annotation: how long the pod's containers run on after SIGTERM."""
SHORTEST_GRACE = 2.0
"""Seconds that a container has after its preStop hook, even if the hook has used up the grace period."""


def stop_seconds(pod: Pod, default: float) -> float:
    """Seconds of the cluster's clock from the deletion of a running pod to the end of its last container.

    Each container first sleeps as its preStop hook says, then takes as long as the pod's annotation says (`default`
    without one) to follow SIGTERM; the kubelet kills it when the grace period is over.
    """
    grace = pod.metadata.deletionGracePeriodSeconds or 0
    if not grace:
        return 0.0
    sidecars = [one for one in pod.spec.initContainers or () if one.restartPolicy == "Always"]
    ends = []
    for container in (*pod.spec.containers, *sidecars):
        hook = min(_sleep(container), grace)
        ends.append(hook + min(_stated(pod, default), max(grace - hook, SHORTEST_GRACE)))
    return max(ends)


def _sleep(container: Container) -> float:
    """Seconds that the preStop hook sleeps. Other hooks take no time: nothing runs in a simulated container."""
    hook = container.lifecycle.preStop if container.lifecycle else None
    return float(hook.sleep.seconds) if hook is not None and hook.sleep is not None else 0.0


def _stated(pod: Pod, default: float) -> float:
    stated = (pod.metadata.annotations or {}).get(STOP_SECONDS)
    try:
        return max(float(stated), 0.0) if stated is not None else default
    except ValueError:  # not a number: as if it were not there
        return default
