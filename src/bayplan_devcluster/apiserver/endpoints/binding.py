"""Binds a pod to a node.

Mirrors BindingREST of Kubernetes' pkg/registry/core/pod/storage/storage.go and the admission plugin PodTopologyLabels.
"""

from __future__ import annotations

from bayplan.core.api.kinds import POD
from bayplan.core.api.status import MODIFIED, StatusError, bad_request, conflict, internal
from bayplan.core.api.times import rfc3339
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.storage.resource import Resource
from bayplan_devcluster.apiserver.storage.rest_storage import RestStorage

TOPOLOGY_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")

SUCCESS: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def bind(
    storage: RestStorage, pods: Resource, namespace: str, name: str, binding: Object, *, dry_run: bool = False
) -> Object:
    """Carries out a Binding. Raises 404 or 409, and 400 or 500 for an invalid Binding."""
    target, metadata = _read(name, binding, pods)
    pod = storage.load(pods, namespace, name)
    _check(pod, metadata)
    pod["spec"]["nodeName"] = target["name"]
    if annotations := metadata.get("annotations"):
        pod["metadata"]["annotations"] = {**pod["metadata"].get("annotations", {}), **annotations}
    labels = {**(metadata.get("labels") or {}), **_topology(storage, target)}
    if labels:
        pod["metadata"]["labels"] = {**pod["metadata"].get("labels", {}), **labels}
    status = pod["status"]
    status.pop("nominatedNodeName", None)
    set_condition(status, {"type": "PodScheduled", "status": "True"}, rfc3339(storage.clock.now()))
    storage.write(pods, pod, dry_run=dry_run)
    return SUCCESS


def _read(name: str, binding: Object, pods: Resource) -> tuple[Object, Object]:
    target, metadata = binding["target"], binding["metadata"]
    if metadata.get("name", "") != name:
        raise bad_request("name in URL does not match name in Binding object")
    if target.get("kind", "") not in {"", "Node"}:
        raise internal(f'target.kind: Unsupported value: "{target["kind"]}": supported values: "Node", "<empty>"')
    if not target.get("name"):
        raise internal("target.name: Required value")
    for error in pods.strategy.validate_binding(target):
        raise internal(str(error))
    return target, metadata


def _check(pod: Object, binding: Object) -> None:
    metadata, spec, name = pod["metadata"], pod["spec"], pod["metadata"]["name"]
    wanted = binding.get("uid", "")
    if wanted and wanted != metadata["uid"]:
        key = f"/registry/pods/{metadata['namespace']}/{name}"
        raise conflict(
            POD,
            name,
            f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition "
            f"failed: UID in precondition: {wanted}, UID in object meta: {metadata['uid']}",
        )
    if binding.get("resourceVersion", metadata["resourceVersion"]) != metadata["resourceVersion"]:
        raise conflict(POD, name, MODIFIED)
    if "deletionTimestamp" in metadata:
        raise _binding_conflict(name, f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise _binding_conflict(name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise _binding_conflict(name, f"pod {name} has non-empty .spec.schedulingGates")


def _binding_conflict(name: str, why: str) -> StatusError:
    return conflict(POD, name, why, "binding")


def _topology(storage: RestStorage, target: Object) -> dict[str, str]:
    """Returns the topology labels that the pod inherits from the node."""
    if target.get("kind") != "Node":
        return {}
    node = storage.store.collection("nodes").objects.get(target["name"])
    return {} if node is None else {key: node.labels[key] for key in TOPOLOGY_LABELS if key in node.labels}


def set_condition(status: Object, condition: Object, now: str) -> None:
    """Sets a pod's condition. The time of the last transition stays the same unless the condition's status changes.

    Mirrors UpdatePodCondition of Kubernetes' pkg/api/pod/util.go.
    """
    conditions = status.setdefault("conditions", [])
    fresh = {"lastProbeTime": None, "lastTransitionTime": now, **condition}
    for index, old in enumerate(conditions):
        if old["type"] == condition["type"]:
            if old["status"] == condition["status"]:
                fresh["lastTransitionTime"] = old.get("lastTransitionTime")
            conditions[index] = fresh
            return
    conditions.append(fresh)
