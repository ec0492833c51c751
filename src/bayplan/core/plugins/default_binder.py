"""DefaultBinder: binds pods through the API server."""

from __future__ import annotations

import asyncio

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.handle import Handle
from bayplan.core.framework.interface import CycleState, Plugin
from bayplan.core.framework.status import Status
from bayplan.core.framework.unknown_writes import Sleep
from bayplan.core.versions import DEFAULT_GATES, FeatureGates

_PAUSES = (0.01, 0.05, 0.25)
"""Seconds between the attempts since 1.37. Mirrors retry.DefaultBackoff of client-go."""
_RETRIED = frozenset({409, 500, 503})
"""Mirrors Retriable in pkg/scheduler/util/utils.go; the client itself retries what never arrived."""


class DefaultBinder(Plugin):
    """Mirrors plugins/defaultbinder/default_binder.go. `sleep` takes seconds."""

    name = "DefaultBinder"

    def __init__(self, handle: Handle, sleep: Sleep = asyncio.sleep, gates: FeatureGates = DEFAULT_GATES) -> None:
        self._handle = handle
        self._sleep = sleep
        self._pauses = _PAUSES if gates.enabled("BindingRetries") else ()

    async def bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Create the pod's binding, since 1.37 repeatedly after transient errors.

        Propagates the last exception of the API client; its cause is that of an earlier request, if there was one.
        """
        client = self._handle.client
        if client is None:
            return Status.error("cannot bind the pod: there is no API server")
        earlier: Exception | None = None
        for pause in (*self._pauses, None):
            try:
                await client.bind(pod.namespace, pod.name, node_name, uid=pod.uid)
            except Exception as error:
                if pause is None or getattr(error, "status", None) not in _RETRIED:
                    raise error from earlier or error.__cause__  # the earlier request may have been carried out
                earlier = error
            else:
                return None
            await self._sleep(pause)
        raise AssertionError("unreachable")
