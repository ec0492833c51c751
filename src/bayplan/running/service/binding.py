"""ApiBinder: binds pods through the API server, until the outcome is known.

It implements the binder of `bayplan.core.executor.ports`: PreBind, which a preemption can cancel, then Bind. A reply
that is lost leaves a write unknown: the pod stays assumed, is read, and the write is sent again, until a reply or the
object says how it ended (`bayplan.core.framework.unknown_writes`). Without the lease, or for a node that is gone, it
isn't repeated.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lightkube.models.core_v1 import Pod

from bayplan.core.api.kinds import POD
from bayplan.core.executor.extenders import Extenders
from bayplan.core.executor.ports import Binding
from bayplan.core.framework.binding_runner import run_bind, run_pre_bind
from bayplan.core.framework.extenders import ExtenderError
from bayplan.core.framework.status import Code, PluginError, Status, success
from bayplan.core.framework.unknown_writes import known
from bayplan.foundations.log_fields import about_pod
from bayplan.running.client.client import Client
from bayplan.running.service.failed_requests import is_request, problem_of
from bayplan.running.service.pod_status import PodStatusWriter
from bayplan.running.service.tasks import PodTasks

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _PreBinding:
    """A running PreBind, and why it was cancelled, if it was."""

    task: asyncio.Task[Status]
    cancelled_because: str = ""


class ApiBinder:
    """Implements bayplan.core.executor.ports.Binder. An extender may bind instead of the profile's Bind plugins."""

    def __init__(
        self,
        client: Client,
        tasks: PodTasks,
        status: PodStatusWriter,
        extenders: Extenders | None,
        leads: Callable[[], bool],
        has_node: Callable[[str], bool],
    ) -> None:
        self._client = client
        self._tasks = tasks
        self._status = status
        self._extenders = extenders
        self._leads = leads
        self._has_node = has_node
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
        """Bind the pod. The pod stays assumed until it is known whether that succeeded.

        A request is not repeated once another process may lead, or for a node that is gone: a pod that is bound to it
        would be lost.
        """
        pod = binding.pod
        await self._status.withdraw(pod.uid)
        write = _BindingWrite(self._client, self._extenders, self._leads, binding)
        try:
            return await known(write, asyncio.sleep, lambda: self._leads() and self._has_node(binding.node_name))
        except ExtenderError as error:
            return Status(Code.ERROR, (f"binding to node {binding.node_name} failed: {error}",))
        except PluginError as error:
            return _failed(binding, error)

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


class _BindingWrite:
    """A `Write` (`bayplan.core.framework.unknown_writes`): a pod is bound, by an extender or by Bind plugins."""

    def __init__(
        self, client: Client, extenders: Extenders | None, leads: Callable[[], bool], binding: Binding
    ) -> None:
        self._client = client
        self._extenders = extenders
        self._leads = leads
        self._binding = binding
        self.name = f"the binding of pod {binding.pod.key} to node {binding.node_name}"

    async def send(self) -> Status:
        """Send the request. Raises ExtenderError or PluginError."""
        binding, pod, node_name = self._binding, self._binding.pod, self._binding.node_name
        if self._extenders is not None:
            if not self._leads():
                raise ExtenderError("this scheduler is not the leader and binds no pods", sent=False)
            if await self._extenders.bind(pod, node_name):
                return success()
        return await run_bind(binding.profile, binding.cycle, pod, node_name)

    async def read(self) -> Pod:
        """Read the pod."""
        pod = self._binding.pod
        found: Pod = await self._client.get(POD, pod.name, pod.namespace)
        return found

    def outcome(self, found: Pod) -> Status | None:
        """Success if the pod is on the node."""
        there = self._is_the_pod(found) and _node_of(found) == self._binding.node_name
        return success() if there else None

    def is_ruled_out(self, found: Pod) -> bool:
        """Whether the API server binds the pod no more: it has a node, is terminating, or another one has its name."""
        terminating = found.metadata is not None and found.metadata.deletionTimestamp is not None
        return not self._is_the_pod(found) or bool(_node_of(found)) or terminating

    def _is_the_pod(self, found: Pod) -> bool:
        return found.metadata is not None and found.metadata.uid == self._binding.pod.uid


def _node_of(pod: Pod) -> str:
    return (pod.spec.nodeName if pod.spec is not None else None) or ""


def _failed(binding: Binding, error: PluginError) -> Status:
    """The status of a binding whose request the API server refused. Raises the error of a plugin that is no request."""
    if not is_request(error):
        raise error
    log.debug("binding pod %s failed", about_pod(binding.pod), exc_info=error)
    return Status(Code.ERROR, (problem_of(error),))
