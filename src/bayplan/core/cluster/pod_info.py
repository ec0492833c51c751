"""PodInfo: a pod with the values that scheduling needs, computed once.

A bound pod keeps these and its raw bytes; the whole object is decoded again when it is read. Versions of a pod are
values: a new version is another PodInfo. Simulations set fields of pods that they have just made. Mirrors
framework.PodInfo (pkg/scheduler/framework/types.go).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

import msgspec
from lightkube.models.core_v1 import Pod, PodSpec, PodStatus, Volume
from lightkube.models.meta_v1 import ObjectMeta
from msgspec import structs

from bayplan.core.api import requests, resource_lists, tolerations, volumes
from bayplan.core.api.node_allocatable import ClaimedResources
from bayplan.core.api.objects import decode, encode
from bayplan.core.api.requests import claimed_resources
from bayplan.core.api.times import seconds_since_epoch, with_zone
from bayplan.core.api.tolerations import Tolerations

DEFAULT_REQUESTS: Mapping[str, int] = {requests.CPU: 100 * 10**6, requests.MEMORY: 200 * 2**20 * 10**9}
"""Scoring's defaults for containers that request no cpu or memory (100m, 200Mi), in nano-units."""

_NO_LABELS: Mapping[str, str] = {}


ANY_IP = "0.0.0.0"  # noqa: S104 - the API's value for all addresses of a node; nothing listens on it here


T = TypeVar("T")
_QOS = (__name__, "qos_class")
_ATOMIC = (__name__, "atomic")
"""In the cache of pods whose requests are known to be right since 1.37."""


class HostPort(NamedTuple):
    """A host port that a pod uses on its node."""

    ip: str
    protocol: str
    port: int


