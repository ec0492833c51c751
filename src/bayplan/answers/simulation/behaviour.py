"""How a simulated cluster behaves: when pods start and terminate, and what replaces them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import msgspec

from bayplan.answers.simulation.owners import owner_kind, workload_of
from bayplan.core.api.kinds import DAEMON_SET, STATEFUL_SET
from bayplan.core.api.objects import encode
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.queue import RetryTimes

DEFAULT_GRACE = 30
_NODE_KIND = "Node"
"""The owner of mirror pods, which the kubelet makes."""


@dataclass(frozen=True, slots=True)
class Startup:
    """Every pod takes `seconds` from its binding until it is ready, whatever its images and volumes."""

    seconds: float = 5.0

    def of(self, pod: PodInfo) -> float:
        """Return the seconds until a bound pod is ready."""
        return self.seconds


@dataclass(frozen=True, slots=True)
class Termination:
    """An evicted pod takes `seconds` to end, but never longer than its `terminationGracePeriodSeconds`.

    `seen`: how long pods of workloads took, those of "" for all others; each pod takes as long as one of them. One that
    has not started yet is gone at once.
    """

    seconds: float = 5.0
    seen: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def of(self, pod: PodInfo) -> float:
        """Return the seconds until an evicted pod that runs is gone."""
        grace = pod.spec.terminationGracePeriodSeconds
        seen = (self.seen.get(workload_of(pod)) or self.seen.get("")) if self.seen else None
        seconds = seen[crc32(pod.uid.encode()) % len(seen)] if seen else self.seconds
        return min(seconds, DEFAULT_GRACE if grace is None else grace)


@dataclass(frozen=True, slots=True)
class Controllers:
    """Every pod with a controller is replaced `seconds` after its eviction; bare pods are lost.

    StatefulSets replace a pod once it is gone, as does what creates a bare pod again; the others do at once, Jobs as
    their default `podReplacementPolicy` says. A pod of a DaemonSet is replaced on its node, and only while the node
    exists.
    """

    seconds: float = 0.1

    def replaces(self, pod: PodInfo) -> bool:
        """Whether a pod is replaced after an eviction."""
        return owner_kind(pod) not in {"", _NODE_KIND}

    def waits_until_gone(self, pod: PodInfo) -> bool:
        """Whether the replacement is created only once the pod is gone."""
        return owner_kind(pod) in {"", STATEFUL_SET.kind, DAEMON_SET.kind}

    def replacement(self, pod: PodInfo, number: int) -> PodInfo:
        """Return the pod that replaces another one. `number`: how many there were before it."""
        return self._like(pod, f"+{number}")

    def successor(self, pod: PodInfo, number: int) -> PodInfo:
        """Return the pod that a Job creates after one has completed. `number`: that of no other one of the Job."""
        return self._like(pod, f"+next-{number}")

    def _like(self, pod: PodInfo, suffix: str) -> PodInfo:
        document: dict[str, Any] = msgspec.json.decode(pod.raw)
        metadata, spec = document["metadata"], document["spec"]
        spec.pop("nodeName", None)
        metadata.pop("deletionTimestamp", None)
        document.pop("status", None)
        uid = pod.uid.rpartition("+")[0] or pod.uid
        metadata["uid"] = f"{uid}{suffix}"
        if owner_kind(pod) != STATEFUL_SET.kind:
            metadata["name"] = f"{pod.name.rpartition('+')[0] or pod.name}{suffix}"
        return PodInfo.from_raw(encode(document))


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How a simulated cluster behaves.

    `attempt_seconds`: how long an attempt takes. `binding_seconds`: how long after it the pod is bound. `retries`: when
    the scheduler attempts rejected pods again.
    """

    startup: Startup = field(default_factory=Startup)
    termination: Termination = field(default_factory=Termination)
    controllers: Controllers = field(default_factory=Controllers)
    attempt_seconds: float = 0.002
    binding_seconds: float = 0.0
    retries: RetryTimes = field(default_factory=RetryTimes)
