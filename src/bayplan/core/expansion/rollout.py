"""How a Deployment divides its replicas among its ReplicaSets: pure functions.

Mirrors pkg/controller/deployment: rolling.go, recreate.go, sync.go (scale) and util/deployment_util.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec
from lightkube.models.core_v1 import PodTemplateSpec

from bayplan.core.api.served import Deployment, ReplicaSet
from bayplan.core.api.well_known_labels import POD_TEMPLATE_HASH, REVISION

REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"

_SAFE_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Scale:
    """The new number of replicas of one ReplicaSet."""

    replica_set: ReplicaSet
    replicas: int


def plan_rolling_update(deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> list[Scale]:
    """The next step of a rolling update: scale up the new ReplicaSet if possible, or else scale down the old ones.

    The total is at most replicas + maxSurge, and at least replicas - maxUnavailable stay available.
    """
    replicas = wanted(deployment)
    if size(new) != replicas:
        grown = replicas if size(new) > replicas else new_replicas(deployment, (new, *old), size(new))
        if grown != size(new):
            return [Scale(new, grown)]
    shrinking = sorted((one for one in old if size(one) > 0), key=_age)
    least_available = replicas - max_unavailable(deployment)
    budget = size(new, *shrinking) - least_available - (size(new) - available(new))
    if not shrinking or budget <= 0:
        return []
    sizes = _without_unhealthy(shrinking, budget)
    surplus = available(new, *shrinking) - least_available
    for one in shrinking:
        taken = max(min(sizes[one.metadata.name], surplus), 0)
        sizes[one.metadata.name] -= taken
        surplus -= taken
    return [Scale(one, sizes[one.metadata.name]) for one in shrinking if sizes[one.metadata.name] != size(one)]


def plan_scale(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> list[Scale]:
    """The steps after a change of the number of replicas or a pause: the ReplicaSets keep their proportions."""
    replicas = wanted(deployment)
    every = [*old, *([new] if new is not None else [])]
    active = [one for one in every if size(one) > 0]
    if len(active) <= 1:
        newest_old = max(old, key=_age, default=None)
        one = active[0] if active else new if new is not None else newest_old
        return [Scale(one, replicas)] if one is not None and size(one) != replicas else []
    if new is not None and is_saturated(deployment, new):
        return [Scale(one, 0) for one in old if size(one) > 0]
    return _in_proportion(deployment, active) if is_rolling_update(deployment) else []


def is_scaling_event(deployment: Deployment, sets: Iterable[ReplicaSet]) -> bool:
    """Whether the Deployment was scaled since its active ReplicaSets were annotated."""
    known = (_annotated(one, DESIRED_REPLICAS) for one in sets if size(one) > 0)
    return any(desired is not None and desired != wanted(deployment) for desired in known)


def is_saturated(deployment: Deployment, new: ReplicaSet) -> bool:
    """Whether the new ReplicaSet has all replicas."""
    replicas = wanted(deployment)
    return size(new) == replicas == _annotated(new, DESIRED_REPLICAS) and available(new) == replicas


def new_replicas(deployment: Deployment, every: Iterable[ReplicaSet], current: int) -> int:
    """The number of replicas that the new ReplicaSet may have now. `current`: its replicas so far."""
    replicas = wanted(deployment)
    if not is_rolling_update(deployment):
        return replicas
    room = replicas + max_surge(deployment) - size(*every)
    return current + min(room, replicas - current) if room > 0 else current


def find_new(deployment: Deployment, sets: Iterable[ReplicaSet]) -> ReplicaSet | None:
    """The ReplicaSet with the Deployment's current template; the oldest of several."""
    template = canonical(deployment.spec.template)
    return min((one for one in sets if canonical(one.spec.template) == template), key=_age, default=None)


def canonical(template: PodTemplateSpec) -> bytes:
    """A template as comparable bytes, without the pod-template-hash label."""
    document = msgspec.to_builtins(template)
    labels = (document.get("metadata") or {}).get("labels") or {}
    labels.pop(POD_TEMPLATE_HASH, None)
    return msgspec.json.encode(_without_empty(document), order="deterministic")


def pod_template_hash(template: PodTemplateSpec, collisions: int | None) -> str:
    """The hash of a template for names and labels.

    It is FNV-1a of the canonical JSON, in upstream's safe alphabet. The values differ from those of upstream, which
    hashes Go's printed representation.
    """
    text = canonical(template) + (str(collisions).encode() if collisions else b"")
    digest = 2166136261
    for byte in text:
        digest = (digest ^ byte) * 16777619 & 0xFFFFFFFF
    return "".join(_SAFE_CHARACTERS[ord(digit) % len(_SAFE_CHARACTERS)] for digit in str(digest))


