"""What simulated kubelets do with pods: take or reject them, start them, let them end, see them off.

Mirrors pkg/kubelet/pod_workers.go as far as the API shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar

from bayplan.api.kinds import JOB, NODE, POD
from bayplan.client import ApiError
from bayplan.devcluster import kubelet_status
from bayplan.devcluster.clock import whole_seconds
from bayplan.devcluster.controllers import pods
from bayplan.devcluster.controllers.controller import Controller, ControllerContext
from bayplan.devcluster.controllers.informers import key_of
from bayplan.devcluster.controllers.node_lifecycle import node_names
from bayplan.devcluster.controllers.ownership import controller_of
from bayplan.devcluster.controllers.served import Node, Pod
from bayplan.devcluster.kubelet_admission import Books, Rejection, requests_of
from bayplan.devcluster.kubelet_devices import unprepared
from bayplan.devcluster.kubelet_status import Addresses, Patch
from bayplan.devcluster.kubelet_termination import stop_seconds

RUN_SECONDS = "bayplan.dev/run-seconds"
"""Annotation: how long the pod's containers run. Heeded where restartPolicy is Never or OnFailure."""
EXIT_CODE = "bayplan.dev/exit-code"
"""Annotation: what they exit with, 0 if it is not given."""
PREPARE_AGAIN = 10.0
"""Seconds until devices that could not be prepared are tried again, if the pod does not change before."""


@dataclass(frozen=True, slots=True)
class KubeletDelays:
    """Seconds of the cluster's clock."""

    start: float = 1.0
    """From binding to Running."""
    stop: float = 1.0
    """From SIGTERM to the end of the containers of pods that do not say so themselves, within the grace period."""
    job: float = 10.0
    """How long pods of Jobs run that do not say so themselves."""


@dataclass(slots=True)
class _Tenant:
    """A pod on one of the nodes.

    ::

        taken --start, devices ready--> Running --run time--> Succeeded or Failed
        rejected --> Failed                                   (deletion: from any state, after the stop delay)
    """

    node: str
    rejection: Rejection | None
    starts: datetime
    generation: int | None
    """The pod's generation when its requests were looked at last."""
    stopping: datetime | None = None
    """When its containers, which run, were told to stop."""
    deferred: bool = False
    """Whether it waits for room to grow."""
    reported: str = "Pending"
    """The phase that has been reported or was found."""


