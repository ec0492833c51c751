"""Binds pods through the API server: PreBind, which a preemption can cancel, and Bind, until its outcome is known."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bayplan.api.kinds import POD
from bayplan.api.objects import UndecodableObject
from bayplan.client import ApiError, Client, ConfigError, TransportError
from bayplan.executor.extenders import Extenders
from bayplan.executor.ports import Binding
from bayplan.framework.binding_runner import run_bind, run_pre_bind
from bayplan.framework.extenders import ExtenderError
from bayplan.framework.status import Code, PluginError, Status, success
from bayplan.log_fields import about_pod
from bayplan.service.failed_requests import is_lost, is_request, may_have_succeeded, problem_of
from bayplan.service.pod_status import PodStatusWriter
from bayplan.service.tasks import PodTasks

log = logging.getLogger(__name__)

_LOOK_AGAIN_SECONDS = (0.1, 0.5, 1.0, 2.0, 5.0)
_TRIES = 3
"""How often a binding is requested at most, if each reply is lost."""


@dataclass(slots=True)
class _PreBinding:
    """A running PreBind, and why it was cancelled, if it was."""

    task: asyncio.Task[Status]
    cancelled_because: str = ""


class ApiBinder:
    """Implements executor.ports.Binder. An extender may bind instead of the profile's Bind plugins."""

    def __init__(
        self,
        client: Client,
        tasks: PodTasks,
        status: PodStatusWriter,
        extenders: Extenders | None,
        leads: Callable[[], bool],
    ) -> None:
        self._client = client
        self._tasks = tasks
        self._status = status
        self._extenders = extenders
        self._leads = leads
        self._pre_binding: dict[str, _PreBinding] = {}

    async def pre_bind(self, binding: Binding, plugins: Sequence[Any]) -> Status:
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
        except PluginError as error:
            return _failed(binding, error)
        finally:
            del self._pre_binding[pod.uid]
        if pre_binding.cancelled_because:  # the plugin ignored the cancellation
            return Status(Code.ERROR, (pre_binding.cancelled_because,))
        return status

    async def bind(self, binding: Binding) -> Status:
        """Bind the pod. If a reply leaves open whether that succeeded, read the pod until that is known.

        A request whose reply is lost may still be carried out after the pod was read without a node: if the pod were
        forgotten then, its node could become overcommitted. So the pod is bound again, to the same node: once a request
        is answered, earlier ones have no effect any more.
        """
        pod = binding.pod
        await self._status.withdraw(pod.uid)
        for _ in range(_TRIES):
            try:
                return await self._request(binding)
            except ExtenderError as error:
                problem, lost = f"binding to node {binding.node_name} failed: {error}", False
            except PluginError as error:
                if not may_have_succeeded(error):
                    return _failed(binding, error)
                problem, lost = problem_of(error), is_lost(error)
            node_name = await self._look_up(binding)
            if node_name == binding.node_name:
                return success()
            if node_name != "" or not lost or not self._leads():
                break
            log.debug("binding pod %s again, because the reply is lost", about_pod(pod))
        return Status(Code.ERROR, (problem,))

    async def _request(self, binding: Binding) -> Status:
        """Let the extender bind the pod, or else the profile's Bind plugins. Raises ExtenderError or PluginError."""
        pod, node_name = binding.pod, binding.node_name
        if self._extenders is not None:
            if not self._leads():
                raise ExtenderError("this scheduler is not the leader and binds no pods")
            if await self._extenders.bind(pod, node_name):
                return success()
        return await run_bind(binding.profile, binding.cycle, pod, node_name)

    def cancel_pre_bind(self, uid: str, why: str) -> bool:
        """Cancel a pod's PreBind, and its binding with it. Returns False for a pod that is not in PreBind."""
        pre_binding = self._pre_binding.get(uid)
        if pre_binding is None:
            return False
        pre_binding.cancelled_because = why
        pre_binding.task.cancel()
        return True

    def survives_cancellation(self) -> bool:
        """Whether a plugin, and not the scheduler's end, has cancelled the current task."""
        task = asyncio.current_task()
        if self._tasks.cancelling or task is None:
            return False
        task.uncancel()
        return True

    async def _look_up(self, binding: Binding) -> str | None:
        """Return the pod's node after a binding request with an unknown outcome: "" for none, None if the pod is gone.

        The pod stays assumed until it could be read, however long it takes.
        """
        attempt = 0
        while True:
            try:
                pod = await self._client.get(POD, binding.pod.name, binding.pod.namespace)
            except ApiError as reply:
                if reply.status == 404:
                    return None
                if reply.status in {401, 403}:
                    log.warning("cannot read whether pod %s was bound: %s", about_pod(binding.pod), reply)
            except (TransportError, UndecodableObject, ConfigError) as error:
                log.debug("cannot read yet whether pod %s was bound: %s", about_pod(binding.pod), error)
            else:
                return (pod.spec.nodeName or "") if pod.metadata.uid == binding.pod.uid else None
            await asyncio.sleep(_LOOK_AGAIN_SECONDS[min(attempt, len(_LOOK_AGAIN_SECONDS) - 1)])
            attempt += 1


def _failed(binding: Binding, error: PluginError) -> Status:
    """The status of a binding whose request the API server refused. Raises the error of a plugin that is no request."""
    if not is_request(error):
        raise error
    log.debug("binding pod %s failed", about_pod(binding.pod), exc_info=error)
    return Status(Code.ERROR, (problem_of(error),))
