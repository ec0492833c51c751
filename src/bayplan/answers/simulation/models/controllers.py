"""Controllers: what replaces evicted pods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from bayplan.answers.simulation.owners import owners_of
from bayplan.core.api.kinds import DAEMON_SET, STATEFUL_SET
from bayplan.core.api.objects import encode
from bayplan.core.cluster.pod_info import PodInfo

_NODE_KIND = "Node"
"""The owner of mirror pods, which the kubelet makes."""


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
        return self._kind(pod) not in {"", _NODE_KIND}

    def waits_until_gone(self, pod: PodInfo) -> bool:
        """Whether the replacement is created only once the pod is gone."""
        return self._kind(pod) in {"", STATEFUL_SET.kind, DAEMON_SET.kind}

    def replacement(self, pod: PodInfo, number: int) -> PodInfo:
        """Return the pod that replaces another one. `number`: how many there were before it."""
        document: dict[str, Any] = msgspec.json.decode(pod.raw)
        metadata, spec = document["metadata"], document["spec"]
        spec.pop("nodeName", None)
        metadata.pop("deletionTimestamp", None)
        document.pop("status", None)
        uid = pod.uid.rpartition("+")[0] or pod.uid
        metadata["uid"] = f"{uid}+{number}"
        if self._kind(pod) != STATEFUL_SET.kind:
            metadata["name"] = f"{pod.name.rpartition('+')[0] or pod.name}+{number}"
        return PodInfo.from_raw(encode(document))

    @staticmethod
    def _kind(pod: PodInfo) -> str:
        return next((kind for kind, _ in owners_of(pod)), "")
