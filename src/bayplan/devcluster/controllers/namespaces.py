"""Deletes the contents of terminating namespaces, and then the namespaces. Mirrors pkg/controller/namespace."""

from __future__ import annotations

from typing import ClassVar

from lightkube.models.core_v1 import NamespaceSpec
from msgspec import json, structs

from bayplan.api.kinds import EVENT, KINDS, NAMESPACE, Kind
from bayplan.client import ApiError
from bayplan.devcluster.controllers.controller import Controller, ControllerContext
from bayplan.devcluster.controllers.served import Namespace

AGAIN = 1.0
"""Seconds between two checks of a namespace that isn't empty yet."""
FINALIZER = "kubernetes"


class NamespaceController(Controller):
    """Deletes the contents of terminating namespaces, limited to the kinds in `bayplan.api.kinds`."""

    name: ClassVar[str] = "namespace-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._namespaces = self.watch(NAMESPACE, self.enqueue)

    async def sync(self, key: str) -> None:
        """Sync one namespace."""
        namespace: Namespace | None = self._namespaces.get(key)
        if namespace is None or namespace.metadata.deletionTimestamp is None:
            return
        finalizers = (namespace.spec.finalizers if namespace.spec else None) or []
        if FINALIZER not in finalizers:
            return
        left = [kind for kind in KINDS if kind.namespaced and kind != EVENT and not await self._empty(kind, key)]
        if left:
            self.queue.add_after(key, AGAIN)
            return
        spec = NamespaceSpec(finalizers=[one for one in finalizers if one != FINALIZER])
        body = json.encode(structs.replace(namespace, apiVersion="v1", kind="Namespace", spec=spec))
        try:
            await self.client.request("PUT", NAMESPACE.path(name=key, subresource="finalize"), body=body)
        except ApiError as error:
            if error.status != 404:  # deleted already
                raise

    async def _empty(self, kind: Kind, namespace: str) -> bool:
        """Delete all objects of a kind. Returns whether there were none."""
        try:
            if not (await self.client.list(kind, namespace, limit=1)).items:
                return True
            await self.client.request("DELETE", kind.path(namespace))
        except ApiError as error:
            if error.status in {404, 405}:  # not served or not deletable
                return True
            raise
        return False
