"""How long the pods of a history ran that ended by themselves, by what they have in common.

`bayplan when --history` draws from these. Pods that were evicted or deleted say nothing of that.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from bayplan.answers.history.ends import ENDS_BY_ITSELF
from bayplan.answers.history.events import PodArrived, PodBound, PodEnded
from bayplan.answers.history.reading import History
from bayplan.answers.simulation.owners import run_time_groups
from bayplan.core.api.kinds import POD
from bayplan.core.api.objects import encode
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.foundations.latest import LruDict

_MOST = 10_000
"""How many groups are kept: those whose pods ended last."""
_KEPT = 200
"""How many run times are kept for a group: the latest ones."""


def run_times_seen(history: History) -> dict[str, list[float]]:
    """Return the seconds that pods ran, by `run_time_groups`. Memory: what exists, and what is returned."""
    found: LruDict[str, deque[float]] = LruDict(_MOST)
    for document, seconds in _ends(history):
        try:
            pod = PodInfo.from_raw(encode(document))
        except ValueError:  # the run time of a pod that can't be read stays unknown
            continue
        for group in run_time_groups(pod):
            known = found.get(group) or deque(maxlen=_KEPT)
            known.append(round(seconds, 3))
            found[group] = known
    return {group: list(seconds) for group, seconds in found.items()}


def _ends(history: History) -> Iterator[tuple[Mapping[str, Any], float]]:
    """Yield each pod that ended by itself, with the seconds that it ran."""
    pods: dict[str, Mapping[str, Any]] = {}
    bound: dict[str, datetime] = {}
    for raw in history.start().documents.get(POD, {}).values():
        document = msgspec.json.decode(raw)
        started = _started(raw)
        if started is not None:
            pods[document["metadata"].get("uid", "")], bound[document["metadata"].get("uid", "")] = document, started
    for event in history.events():
        match event:
            case PodArrived(_, _, uid, document, _, runs):
                pods[uid] = document
                if runs is not None and not math.isnan(runs):
                    yield document, runs
            case PodBound(time, _, uid, _):
                bound.setdefault(uid, time)
            case PodEnded(time, _, uid, reason):
                pod, since = pods.pop(uid, None), bound.pop(uid, None)
                if pod is not None and since is not None and reason in ENDS_BY_ITSELF and time > since:
                    yield pod, (time - since).total_seconds()


def _started(raw: bytes) -> datetime | None:
    """When a pod that was there from the start on had started; None if it had not, or can't be read."""
    try:
        status = PodInfo.from_raw(raw).status
    except ValueError:
        return None
    return status.startTime
