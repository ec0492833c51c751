"""The binding cycle of an assumed pod: Permit, PreBind and Bind.

Mirrors bindingCycle in pkg/scheduler/schedule_one.go. It runs concurrently with attempts where time passes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from bayplan.core.executor.ports import Binding
from bayplan.core.executor.runtime import Runtime
from bayplan.core.framework.binding_runner import run_pre_bind_pre_flight
from bayplan.core.framework.status import Code, PluginError, Status
from bayplan.foundations.log_fields import about_pod

log = logging.getLogger(__name__)

BINDING = "binding"
CANCELLED = "a plugin cancelled the task of the binding"

Ended = Callable[[Binding, Status], None]
"""Called with the status of a binding that has ended: success once the pod is bound."""


class BindingCycles:
    """Runs binding cycles. Each ends in a call of `ended`."""

    def __init__(self, runtime: Runtime, ended: Ended) -> None:
        self._runtime = runtime
        self._ports = runtime.ports
        self._ended = ended

    def start(self, binding: Binding, waiting: Any = None) -> None:
        """Bind a pod that is assumed and reserved. `waiting`: set if a Permit plugin lets it wait first."""
        self._ports.run(BINDING, binding.pod, self._run(binding, waiting))

    async def _run(self, binding: Binding, waiting: Any) -> None:
        try:
            status = await self._bind(binding, waiting)
        except asyncio.CancelledError:
            if not self._ports.binder.survives_cancellation():
                raise
            status = Status(Code.ERROR, (CANCELLED,))
        except Exception as error:  # whatever fails, the pod must return to the queue
            if isinstance(error, PluginError):
                error.record(self._runtime.failures, f"pod {about_pod(binding.pod)}")
            else:
                log.debug("binding pod %s failed", about_pod(binding.pod), exc_info=error)
            status = Status(Code.ERROR, (str(error),))
        self._ended(binding, status)
        if binding.times is not None:
            binding.times.finish()

    async def _bind(self, binding: Binding, waiting: Any) -> Status:
        runtime, ports, pod, node_name = self._runtime, self._ports, binding.pod, binding.node_name
        pre_binders = run_pre_bind_pre_flight(binding.profile, binding.cycle, pod, node_name)
        if pre_binders or waiting is not None:
            ports.statuses.nominate(binding.queued.pod, node_name)
        if waiting is not None:
            began = ports.measures.now()
            try:
                status: Status = await waiting.verdict()
            finally:
                runtime.waiting.remove(pod.uid)
            ports.measures.permit_waited(status.code, began)
            if status.code is not Code.SUCCESS:
                return status
        # From here on no plugin rejects the pod for the state of the cluster, so no event can help it.
        runtime.queue.stop_recording(pod.uid)
        if pre_binders:
            status = await ports.binder.pre_bind(binding, pre_binders)
            if status.code is not Code.SUCCESS:
                return status if status.code is Code.ERROR else Status(Code.ERROR, status.reasons, status.plugin)
        return await ports.binder.bind(binding)
