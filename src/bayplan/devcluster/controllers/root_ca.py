"""Publishes the certificate authority of the API server in every namespace.

Mirrors Kubernetes' pkg/controller/certificates/rootcacertpublisher.
"""

from __future__ import annotations

from typing import Any, ClassVar

from lightkube.models.core_v1 import ConfigMap
from lightkube.models.meta_v1 import ObjectMeta

from bayplan.api.kinds import CONFIG_MAP, NAMESPACE
from bayplan.devcluster.controllers.controller import Controller, ControllerContext, Ignored
from bayplan.devcluster.controllers.informers import latest
from bayplan.devcluster.controllers.served import Namespace

NAME = "kube-root-ca.crt"
DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)


class RootCaPublisher(Controller):
    """Keeps the ConfigMap `kube-root-ca.crt` in every namespace. Its `ca.crt` is empty if the server has no TLS."""

    name: ClassVar[str] = "root-ca-certificate-publisher"
    workers: ClassVar[int] = 1

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._data = {"ca.crt": context.root_ca}
        self._namespaces = self.watch(NAMESPACE, self.enqueue)
        self._config_maps = self.watch(CONFIG_MAP, self._config_map_changed)

    async def sync(self, key: str) -> None:
        """Create or restore the ConfigMap of one namespace."""
        namespace: Namespace | None = self._namespaces.get(key)
        if namespace is None or namespace.metadata.deletionTimestamp is not None:
            return
        current = self._config_maps.get(f"{key}/{NAME}")
        if current is None:
            metadata = ObjectMeta(name=NAME, annotations={"kubernetes.io/description": DESCRIPTION})
            await self._create(ConfigMap(metadata=metadata, data=self._data), key)
        elif current.data != self._data:
            await self.client.patch(CONFIG_MAP, NAME, {"data": self._data}, key)

    async def _create(self, config_map: ConfigMap, namespace: str) -> None:
        with Ignored(409):  # it exists already
            await self.client.create(CONFIG_MAP, config_map, namespace)

    def _config_map_changed(self, old: Any, new: Any) -> None:
        metadata = latest(old, new).metadata
        if metadata.name == NAME:
            self.queue.add(metadata.namespace)