class PodInfo:
    """An immutable version of a pod. An updated pod is a new PodInfo.

    `requested`: what the pod requests from its node, resizes in progress included, in millicores of cpu and base units
    of other resources. `nonzero_cpu` and `nonzero_memory`: the same, with scoring's defaults for containers without
    requests. `spec`, `status` and `metadata` read the whole object, which is decoded again if it was released. Raises
    InvalidQuantity for invalid resource quantities.
    """

    __slots__ = (
        "_object",
        "_raw",
        "_tolerations",
        "_unassigned",
        "cache",
        "counted_claims",
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
        "spec_cache",
        "started",
        "uid",
        "volumes",
    )

    def __init__(self, pod: Pod, raw: bytes | None = None) -> None:
        metadata, spec, status = pod.metadata, pod.spec, pod.status
        if metadata is None or spec is None:
            raise ValueError("a pod needs metadata and a spec")
        self._object: Pod | None = pod
        self._raw = raw
        self._unassigned: bytes | None = None
        """For an assumed pod: its JSON without the node."""
        self._tolerations: Tolerations | None = None
        self.node_name: str = spec.nodeName or ""
        self.scheduler_name: str = spec.schedulerName or "default-scheduler"
        self.priority: int = spec.priority or 0
        self.scheduling_gates: tuple[str, ...] = tuple([gate.name for gate in spec.schedulingGates or ()])
        self.host_ports: tuple[HostPort, ...] = _host_ports(spec)
        self.volumes: tuple[Volume, ...] = volumes.decisive(spec) if spec.volumes else ()
        """The volumes that scheduling may depend on: claims and disks, but no secrets or scratch space."""
        self.requested: dict[str, int]
        self.nonzero_cpu: int
        self.nonzero_memory: int
        self._count(pod)
        self.counted_claims: tuple[str, ...] = tuple([each.resourceClaimName for each in claimed_resources(pod)])
        """The claims through which it takes resources of its node, by name."""
        self.spec_cache: dict[Hashable, Any] = {}
        """Like `cache`, for values that depend only on the spec, except its node, and on what is computed from it."""
        self._read(metadata, status)

    def _count(self, pod: Pod, *, atomic: bool = False) -> None:
        """Read the requests. `atomic`: see `requests.pod_requests`."""
        amounts = requests.pod_requests(pod, use_status=True, atomic=atomic)
        self.requested = requests.counted(amounts)
        self.nonzero_cpu, self.nonzero_memory = _nonzero(pod, amounts, self.requested, atomic=atomic)

    def _read(self, metadata: ObjectMeta, status: PodStatus | None) -> None:
        """Read the metadata and the status."""
        self.namespace: str = metadata.namespace or "default"
        self.name: str = metadata.name or ""
        self.uid: str = metadata.uid or f"{self.namespace}/{self.name}"
        self.resource_version: str = metadata.resourceVersion or ""
        self.labels: Mapping[str, str] = metadata.labels or _NO_LABELS
        created = metadata.creationTimestamp
        self.creation_timestamp: datetime | None = with_zone(created) if created else None
        self.deletion_timestamp: Any = metadata.deletionTimestamp
        self.phase: str = (status.phase if status else None) or "Pending"
        self.nominated_node_name: str = (status.nominatedNodeName if status else None) or ""
        self.started: float = seconds_since_epoch(status.startTime) if status and status.startTime else math.inf
        """When the pod started on its node, in seconds since the epoch; infinity if it has not."""
        self.cache: dict[Hashable, Any] = {}
        """Values that plugins derive from this pod alone, by the plugins' keys."""

    def of_spec(self, key: Hashable, compute: Callable[[PodInfo], T]) -> T:
        """Return `compute(self)`, which must depend only on what `spec_cache` may depend on; computed once."""
        value: T | None = self.spec_cache.get(key)
        if value is None:
            value = self.spec_cache[key] = compute(self)
        return value

    @classmethod
    def from_raw(cls, raw: bytes) -> PodInfo:
        """Make a PodInfo from a pod's JSON, which is kept. Raises UndecodableObject or InvalidQuantity."""
        return cls(decode(Pod, raw), raw)

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def object(self) -> Pod:
        """The whole pod, decoded again from its bytes if it was released."""
        return decode(Pod, self.raw) if self._object is None else self._object

    @property
    def raw(self) -> bytes:
        """The pod as JSON. A pod from the API server has the JSON that was received, with the node it is assumed on."""
        if self._raw is not None:
            return self._raw
        return encode(self.object) if self._unassigned is None else _with_node(self._unassigned, self.node_name)

    @property
    def metadata(self) -> ObjectMeta:
        """The pod's metadata."""
        metadata = (self._object or self.object).metadata
        assert metadata is not None
        return metadata

    @property
    def annotations(self) -> Mapping[str, str]:
        """The pod's annotations."""
        return self.metadata.annotations or _NO_LABELS

    @property
    def spec(self) -> PodSpec:
        """The pod's spec."""
        spec = (self._object or self.object).spec
        assert spec is not None
        return spec

    @property
    def status(self) -> PodStatus:
        """The pod's status; empty if it has none."""
        return self.object.status or PodStatus()

    @property
    def tolerations(self) -> Tolerations:
        """The pod's tolerations."""
        if self._tolerations is None:
            self._tolerations = tolerations.parse(self.spec.tolerations)
        return self._tolerations

    @property
    def qos_class(self) -> str:
        """The quality of service: Guaranteed, Burstable or BestEffort. The API server says it; else, the spec does."""
        return self.status.qosClass or self.of_spec(_QOS, _qos_class)

    @property
    def terminated(self) -> bool:
        """Whether the pod has terminated (Succeeded or Failed), and uses no resources of its node any more."""
        return self.phase in {"Succeeded", "Failed"}

    @property
    def assumed(self) -> bool:
        """Whether the scheduler has chosen the pod's node, and the API server has not confirmed it yet."""
        return self._unassigned is not None

    @property
    def terminating(self) -> bool:
        """Whether the pod is being deleted."""
        return self.deletion_timestamp is not None

    def on_node(self, node_name: str) -> PodInfo:
        """Return the pod as it is assumed on a node, as if it were bound to it; with "", as it is without a node.

        The decoded object is kept for a pod without a node, which is decided about, and for no other: it is rarely read
        before the bound pod arrives from the API server.
        """
        if node_name == self.node_name:
            return self
        other = self._copy(None, self._unassigned or self.raw)
        other.node_name = node_name
        if not node_name:
            other._object = other.object  # noqa: SLF001 - of this class
        return other

    def with_claimed(self, taken: list[ClaimedResources]) -> PodInfo:
        """Return the pod as it counts with what it takes of its node through claims."""
        status = structs.replace(self.status, nodeAllocatableResourceClaimStatuses=taken)
        return PodInfo(structs.replace(self.object, status=status))

    def with_atomic_resizes(self) -> PodInfo:
        """Return the pod as it counts since 1.37: see `atomic` of `requests.pod_requests`. Mostly, that is the same."""
        if _ATOMIC in self.cache:
            return self
        pod = self.object
        if not requests.may_count_otherwise(pod):
            self.cache[_ATOMIC] = True
            return self
        other = self._copy(pod, self._unassigned)
        other._raw, other.cache = self._raw, {_ATOMIC: True}  # noqa: SLF001 - of this class
        other._count(pod, atomic=True)  # noqa: SLF001
        return other

    def replica(self, name: str, uid: str, node_name: str) -> PodInfo:
        """Return a pod that differs only in its name, its uid and its node.

        The two share `cache`: no plugin may have derived a value from what differs.
        """
        metadata = structs.replace(self.metadata, name=name, uid=uid)
        spec = structs.replace(self.spec, nodeName=node_name)
        obj = structs.replace(self.object, metadata=metadata, spec=spec)
        other = self._copy(obj, None)
        other.name, other.uid, other.node_name = name, uid, node_name
        return other

    def with_equal_spec(self, metadata: ObjectMeta, status: PodStatus | None, node_name: str, raw: bytes) -> PodInfo:
        """Return a pod with this pod's spec, but another node, and a status that changes none of its requests."""
        spec = structs.replace(self.spec, nodeName=node_name) if node_name else self.spec
        other = self._copy(Pod(metadata=metadata, spec=spec, status=status), None)
        other._raw, other.node_name = raw, node_name  # noqa: SLF001
        other._read(metadata, status)  # noqa: SLF001
        return other

    def _copy(self, obj: Pod | None, unassigned: bytes | None) -> PodInfo:
        """Return a copy without the JSON. A loop over the slots would take several times as long, for every pod."""
        other = PodInfo.__new__(PodInfo)
        other._object, other._raw, other._unassigned = obj, None, unassigned  # noqa: SLF001 - of this class
        other._tolerations = self._tolerations  # noqa: SLF001
        other.namespace = self.namespace
        other.name = self.name
        other.uid = self.uid
        other.resource_version = self.resource_version
        other.labels = self.labels
        other.creation_timestamp = self.creation_timestamp
        other.deletion_timestamp = self.deletion_timestamp
        other.node_name = self.node_name
        other.scheduler_name = self.scheduler_name
        other.priority = self.priority
        other.scheduling_gates = self.scheduling_gates
        other.phase = self.phase
        other.nominated_node_name = self.nominated_node_name
        other.started = self.started
        other.counted_claims = self.counted_claims
        other.host_ports = self.host_ports
        other.volumes = self.volumes
        other.requested = self.requested
        other.nonzero_cpu = self.nonzero_cpu
        other.nonzero_memory = self.nonzero_memory
        other.spec_cache = self.spec_cache
        other.cache = self.cache
        return other

    def release(self) -> None:
        """Drop the decoded object if its JSON is kept. Most bound pods are never read again."""
        if self._raw is not None:
            self._object = None

    def __repr__(self) -> str:
        return f"PodInfo({self.key}{f' on {self.node_name}' if self.node_name else ''})"


