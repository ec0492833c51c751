"""The binding cycle of an assumed pod, as far as it is awaited: Permit, PreBind and Bind.

Mirrors bindingCycle in pkg/scheduler/schedule_one.go. It runs as a task per pod, concurrently with attempts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from bayplan.api.kinds import POD
from bayplan.api.objects import UndecodableObject
from bayplan.client import ApiError, ConfigError, TransportError
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.binding_runner import run_bind, run_pre_bind, run_pre_bind_pre_flight
from bayplan.framework.extenders import ExtenderError
from bayplan.framework.interface import CycleState
from bayplan.framework.profile import Profile
from bayplan.framework.status import Code, PluginError, Status, success
from bayplan.log_fields import about_pod
from bayplan.queue import QueuedPod
from bayplan.service.extenders import Extenders
from bayplan.service.failed_requests import is_request, may_have_succeeded, problem_of
from bayplan.service.metrics.plugin_times import PluginTimes
from bayplan.service.runtime import Runtime
from bayplan.service.waiting_pods import AwaitedPod

log = logging.getLogger(__name__)

_LOOK_AGAIN_SECONDS = (0.1, 0.5, 1.0, 2.0, 5.0)
BINDING = "binding"


class Binding(NamedTuple):
    """A pod that is being bound to a node. `pod` is the assumed one."""

    queued: QueuedPod
    pod: PodInfo
    node_name: str
    profile: Profile
    cycle: CycleState
    times: PluginTimes | None = None
    """Where the plugins' times are recorded, if they are measured."""


@dataclass(slots=True)
class _PreBinding:
    """A running PreBind, and why it was cancelled, if it was."""

    task: asyncio.Task[Status]
    cancelled_because: str = ""


Ended = Callable[[Binding, Status], None]
"""Called with the status of a binding that has ended: success once the pod is bound."""


class BindingCycles:
    """Runs binding cycles. An extender may bind instead of the profile's Bind plugins."""

    def __init__(self, runtime: Runtime, extenders: Extenders | None = None) -> None:
        self._runtime = runtime
        self._extenders = extenders
        self._pre_binding: dict[str, _PreBinding] = {}

    def start(self, binding: Binding, waiting: AwaitedPod | None, ended: Ended) -> None:
        """Bind a pod that is assumed and reserved. `waiting`: set if a Permit plugin lets it wait first."""
        self._runtime.tasks.start(BINDING, binding.pod, self._run(binding, waiting, ended))

    def cancel_pre_bind(self, uid: str, why: str) -> bool:
        """Cancel a pod's PreBind, and its binding with it. Returns False for a pod that is not in PreBind."""
        pre_binding = self._pre_binding.get(uid)
        if pre_binding is None:
            return False
        pre_binding.cancelled_because = why
        pre_binding.task.cancel()
        return True

    async def _run(self, binding: Binding, waiting: AwaitedPod | None, ended: Ended) -> None:
        try:
            status = await self._bind(binding, waiting)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._runtime.tasks.cancelling or task is None:
                raise
            task.uncancel()
            status = Status(Code.ERROR, ("a plugin cancelled the task of the binding",))
        except Exception as error:  # whatever fails, the pod must return to the queue
            if isinstance(error, PluginError) and not is_request(error):
                error.record(self._runtime.failures, f"pod {about_pod(binding.pod)}")
            else:
                log.debug("binding pod %s failed", about_pod(binding.pod), exc_info=error)
            status = Status(Code.ERROR, (problem_of(error),))
        ended(binding, status)
        if binding.times is not None:
            binding.times.finish()

    async def _bind(self, binding: Binding, waiting: AwaitedPod | None) -> Status:
        runtime = self._runtime
        pod, node_name, profile, cycle = binding.pod, binding.node_name, binding.profile, binding.cycle
        pre_binders = run_pre_bind_pre_flight(profile, cycle, pod, node_name)
        if pre_binders or waiting is not None:
            runtime.status.nominate(binding.queued.pod, node_name)
        if waiting is not None:
            began = runtime.metrics.now()
            try:
                status = await waiting.verdict()
            finally:
                runtime.waiting.remove(pod.uid)
            runtime.metrics.permit_waited(status.code, began)
            if status.code is not Code.SUCCESS:
                return status
        # From here on no plugin rejects the pod for the state of the cluster, so no event can help it.
        runtime.queue.stop_recording(pod.uid)
        if pre_binders and (status := await self._pre_bind(binding, pre_binders)).code is not Code.SUCCESS:
            return status if status.code is Code.ERROR else Status(Code.ERROR, status.reasons, status.plugin)
        await runtime.status.withdraw(pod.uid)
        try:
            if self._extenders is not None:
                if not runtime.leads():
                    raise ExtenderError("this scheduler is not the leader and binds no pods")
                if await self._extenders.bind(pod, node_name):
                    return success()
            return await run_bind(profile, cycle, pod, node_name)
        except ExtenderError as error:
            return await self._look_up(binding, f"binding to node {node_name} failed: {error}")
        except PluginError as error:
            if not may_have_succeeded(error):
                raise
            return await self._look_up(binding, problem_of(error))

    async def _pre_bind(self, binding: Binding, plugins: Sequence[Any]) -> Status:
        """Run PreBind in a separate task, which a preemption can cancel."""
        pod = binding.pod
        task = asyncio.create_task(
            run_pre_bind(plugins, binding.cycle, pod, binding.node_name), name=f"pre-bind {pod.key}"
        )
        pre_binding = self._pre_binding[pod.uid] = _PreBinding(task)
        try:
            status = await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise
            return Status(Code.ERROR, (pre_binding.cancelled_because or "a PreBind plugin cancelled its own task",))
        finally:
            del self._pre_binding[pod.uid]
        if pre_binding.cancelled_because:  # the plugin ignored the cancellation
            return Status(Code.ERROR, (pre_binding.cancelled_because,))
        return status

    async def _look_up(self, binding: Binding, problem: str) -> Status:
        """After a binding request with an unknown outcome, read the pod until the outcome is known.

        The pod stays assumed until then, however long it takes: if it were forgotten too early, its node could become
        overcommitted.
        """
        failed = Status(Code.ERROR, (problem,))
        attempt = 0
        while True:
            try:
                pod = await self._runtime.client.get(POD, binding.pod.name, binding.pod.namespace)
            except ApiError as reply:
                if reply.status == 404:
                    return failed
                if reply.status in {401, 403}:
                    log.warning("cannot read whether pod %s was bound: %s", about_pod(binding.pod), reply)
            except (TransportError, UndecodableObject, ConfigError) as error:
                log.debug("cannot read yet whether pod %s was bound: %s", about_pod(binding.pod), error)
            else:
                ours = pod.metadata.uid == binding.pod.uid and pod.spec.nodeName == binding.node_name
                return success() if ours else failed
            await asyncio.sleep(_LOOK_AGAIN_SECONDS[min(attempt, len(_LOOK_AGAIN_SECONDS) - 1)])
            attempt += 1