class PodManager(Controller):
    """The pods of all simulated nodes."""

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
        self._tenants: dict[str, _Tenant] = {}
        """By uid."""
        self._books: dict[str, Books] = {}
        """By node."""
        self._pod_addresses = 0
        self._nodes = self.watch(NODE, self._node_changed)
        self._pods = self.watch(POD, self._pod_changed)
        self._by_node = self._pods.index(node_names)

    def books(self, node: str) -> Books:
        """What is promised to pods on a node."""
        return self._books.setdefault(node, Books())

    def revisit(self, node: str) -> None:
        """Look at all pods of a node whose kubelet works again."""
        for pod in self._by_node.get(node):
            self.queue.add(key_of(pod))

    async def sync(self, key: str) -> None:
        """Take one pod to its next state, if it is due."""
        pod: Pod | None = self._pods.get(key)
        if pod is None or not pod.spec.nodeName or not self._serves(pod.spec.nodeName):
            return
        tenant = self._tenants.get(pod.metadata.uid)
        if tenant is None:
            tenant = self._take_in(pod)
        now = self.clock.now()
        if pods.is_terminating(pod):
            await self._see_off(key, pod, tenant, now)
        elif tenant.reported == "Pending":
            await self._start(key, pod, tenant, now)
        elif tenant.reported == "Running":
            await self._resize(pod, tenant, now)
            await self._end(key, pod, tenant, now)

    def _take_in(self, pod: Pod) -> _Tenant:
        """Admission: the first thing that happens to a pod on its node."""
        name, phase = pod.spec.nodeName, pods.phase(pod)
        node: Node | None = self._nodes.get(name)
        books, rejection = self.books(name), None
        if phase == "Pending" and node is not None and not pods.is_terminating(pod):
            rejection = books.judge(node, pod)
        if rejection is None and not pods.is_finished(pod):
            books.enter(pod)
        starts = self.clock.now() + timedelta(seconds=0 if rejection else self._delays.start)
        tenant = _Tenant(name, rejection, starts, pod.metadata.generation, reported=phase)
        self._tenants[pod.metadata.uid] = tenant
        return tenant

    async def _start(self, key: str, pod: Pod, tenant: _Tenant, now: datetime) -> None:
        if tenant.rejection is not None:
            self.recorder.warning(POD, pod, tenant.rejection.reason, tenant.rejection.message)
            await self._report(pod, tenant, kubelet_status.rejected(pod, tenant.rejection))
            return
        wait = (tenant.starts - now).total_seconds()
        if wait > 0:
            self.queue.add_after(key, wait)
            return
        problem = await unprepared(self.client, pod)
        if problem:
            message = f"Failed to prepare dynamic resources: prepare dynamic resources: {problem}"
            self.recorder.warning(POD, pod, "FailedPrepareDynamicResources", message)
            self.queue.add_after(key, PREPARE_AGAIN)
            return
        host = self._address(tenant.node)
        addresses = Addresses(host if pod.spec.hostNetwork else self._next_address(), host)
        await self._report(pod, tenant, kubelet_status.running(pod, addresses, whole_seconds(now)))

    async def _resize(self, pod: Pod, tenant: _Tenant, now: datetime) -> None:
        """A change of what a running pod requests is granted, deferred until there is room, or infeasible."""
        node: Node | None = self._nodes.get(tenant.node)
        books = self.books(tenant.node)
        if node is None or (tenant.generation == pod.metadata.generation and not tenant.deferred):
            return
        tenant.generation = pod.metadata.generation
        if books.requests(pod.metadata.uid) == requests_of(pod):
            return
        rejection = books.judge(node, pod)
        if rejection is None:
            books.enter(pod)
            tenant.deferred = False
            await self._report(pod, tenant, kubelet_status.resized(pod))
            return
        tenant.deferred = Books().judge(node, pod) is None
        reason = "Deferred" if tenant.deferred else "Infeasible"
        known = pods.condition(pod, kubelet_status.RESIZE_PENDING)
        if known is None or (known.reason, known.observedGeneration) != (reason, pod.metadata.generation):
            patch = kubelet_status.resize_pending(pod, reason, rejection.message, whole_seconds(now))
            await self._report(pod, tenant, patch)

    async def _end(self, key: str, pod: Pod, tenant: _Tenant, now: datetime) -> None:
        """A running pod ends when its containers have run their time, or its deadline has passed."""
        began = pod.status.startTime or now
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
            await self._report(pod, tenant, patch)
        elif exit_code and pod.spec.restartPolicy == "OnFailure":
            await self._report(pod, tenant, kubelet_status.restarted(pod, exit_code, whole_seconds(now)))
        else:
            await self._report(pod, tenant, kubelet_status.ended(pod, exit_code, whole_seconds(now)))

    async def _see_off(self, key: str, pod: Pod, tenant: _Tenant, now: datetime) -> None:
        """Stop the containers of a deleted pod within its grace, report how they ended, and let the object go."""
        if tenant.stopping is None and tenant.reported == "Running":
            tenant.stopping = now
        # Computed again each time: another delete may have shortened the grace period.
        stopped = now if tenant.stopping is None else tenant.stopping + self._stop_time(pod)
        wait = (stopped - now).total_seconds()
        if wait > 0:
            self.queue.add_after(key, wait)
            return
        metadata = pod.metadata
        if metadata.finalizers and not pods.is_finished(pod):  # the object will outlive its containers
            await self._report(pod, tenant, kubelet_status.ended(pod, 143, whole_seconds(now)))
        if metadata.deletionGracePeriodSeconds == 0 and metadata.finalizers:
            return  # all that is left is the finalizers' business
        try:
            await self.client.delete(POD, metadata.name, metadata.namespace, uid=metadata.uid, grace_period_seconds=0)
        except ApiError as error:
            if error.status not in {404, 409}:  # gone already, or replaced by a namesake
                raise

    async def _report(self, pod: Pod, tenant: _Tenant, patch: Patch) -> None:
        await self.patch_status(self._pods, pod, patch)
        tenant.reported = patch["status"].get("phase", tenant.reported)

    def _stop_time(self, pod: Pod) -> timedelta:
        return timedelta(seconds=stop_seconds(pod, self._delays.stop))

    def _run_seconds(self, pod: Pod) -> float | None:
        """How long the containers run; None: for ever."""
        if pod.spec.restartPolicy not in {"Never", "OnFailure"}:
            return None
        stated = (pod.metadata.annotations or {}).get(RUN_SECONDS)
        if stated is not None:
            try:
                return max(float(stated), 0.0)
            except ValueError:
                pass  # not a number: as if it were not there
        owner = controller_of(pod)
        return self._delays.job if owner is not None and owner.kind == JOB.kind else None

    def _next_address(self) -> str:
        self._pod_addresses += 1
        number = self._pod_addresses
        return f"10.{128 + (number >> 16 & 127)}.{number >> 8 & 255}.{number & 255}"

    def _pod_changed(self, old: Pod, new: Pod) -> None:
        uid = (new if new is not None else old).metadata.uid
        if new is None or pods.is_finished(new):
            tenant = self._tenants.get(uid)
            if tenant is not None:
                self._make_room(tenant.node, uid)
                tenant.reported = pods.phase(new) if new is not None else tenant.reported
        if new is None:
            self._tenants.pop(uid, None)
        elif new.spec.nodeName:
            self.queue.add(key_of(new))

    def _make_room(self, node: str, uid: str) -> None:
        self.books(node).strike(uid)
        for pod in self._by_node.get(node):
            tenant = self._tenants.get(pod.metadata.uid)
            if tenant is not None and tenant.deferred:
                self.queue.add(key_of(pod))

    def _node_changed(self, old: Node, new: Node) -> None:
        if new is None:
            self._books.pop(old.metadata.name, None)


def _exit_code(pod: Pod) -> int:
    stated = (pod.metadata.annotations or {}).get(EXIT_CODE, "0")
    return int(stated) if stated.isascii() and stated.isdigit() else 0


def _latest_start(pod: Pod) -> datetime | None:
    states: list[Any] = [one.state for one in pod.status.containerStatuses or () if one.state and one.state.running]
    return max((state.running.startedAt for state in states if state.running.startedAt), default=None)
