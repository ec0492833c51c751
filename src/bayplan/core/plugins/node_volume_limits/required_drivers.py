"""The CSI drivers that a node must have for a new volume. Mirrors checkCSIDriverOnNode (nodevolumelimits/csi.go)."""

from __future__ import annotations

from lightkube.models.storage_v1 import CSIDriver

from bayplan.core.cluster.objects import ObjectStore


class RequiredDrivers:
    """A view of the CSIDrivers: `names` of those with preventPodSchedulingIfMissing."""

    def __init__(self, drivers: ObjectStore) -> None:
        self.names: set[str] = set()
        drivers.listen(self._changed)

    def _changed(self, before: CSIDriver | None, now: CSIDriver | None) -> None:
        if before is not None and before.metadata is not None:
            self.names.discard(before.metadata.name or "")
        if now is not None and now.metadata is not None and now.spec.preventPodSchedulingIfMissing:
            self.names.add(now.metadata.name or "")
