"""DefaultBinder: binds pods through the API server."""

from __future__ import annotations

from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.handle import Handle
from bayplan.framework.interface import CycleState, Plugin
from bayplan.framework.status import Status


class DefaultBinder(Plugin):
    """Mirrors plugins/defaultbinder/default_binder.go."""

    name = "DefaultBinder"

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Create the pod's binding. Propagates the exceptions of the API client."""
        client = self._handle.client
        if client is None:
            return Status.error("cannot bind the pod: there is no API server")
        await client.bind(pod.namespace, pod.name, node_name, uid=pod.uid)
        return None