def _with_node(raw: bytes, node_name: str) -> bytes:
    """Set the node name in a pod's JSON. Unknown fields are kept."""
    pod = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    spec = msgspec.json.decode(pod["spec"], type=dict[str, msgspec.Raw])
    spec["nodeName"] = msgspec.Raw(msgspec.json.encode(node_name))
    pod["spec"] = msgspec.Raw(msgspec.json.encode(spec))
    return msgspec.json.encode(pod)


def _host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    sidecars = [container for container in spec.initContainers or () if container.restartPolicy == "Always"]
    return tuple(
        [
            HostPort(port.hostIP or ANY_IP, port.protocol or "TCP", port.hostPort)
            for container in (*(spec.containers or ()), *sidecars)
            for port in container.ports or ()
            if port.hostPort
        ]
    )


def _nonzero(pod: Pod, amounts: requests.Amounts, requested: Mapping[str, int], *, atomic: bool) -> tuple[int, int]:
    """Return the requests that scoring uses: cpu in millicores, memory in bytes."""
    if requests.pod_level_requests(pod):
        missing = {name: nanos for name, nanos in DEFAULT_REQUESTS.items() if name not in amounts}
    elif _all_containers_request_both(pod) and not requests.resize_infeasible(pod):
        missing = {}
    else:
        missing = dict(DEFAULT_REQUESTS)
    if missing:
        requested = requests.counted(requests.pod_requests(pod, use_status=True, missing=missing, atomic=atomic))
    return requested.get(requests.CPU, 0), requested.get(requests.MEMORY, 0)


def _qos_class(pod: PodInfo) -> str:
    return resource_lists.qos_class(msgspec.json.decode(encode(pod.spec)))


def _all_containers_request_both(pod: Pod) -> bool:
    spec = pod.spec
    assert spec is not None
    return all(
        container.resources is not None
        and container.resources.requests is not None
        and requests.CPU in container.resources.requests
        and requests.MEMORY in container.resources.requests
        for container in (*(spec.containers or ()), *(spec.initContainers or ()))
    )
