"""PodInfo: what decisions need of a pod, computed once, with the whole object behind it.

Mirrors framework.PodInfo (pkg/scheduler/framework/types.go).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from lightkube.models.core_v1 import Pod, PodSpec, PodStatus, Volume
from lightkube.models.meta_v1 import ObjectMeta

from bayplan.api import requests, tolerations, volumes
from bayplan.api.objects import decode, encode
from bayplan.api.tolerations import Tolerations

DEFAULT_REQUESTS: Mapping[str, int] = {requests.CPU: 100 * 10**6, requests.MEMORY: 200 * 2**20 * 10**9}
"""What scoring assumes of a container that requests no cpu or memory, in nano-units (100m, 200Mi)."""

_NO_LABELS: Mapping[str, str] = {}


ANY_IP = "0.0.0.0"  # noqa: S104 - the API's word for every address of a node; nothing is bound to it here


class HostPort(NamedTuple):
    """One port that a pod takes on its node."""

    ip: str
    protocol: str
    port: int


class PodInfo:
    """A pod as the scheduler sees it. Values never change: a changed pod is a new PodInfo.

    `requested` is what the pod takes of a node (resizes in flight counted), in thousandths of a cpu and whole units
    of everything else; `nonzero_cpu` and `nonzero_memory` are the same with the scoring defaults for containers that
    request none. `spec`, `status` and `metadata` give the whole object, which is decoded again when it was released.
    Raises InvalidQuantity for a pod whose amounts cannot be read.
    """

    __slots__ = (
        "_object",
        "_raw",
        "_tolerations",
        "_unplaced",
        "cache",
        "creation_timestamp",
        "deletion_timestamp",
        "host_ports",
        "labels",
        "name",
        "namespace",
        "node_name",
        "nominated_node_name",
        "nonzero_cpu",
        "nonzero_memory",
        "phase",
        "priority",
        "requested",
        "resource_version",
        "scheduler_name",
        "scheduling_gates",
        "start_time",
        "uid",
        "volumes",
    )

    def __init__(self, pod: Pod, raw: bytes | None = None) -> None:
        metadata, spec, status = pod.metadata, pod.spec, pod.status
        if metadata is None or spec is None:
            raise ValueError("a pod needs metadata and a spec")
        self._object: Pod | None = pod
        self._raw = raw
        self._unplaced: bytes | None = None
        """Of an assumed pod: its JSON from before it had a node."""
        self._tolerations: Tolerations | None = None
        self.namespace: str = metadata.namespace or "default"
        self.name: str = metadata.name or ""
        self.uid: str = metadata.uid or f"{self.namespace}/{self.name}"
        self.resource_version: str = metadata.resourceVersion or ""
        self.labels: Mapping[str, str] = metadata.labels or _NO_LABELS
        self.creation_timestamp: Any = metadata.creationTimestamp
        self.deletion_timestamp: Any = metadata.deletionTimestamp
        self.node_name: str = spec.nodeName or ""
        self.scheduler_name: str = spec.schedulerName or "default-scheduler"
        self.priority: int = spec.priority or 0
        self.scheduling_gates: tuple[str, ...] = tuple(gate.name for gate in spec.schedulingGates or ())
        self.phase: str = (status.phase if status else None) or "Pending"
        self.nominated_node_name: str = (status.nominatedNodeName if status else None) or ""
        self.start_time: datetime | None = status.startTime if status else None
        self.host_ports: tuple[HostPort, ...] = _host_ports(spec)
        self.volumes: tuple[Volume, ...] = volumes.decisive(spec) if spec.volumes else ()
        """The volumes that decisions may depend on: claims and disks, but no secrets or scratch space."""
        amounts = requests.pod_requests(pod, use_status=True)
        self.requested: dict[str, int] = requests.counted(amounts)
        self.nonzero_cpu, self.nonzero_memory = _nonzero(pod, amounts, self.requested)
        self.cache: dict[Hashable, Any] = {}
        """What plugins computed of this pod, by a key of their own; gone with the pod."""

    @classmethod
    def from_raw(cls, raw: bytes) -> PodInfo:
        """A PodInfo of a pod as a server sent it; the bytes are kept. Raises UndecodableObject or InvalidQuantity."""
        return cls(decode(Pod, raw), raw)

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def object(self) -> Pod:
        """The whole pod."""
        return decode(Pod, self.raw) if self._object is None else self._object

    @property
    def raw(self) -> bytes:
        """The pod as JSON: exactly what the server sent, where it came from a server, but for the node it is put on."""
        if self._raw is not None:
            return self._raw
        return encode(self.object) if self._unplaced is None else _placed(self._unplaced, self.node_name)

    @property
    def metadata(self) -> ObjectMeta:
        """The pod's metadata."""
        metadata = self.object.metadata
        assert metadata is not None
        return metadata

    @property
    def annotations(self) -> Mapping[str, str]:
        """The pod's annotations."""
        return self.metadata.annotations or _NO_LABELS

    @property
    def spec(self) -> PodSpec:
        """The pod's spec."""
        spec = self.object.spec
        assert spec is not None
        return spec

    @property
    def status(self) -> PodStatus:
        """The pod's status; an empty one where it has none."""
        return self.object.status or PodStatus()

    @property
    def tolerations(self) -> Tolerations:
        """The pod's tolerations."""
        if self._tolerations is None:
            self._tolerations = tolerations.parse(self.spec.tolerations)
        return self._tolerations

    @property
    def terminated(self) -> bool:
        """Whether the pod is done (Succeeded or Failed) and takes nothing of its node any more."""
        return self.phase in {"Succeeded", "Failed"}

    @property
    def terminating(self) -> bool:
        """Whether the pod is being deleted."""
        return self.deletion_timestamp is not None

    def on_node(self, node_name: str) -> PodInfo:
        """The same pod as if it were bound to a node, as it is assumed while its binding is under way.

        Hardly anybody looks into it before its bound self arrives, so that it keeps no decoded object.
        """
        if node_name == self.node_name:
            return self
        assumed = PodInfo.__new__(PodInfo)
        for slot in PodInfo.__slots__:
            setattr(assumed, slot, getattr(self, slot))
        assumed._object, assumed.node_name = None, node_name  # noqa: SLF001 - of its own class
        assumed._raw, assumed._unplaced = None, self._unplaced or self.raw  # noqa: SLF001
        return assumed

    def release(self) -> None:
        """Let go of the decoded object where its bytes are at hand: most bound pods are never looked into again."""
        if self._raw is not None:
            self._object = None

    def __repr__(self) -> str:
        return f"PodInfo({self.key}{f' on {self.node_name}' if self.node_name else ''})"


