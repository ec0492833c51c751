"""Which pods that are deleted, or evicted, their controllers replace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from bayplan.answers.insight.owners import WORKLOADS
from bayplan.answers.simulation.owners import PodOwner, controller_of, is_replaced
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kinds import JOB, REPLICA_SET, REPLICATION_CONTROLLER, STATEFUL_SET, Kind
from bayplan.core.cluster.pod_info import PodInfo

_COUNTED = frozenset({REPLICA_SET, REPLICATION_CONTROLLER})
"""The kinds that replace any pod by any other one, up to a number."""
_KINDS = {kind.kind: kind for kind in WORKLOADS}


def replaced_pods(
    snapshot: Snapshot, gone: Sequence[PodInfo], siblings: Callable[[PodOwner, str], int]
) -> frozenset[str]:
    """Return the keys of the pods that come again when these pods are gone.

    A controller that doesn't exist replaces none, if the snapshot has any of its kind. ReplicaSets make as many as they
    lack; others replace those that are being deleted only if a new pod waits for the end of the old one. `siblings`:
    how many pods a controller in a namespace has with those that go, without those that are being deleted.
    """
    found = set[str]()
    by_owner = defaultdict[tuple[str, PodOwner], list[PodInfo]](list)
    for pod in gone:
        owner = controller_of(pod)
        if owner is not None:
            by_owner[pod.namespace, owner].append(pod)
    for (namespace, owner), pods in by_owner.items():
        kind = _KINDS.get(owner.kind)
        document = None if kind is None else snapshot.document(kind, f"{namespace}/{owner.name}")
        if kind is None or (document is None and not snapshot.of_kind(kind)):
            again = [pod for pod in pods if is_replaced(pod)]
        elif document is None:
            again = []
        elif kind in _COUNTED:
            running = [pod for pod in pods if not pod.terminating]
            left = siblings(owner, namespace) - len(running)
            lacking = max(_number(document, "replicas", 1) - left, 0)
            again = sorted(pods, key=lambda pod: pod.terminating)[:lacking]
        else:
            again = [pod for pod in pods if _comes_again(kind, document, pod)]
        found.update(pod.key for pod in again)
    return frozenset(found)


def _comes_again(kind: Kind, document: dict[str, Any], pod: PodInfo) -> bool:
    if kind is STATEFUL_SET:
        first = ((document.get("spec") or {}).get("ordinals") or {}).get("start") or 0
        ordinal = pod.name.rpartition("-")[2]
        return ordinal.isdecimal() and first <= int(ordinal) < first + _number(document, "replicas", 1)
    if kind is JOB and pod.terminating:
        spec = document.get("spec") or {}
        return (spec.get("podReplacementPolicy") or ("Failed" if spec.get("podFailurePolicy") else "")) == "Failed"
    return is_replaced(pod)


def _number(document: dict[str, Any], name: str, default: int) -> int:
    value = (document.get("spec") or {}).get(name)
    return value if isinstance(value, int) else default
