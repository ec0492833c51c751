"""The volume and the claim that each pod gets, bound to one another. Mirrors CreatePodWithPersistentVolume."""

from __future__ import annotations

from typing import Any

from bayplan.api import kinds
from bayplan.api.objects import convert
from bayplan.cluster.objects import Objects
from bayplan.testing.scheduler_perf.templates import Template


def with_volume(
    pod: dict[str, Any], number: int, count: int, volume: Template, claim: Template, objects: Objects
) -> dict[str, Any]:
    """The pod with a volume of its own, which is made."""
    namespace = pod["metadata"]["namespace"]
    claim_name, volume_name = f"pvc-{number}", f"{namespace}-pv-{number}"
    made = volume.document(number, count)
    spec = dict(made["spec"])
    if "csi" in spec:
        spec["csi"] = {**spec["csi"], "volumeHandle": volume_name}
    elif "awsElasticBlockStore" in spec:
        spec["awsElasticBlockStore"] = {**spec["awsElasticBlockStore"], "volumeID": volume_name}
    spec["claimRef"] = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": claim_name}
    made = {**made, "metadata": {"name": volume_name}, "spec": spec, "status": {"phase": "Bound"}}
    objects[kinds.PERSISTENT_VOLUME].set(volume_name, convert(kinds.PERSISTENT_VOLUME.type, made))
    wanted = claim.document(number, count)
    metadata = {**(wanted.get("metadata") or {}), "name": claim_name, "namespace": namespace, "uid": volume_name}
    wanted = {**wanted, "metadata": metadata, "spec": {**wanted["spec"], "volumeName": volume_name}}
    typed = convert(kinds.PERSISTENT_VOLUME_CLAIM.type, {**wanted, "status": {"phase": "Bound"}})
    objects[kinds.PERSISTENT_VOLUME_CLAIM].set(f"{namespace}/{claim_name}", typed)
    volumes = [{"name": "vol", "persistentVolumeClaim": {"claimName": claim_name}}]
    return {**pod, "spec": {**pod["spec"], "volumes": volumes}}