def max_surge(deployment: Deployment) -> int:
    """The number of pods for maxSurge."""
    return _limits(deployment)[0] if is_rolling_update(deployment) else 0


def max_unavailable(deployment: Deployment) -> int:
    """The number of pods for maxUnavailable."""
    replicas = wanted(deployment)
    return min(_limits(deployment)[1], replicas) if is_rolling_update(deployment) and replicas else 0


def scaled(value: int | str | None, total: int, *, round_up: bool) -> int:
    """The value of an integer or a percentage of `total`, 0 for other text, as upstream's MaxUnavailable has it."""
    if not isinstance(value, str):
        return value or 0
    if not re.fullmatch(r"[0-9]{1,18}%", value):
        return 0
    parts = int(value[:-1]) * total
    return -(-parts // 100) if round_up else parts // 100


def is_rolling_update(deployment: Deployment) -> bool:
    """Whether the strategy is RollingUpdate."""
    strategy = deployment.spec.strategy
    return strategy is None or strategy.type != "Recreate"


def wanted(deployment: Deployment) -> int:
    """The Deployment's desired replicas."""
    replicas = deployment.spec.replicas
    return 1 if replicas is None else replicas


def size(*sets: ReplicaSet) -> int:
    """The desired replicas of ReplicaSets."""
    return sum(1 if one.spec.replicas is None else one.spec.replicas for one in sets)


def available(*sets: ReplicaSet) -> int:
    """The available replicas of ReplicaSets."""
    return sum((one.status.availableReplicas or 0) if one.status else 0 for one in sets)


def revision(replica_set: ReplicaSet) -> int:
    """A ReplicaSet's revision; 0 if it has none."""
    return _annotated(replica_set, REVISION) or 0


def _without_unhealthy(shrinking: Sequence[ReplicaSet], budget: int) -> dict[str, int]:
    """The sizes after the removal of unavailable pods, which doesn't reduce availability."""
    sizes = {}
    for one in shrinking:
        taken = min(budget, max(size(one) - available(one), 0))
        sizes[one.metadata.name] = size(one) - taken
        budget -= taken
    return sizes


def _in_proportion(deployment: Deployment, active: Sequence[ReplicaSet]) -> list[Scale]:
    replicas = wanted(deployment)
    allowed = replicas + max_surge(deployment) if replicas > 0 else 0
    to_add = allowed - size(*active)
    newest_first = sorted(active, key=_age, reverse=to_add >= 0)
    ordered = sorted(newest_first, key=lambda one: -size(one))
    added = 0
    scales = []
    for one in ordered:
        share = _share(deployment, one, to_add, added)
        added += share
        scales.append(Scale(one, size(one) + share))
    first = scales[0]
    scales[0] = Scale(first.replica_set, max(first.replicas + to_add - added, 0))
    return scales  # including unchanged sizes, to update the annotations that the next scaling reads


def _share(deployment: Deployment, replica_set: ReplicaSet, to_add: int, added: int) -> int:
    if to_add in {0, added}:
        return 0
    replicas = wanted(deployment)
    if replicas == 0:
        fraction = -size(replica_set)
    else:
        before = _annotated(replica_set, MAX_REPLICAS) or (deployment.status and deployment.status.replicas) or 0
        if before == 0:
            return 0
        exact = size(replica_set) * (replicas + max_surge(deployment)) / before
        fraction = int(exact + 0.5) - size(replica_set)
    return min(fraction, to_add - added) if to_add > 0 else max(fraction, to_add - added)


def _limits(deployment: Deployment) -> tuple[int, int]:
    """The numbers for maxSurge and maxUnavailable. If both are 0, maxUnavailable becomes 1, to make progress."""
    rolling = deployment.spec.strategy.rollingUpdate if deployment.spec.strategy else None
    replicas = wanted(deployment)
    surge = scaled(rolling.maxSurge if rolling else None, replicas, round_up=True)
    unavailable = scaled(rolling.maxUnavailable if rolling else None, replicas, round_up=False)
    return (surge, unavailable) if surge or unavailable else (0, 1)


def _annotated(replica_set: ReplicaSet, annotation: str) -> int | None:
    text = (replica_set.metadata.annotations or {}).get(annotation, "")
    return int(text) if text.isascii() and text.isdigit() else None


def _age(replica_set: ReplicaSet) -> tuple[datetime, str]:
    metadata = replica_set.metadata
    return (metadata.creationTimestamp or _LONG_AGO, metadata.name or "")


def _without_empty(value: object) -> object:
    """A document without null and empty members, which Kubernetes treats as absent."""
    if isinstance(value, dict):
        pairs = ((key, _without_empty(item)) for key, item in value.items())
        return {key: item for key, item in pairs if item not in (None, {}, [])}
    if isinstance(value, list):
        return [_without_empty(item) for item in value]
    return value
