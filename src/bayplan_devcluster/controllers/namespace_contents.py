"""The objects that every namespace has: a default service account, and the certificate authority of the API server.

Mirrors Kubernetes' pkg/controller/serviceaccount and pkg/controller/certificates/rootcacertpublisher.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from lightkube.models.core_v1 import ConfigMap, ServiceAccount
from lightkube.models.meta_v1 import ObjectMeta

from bayplan.core.api.kinds import CONFIG_MAP, NAMESPACE, SERVICE_ACCOUNT, Kind
from bayplan.core.api.served import Namespace
from bayplan_devcluster.controllers.controller import Controller, ControllerContext, Ignored
from bayplan_devcluster.controllers.informers import latest

ROOT_CA = "kube-root-ca.crt"
"""The name of the ConfigMap with the certificate authority."""
DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)


class _NamespaceContents(Controller):
    """Keeps one object in every namespace."""

    workers: ClassVar[int] = 1
    kind: ClassVar[Kind]
    object_name: ClassVar[str]

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._namespaces = self.watch(NAMESPACE, self.enqueue)
        self._objects = self.watch(self.kind, self._object_changed)

    @abstractmethod
    def new(self) -> Any:
        """The object of a namespace that lacks it."""

    async def restore(self, current: Any, namespace: str) -> None:
        """Undo changes of the object."""

    async def sync(self, key: str) -> None:
        """Sync one namespace."""
        namespace: Namespace | None = self._namespaces.get(key)
        if namespace is None or namespace.metadata.deletionTimestamp is not None:
            return
        current = self._objects.get(f"{key}/{self.object_name}")
        if current is not None:
            await self.restore(current, key)
            return
        with Ignored(409):  # it exists already
            await self.client.create(self.kind, self.new(), key)

    def _object_changed(self, old: Any, new: Any) -> None:
        metadata = latest(old, new).metadata
        if metadata.name == self.object_name:
            self.queue.add(metadata.namespace)


class ServiceAccountController(_NamespaceContents):
    """Keeps the service account "default" in every namespace."""

    name: ClassVar[str] = "serviceaccount-controller"
    kind: ClassVar[Kind] = SERVICE_ACCOUNT
    object_name: ClassVar[str] = "default"

    def new(self) -> ServiceAccount:
        """The service account of a namespace."""
        return ServiceAccount(metadata=ObjectMeta(name=self.object_name))


class RootCaPublisher(_NamespaceContents):
    """Keeps the ConfigMap `kube-root-ca.crt` in every namespace. Its `ca.crt` is empty if the server has no TLS."""

    name: ClassVar[str] = "root-ca-certificate-publisher"
    kind: ClassVar[Kind] = CONFIG_MAP
    object_name: ClassVar[str] = ROOT_CA

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._data = {"ca.crt": context.root_ca}

    def new(self) -> ConfigMap:
        """The ConfigMap of a namespace, with the certificate of the server's authority."""
        metadata = ObjectMeta(name=ROOT_CA, annotations={"kubernetes.io/description": DESCRIPTION})
        return ConfigMap(metadata=metadata, data=self._data)

    async def restore(self, current: Any, namespace: str) -> None:
        """Put the certificate back if the ConfigMap was changed."""
        if current.data != self._data:
            await self.client.patch(CONFIG_MAP, ROOT_CA, {"data": self._data}, namespace)
