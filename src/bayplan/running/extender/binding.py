"""Binds pods for a scheduler that delegates bindings to the extender."""

from __future__ import annotations

import logging
from typing import Protocol

from bayplan.core.api.kinds import POD
from bayplan.core.api.objects import UndecodableObject
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.binding_runner import run_bind, run_post_bind
from bayplan.core.framework.interface import CycleState
from bayplan.core.framework.status import Code, PluginError
from bayplan.foundations.failures import Failures
from bayplan.foundations.log_fields import about_node, about_pod, pod_named
from bayplan.running.client.client import Client
from bayplan.running.client.errors import ApiError, ConfigError, TransportError
from bayplan.running.extender.plugins import ExtenderProfiles
from bayplan.running.extender.problems import Unanswerable
from bayplan.running.extender.wire import ExtenderBindingArgs, ExtenderBindingResult
from bayplan.running.service.failed_requests import is_request, may_have_succeeded, problem_of

log = logging.getLogger(__name__)


class PodLookup(Protocol):
    """Looks up pods, also pods without a node."""

    def get(self, key: str) -> PodInfo | None:
        """A pod by `namespace/name`."""


class PodBinder:
    """Binds pods with the Bind plugins of their profile, and then runs its PostBind plugins.

    If an error of the API leaves open whether the pod was bound, or says that it is bound already, the pod is read.
    A repeated request for a successful binding succeeds again.
    """

    def __init__(self, profiles: ExtenderProfiles, client: Client, known: PodLookup, failures: Failures) -> None:
        self._profiles = profiles
        self._client = client
        self._known = known
        self._failures = failures

    async def bind(self, args: ExtenderBindingArgs) -> ExtenderBindingResult:
        """Bind a pod. The result contains the error, if there is one."""
        for name in ("PodNamespace", "PodName", "Node"):
            if not getattr(args, name):
                return ExtenderBindingResult(Error=f"the request has no {name}")
        try:
            return ExtenderBindingResult(Error=await self._bind(args))
        except (ApiError, TransportError, ConfigError, PluginError, ValueError) as error:
            if isinstance(error, PluginError) and not is_request(error):
                error.record(self._failures, f"pod {pod_named(args.PodNamespace, args.PodName)}")
            return ExtenderBindingResult(
                Error=f"binding {args.PodNamespace}/{args.PodName} to {args.Node}: {problem_of(error)}"
            )

    async def _bind(self, args: ExtenderBindingArgs) -> str:
        """Return the error, or ""."""
        key = f"{args.PodNamespace}/{args.PodName}"
        pod = self._known.get(key)
        if pod is None or (args.PodUID and pod.uid != args.PodUID):
            pod = await self._read(args)
        if args.PodUID and pod.uid != args.PodUID:
            return f"pod {key} has uid {pod.uid}, not {args.PodUID}: it is another pod with the same name"
        profile, cycle = self._profiles.of(pod), CycleState()
        try:
            status = await run_bind(profile, cycle, pod, args.Node)
        except PluginError as error:
            if not may_have_succeeded(error) or not await self._is_bound(args, pod.uid):
                raise
            log.info("pod %s is bound to %s in spite of the error: %s", about_pod(pod), about_node(args.Node), error)
        else:
            if status.code is not Code.SUCCESS:
                return f"plugin {status.plugin}: {status.message or status.code}"
        for problem in run_post_bind(profile, cycle, pod, args.Node):
            problem.record(self._failures, f"pod {about_pod(pod)}, which is bound")
        return ""

    async def _read(self, args: ExtenderBindingArgs) -> PodInfo:
        pod = await self._client.get(POD, args.PodName, args.PodNamespace)
        try:
            return PodInfo(pod)
        except ValueError as error:
            raise Unanswerable(f"the pod cannot be read: {error}") from error

    async def _is_bound(self, args: ExtenderBindingArgs, uid: str) -> bool:
        """Whether the pod is on the node. False if the pod can't be read: the scheduler will retry."""
        try:
            pod = await self._read(args)
        except (ApiError, TransportError, ConfigError, UndecodableObject, Unanswerable) as error:
            log.debug(
                "cannot determine whether pod %s was bound: %s", pod_named(args.PodNamespace, args.PodName), error
            )
            return False
        return pod.uid == uid and pod.node_name == args.Node