def _placed(raw: bytes, node_name: str) -> bytes:
    """The JSON of a pod with another node name; fields that are not known here survive."""
    pod = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    spec = msgspec.json.decode(pod["spec"], type=dict[str, msgspec.Raw])
    spec["nodeName"] = msgspec.Raw(msgspec.json.encode(node_name))
    pod["spec"] = msgspec.Raw(msgspec.json.encode(spec))
    return msgspec.json.encode(pod)


def _host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    return tuple(
        HostPort(port.hostIP or ANY_IP, port.protocol or "TCP", port.hostPort)
        for container in (*(spec.containers or ()), *_sidecars(spec))
        for port in container.ports or ()
        if port.hostPort
    )


def _sidecars(spec: PodSpec) -> list[Any]:
    return [container for container in spec.initContainers or () if container.restartPolicy == "Always"]


def _nonzero(pod: Pod, amounts: requests.Amounts, requested: Mapping[str, int]) -> tuple[int, int]:
    """What scoring takes the pod to request of cpu (thousandths) and memory (bytes)."""
    if requests.pod_level_requests(pod):
        missing = {name: nanos for name, nanos in DEFAULT_REQUESTS.items() if name not in amounts}
    elif _every_container_states_both(pod):
        missing = {}
    else:
        missing = dict(DEFAULT_REQUESTS)
    if missing:
        requested = requests.counted(requests.pod_requests(pod, use_status=True, missing=missing))
    return requested.get(requests.CPU, 0), requested.get(requests.MEMORY, 0)


def _every_container_states_both(pod: Pod) -> bool:
    spec = pod.spec
    assert spec is not None
    return all(
        container.resources is not None
        and container.resources.requests is not None
        and requests.CPU in container.resources.requests
        and requests.MEMORY in container.resources.requests
        for container in (*(spec.containers or ()), *(spec.initContainers or ()))
    )
