"""Whether pods are ready, as their conditions say."""

from __future__ import annotations

import msgspec

from bayplan.core.cluster.pod_info import PodInfo


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""


class _Status(msgspec.Struct):
    conditions: tuple[_Condition, ...] | None = None


class _WithStatus(msgspec.Struct):
    status: _Status | None = None


_with_status = msgspec.json.Decoder(_WithStatus)


def is_ready(pod: PodInfo) -> bool:
    """Return whether the pod's Ready condition is true. It is kept, and read without decoding the whole pod."""
    found: bool | None = pod.cache.get(_WithStatus)
    if found is None:
        status = _with_status.decode(pod.raw).status
        conditions = (status.conditions if status is not None else None) or ()
        found = any(condition.type == "Ready" and condition.status == "True" for condition in conditions)
        pod.cache[_WithStatus] = found
    return found
