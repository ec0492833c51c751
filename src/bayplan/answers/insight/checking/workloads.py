"""Mistakes in a single workload: budgets, volumes, replicas and amounts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bayplan.answers.insight.checking.cluster import CheckedCluster, Template, selector_of
from bayplan.answers.insight.checking.fields import replicas_at
from bayplan.answers.insight.checking.findings import Finding
from bayplan.core.api import quantity
from bayplan.core.api.kinds import (
    DEPLOYMENT,
    HORIZONTAL_POD_AUTOSCALER,
    LIMIT_RANGE,
    PERSISTENT_VOLUME_CLAIM,
    POD_DISRUPTION_BUDGET,
)
from bayplan.core.api.objects import UndecodableObject, convert
from bayplan.core.expansion import rollout

_LEAST_MEMORY = 2**20
"""Bytes. No program runs in less."""
_NANOS = 10**9
_ONE_NODE = {"ReadWriteOnce", "ReadWriteOncePod"}


def budgets_that_block(cluster: CheckedCluster) -> Iterator[Finding]:
    """Yield budgets that allow no eviction, however healthy all pods are."""
    for given, document in cluster.of_kind(POD_DISRUPTION_BUDGET):
        spec, selector = document.get("spec") or {}, selector_of(document)
        namespace = given.key.partition("/")[0]
        if selector is None:
            continue
        number = sum(pod.namespace == namespace and selector.matches(pod.labels) for pod in cluster.running)
        if number and _allowed(spec, number) <= 0:
            field = "maxUnavailable" if spec.get("maxUnavailable") is not None else "minAvailable"
            message = (
                f"{field} {spec.get(field)} lets none of its {number} pods be evicted, so that drains of nodes hang"
            )
            step = "allow one: maxUnavailable: 1" if number > 1 else "run two replicas, with maxUnavailable: 1"
            yield given.finding("budget-blocks-drains", message, step, f"spec.{field}")


def _allowed(spec: dict[str, Any], number: int) -> int:
    """How many of so many healthy pods a budget lets go. Percentages are rounded up, as its controller does."""
    if spec.get("maxUnavailable") is not None:
        return rollout.scaled(spec["maxUnavailable"], number, round_up=True)
    return number - rollout.scaled(spec.get("minAvailable"), number, round_up=True)


def volumes_of_one_node(cluster: CheckedCluster) -> Iterator[Finding]:
    """Yield Deployments whose rolling update makes a pod that needs a volume of another node's pod."""
    claims = cluster.snapshot.of_kind(PERSISTENT_VOLUME_CLAIM)
    for template in cluster.templates:
        if template.given.kind is not DEPLOYMENT:
            continue
        document = cluster.snapshot.document(DEPLOYMENT, template.given.key) or {}
        try:
            deployment: Any = convert(DEPLOYMENT.type, document)
        except UndecodableObject:
            continue
        several = rollout.wanted(deployment) > 1
        surges = rollout.is_rolling_update(deployment) and rollout.max_surge(deployment) > 0
        namespace = template.given.key.partition("/")[0]
        for number, volume in enumerate(template.spec.volumes or ()):
            name = volume.persistentVolumeClaim and volume.persistentVolumeClaim.claimName
            claim = cluster.snapshot.document(PERSISTENT_VOLUME_CLAIM, f"{namespace}/{name}") if name else None
            modes = set(((claim or {}).get("spec") or {}).get("accessModes") or ())
            if f"{namespace}/{name}" in claims and modes and modes <= _ONE_NODE and (several or surges):
                why = "its replicas" if several else "its old and its new pod"
                message = f"claim {name} is {', '.join(sorted(modes))}, but {why} may be on two nodes at the same time"
                step = "use a StatefulSet with volumeClaimTemplates" if several else "set strategy.type to Recreate"
                yield template.finding("volume-of-one-node", message, step, f"volumes[{number}]")


def replicas_beside_autoscaler(cluster: CheckedCluster) -> Iterator[Finding]:
    """Yield workloads with replicas that an autoscaler changes."""
    scaled = {}
    for key in cluster.snapshot.of_kind(HORIZONTAL_POD_AUTOSCALER):
        document = cluster.snapshot.document(HORIZONTAL_POD_AUTOSCALER, key) or {}
        target = (document.get("spec") or {}).get("scaleTargetRef") or {}
        scaled[str(target.get("kind")), f"{key.partition('/')[0]}/{target.get('name')}"] = key
    for each in cluster.given.documents:
        given, spec = cluster.given.of_document(each), each.get("spec")
        if given is None or not isinstance(spec, dict) or spec.get("replicas") is None:
            continue
        autoscaler = scaled.get((given.kind.kind, given.key))
        if autoscaler is not None:
            message = f"replicas is set, and so is horizontalpodautoscaler {autoscaler}: each apply undoes its scaling"
            step = "leave replicas out of the manifest"
            yield given.finding("replicas-beside-autoscaler", message, step, replicas_at(given.kind))


def tiny_memory(cluster: CheckedCluster) -> Iterator[Finding]:
    """Yield amounts of memory that are too small to be meant."""
    for template in cluster.templates:
        for at, container in _containers(template):
            for field in ("requests", "limits"):
                text = (getattr(container.resources, field, None) or {}).get("memory")
                if text is None or not 0 < quantity.parse(str(text)) < _LEAST_MEMORY * _NANOS:
                    continue
                message = f"container {container.name} has {field}.memory {text}, which is less than 1 MiB"
                digits = "".join(each for each in str(text) if each.isdigit()) or "500"
                step = f"write {digits}Mi if that is meant"
                yield template.finding("tiny-memory", message, step, f"{at}.resources.{field}.memory")


def no_requests(cluster: CheckedCluster) -> Iterator[Finding]:
    """Yield containers that request nothing, where no LimitRange of the namespace gives them requests."""
    limited = {key.partition("/")[0] for key in cluster.snapshot.of_kind(LIMIT_RANGE)}
    for template in cluster.templates:
        if template.given.key.partition("/")[0] in limited:
            continue
        found = {at: each.name for at, each in _containers(template) if not _requests(each)}
        if found:
            names = ", ".join(found.values())
            message = f"{names} requests neither cpu nor memory: the scheduler takes any node to have room"
            yield template.finding(
                "no-requests", message, "set resources.requests of cpu and memory", next(iter(found))
            )


def _containers(template: Template) -> Iterator[tuple[str, Any]]:
    """The containers of pods, each with its path in their spec."""
    for field in ("initContainers", "containers"):
        for number, container in enumerate(getattr(template.spec, field) or ()):
            yield f"{field}[{number}]", container


def _requests(container: Any) -> bool:
    resources = container.resources
    return resources is not None and any(
        name in {"cpu", "memory"} for amounts in (resources.requests, resources.limits) for name in amounts or ()
    )
