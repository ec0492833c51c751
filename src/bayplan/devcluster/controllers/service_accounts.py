"""Creates the default service account of every namespace. Mirrors pkg/controller/serviceaccount."""

from __future__ import annotations

from typing import Any, ClassVar

from lightkube.models.core_v1 import ServiceAccount
from lightkube.models.meta_v1 import ObjectMeta

from bayplan.api.kinds import NAMESPACE, SERVICE_ACCOUNT
from bayplan.devcluster.controllers.controller import Controller, ControllerContext, Ignored
from bayplan.devcluster.controllers.served import Namespace

DEFAULT = "default"


class ServiceAccountController(Controller):
    """Creates the service account "default" if it is missing."""

    name: ClassVar[str] = "serviceaccount-controller"
    workers: ClassVar[int] = 1

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._namespaces = self.watch(NAMESPACE, self.enqueue)
        self._accounts = self.watch(SERVICE_ACCOUNT, self._account_changed)

    async def sync(self, key: str) -> None:
        """Sync one namespace."""
        namespace: Namespace | None = self._namespaces.get(key)
        if namespace is None or namespace.metadata.deletionTimestamp is not None:
            return
        if self._accounts.get(f"{key}/{DEFAULT}") is None:
            with Ignored(409):  # it exists already
                await self.client.create(SERVICE_ACCOUNT, ServiceAccount(metadata=ObjectMeta(name=DEFAULT)), key)

    def _account_changed(self, old: Any, new: Any) -> None:
        if new is None:
            self.queue.add(old.metadata.namespace)
