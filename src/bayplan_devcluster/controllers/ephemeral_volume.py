"""Creates the claims of generic ephemeral volumes. Mirrors pkg/controller/volume/ephemeral/controller.go."""

from __future__ import annotations

from typing import Any, ClassVar

from lightkube.models.core_v1 import PersistentVolumeClaim as Claim
from lightkube.models.meta_v1 import ObjectMeta

from bayplan.core.api.kinds import PERSISTENT_VOLUME_CLAIM, POD
from bayplan.core.api.served import PersistentVolumeClaim, Pod
from bayplan.core.api.volumes import claim_name, is_controlled_by
from bayplan.core.expansion import pods
from bayplan.core.expansion.owner_references import controller_reference
from bayplan.running.client.errors import ApiError
from bayplan_devcluster.controllers.controller import Controller, ControllerContext
from bayplan_devcluster.controllers.informers import key_of
from bayplan_devcluster.controllers.pod_volumes import claim_keys


class EphemeralVolumeController(Controller):
    """Creates `<pod>-<volume>` for each ephemeral volume of a pod, owned by the pod.

    If another owner has a claim of that name, the controller records an event and waits until the claim is deleted.
    """

    name: ClassVar[str] = "ephemeral_volume"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._claims = self.watch(PERSISTENT_VOLUME_CLAIM)
        self._pods = self.watch(POD, self._pod_changed)
        self._by_claim = self._pods.index(claim_keys)
        self._claims.listen(self._claim_changed)

    async def sync(self, key: str) -> None:
        """Create the claims for the volumes of one pod."""
        pod: Pod | None = self._pods.get(key)
        if pod is None or pods.is_terminating(pod):
            return
        for volume in pod.spec.volumes or ():
            if volume.ephemeral is not None and not await self._has_claim(pod, volume):
                return

    async def _has_claim(self, pod: Pod, volume: Any) -> bool:
        namespace, name = pod.metadata.namespace, claim_name(pod.metadata.name, volume)
        claim: PersistentVolumeClaim | None = self._claims.get(f"{namespace}/{name}")
        if claim is not None:
            if is_controlled_by(claim, pod.metadata.uid):
                return True
            owner = f"{namespace}/{pod.metadata.name}"
            self._failed(pod, volume, f"PVC {namespace}/{name} was not created for pod {owner} (pod is not owner)")
            return False  # a change or the deletion of the claim queues the pod again
        template = volume.ephemeral.volumeClaimTemplate
        described = template.metadata or ObjectMeta()
        metadata = ObjectMeta(
            name=name,
            labels=described.labels,
            annotations=described.annotations,
            ownerReferences=[controller_reference(POD, pod)],
        )
        try:
            created = await self.client.create(
                PERSISTENT_VOLUME_CLAIM, Claim(metadata=metadata, spec=template.spec), namespace
            )
        except ApiError as error:
            self._failed(pod, volume, f"create PVC {name}: {error.message}")
            raise
        await self._claims.observe([created])
        return True

    def _failed(self, pod: Pod, volume: Any, why: str) -> None:
        self.recorder.warning(POD, pod, "FailedBinding", f"ephemeral volume {volume.name}: {why}")

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is not None and (old is None or old.metadata.uid != new.metadata.uid):
            self._enqueue_pod(new)

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        """Queue the pod of a claim that was deleted or changed."""
        if old is not None and (new is None or old.metadata.ownerReferences != new.metadata.ownerReferences):
            for pod in self._by_claim.get(key_of(old)):
                self._enqueue_pod(pod)

    def _enqueue_pod(self, pod: Pod) -> None:
        if any(volume.ephemeral is not None for volume in pod.spec.volumes or ()) and not pods.is_terminating(pod):
            self.queue.add(key_of(pod))
