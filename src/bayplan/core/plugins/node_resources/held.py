"""What is held on a node although no running pod uses it: for nominated pods, by pods that end, by resizes.

Explanations name it, since the node looks emptier than Filter counts it. It affects no decision.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lightkube.models.core_v1 import PodCondition
from msgspec import structs

from bayplan.core.api.requests import amount_text, counted, pod_requests
from bayplan.core.cluster.nodes import NodeInfo
from bayplan.core.cluster.nominations import Nominations
from bayplan.core.cluster.pod_info import PodInfo

_SHOWN = 3
"""The most holders in one text."""
_KEY = "NodeResourcesFit", "resize"
_INIT_KEY = "NodeResourcesFit", "init containers"


def nominated_to(node: NodeInfo, pod: PodInfo, nominations: Nominations) -> list[PodInfo]:
    """Return the pods that are nominated to a node, and that Filter keeps room for when it places another pod.

    Mirrors addGENominatedPods (pkg/scheduler/framework/runtime/framework.go).
    """
    return [each for each in nominations.on(node.name) if each.priority >= pod.priority and each.uid != pod.uid]


def held_text(resource: str, node: NodeInfo, nominated: Sequence[PodInfo], pod: PodInfo) -> str:
    """Say who holds a resource of a node without using it, in parentheses after a space; "" if no pod does.

    What `pod` itself holds isn't said.
    """
    parts = [
        f"{amount_text(resource, amount)} {resource} is held for nominated pod {each.key}"
        for each in nominated
        if (amount := each.requested.get(resource, 0))
    ]
    parts += [text for other in node.pods if other.uid != pod.uid for text in _held_by(other, resource)]
    if len(parts) > _SHOWN:
        parts[_SHOWN:] = [f"and {len(parts) - _SHOWN:,} more"]
    return f" ({'; '.join(parts)})" if parts else ""


def _held_by(pod: PodInfo, resource: str) -> Iterator[str]:
    amount = pod.requested.get(resource, 0)
    if amount and (pod.terminating or pod.assumed):
        how = "which terminates" if pod.terminating else "which is not bound yet"
        yield f"pod {pod.key}, {how}, holds {amount_text(resource, amount)}"
        return
    if amount and (more := _init_containers(pod).get(resource, 0)):
        yield f"pod {pod.key} holds {amount_text(resource, more)} more for its init containers, which have ended"
    grows, shrinks = _resize(pod)
    if amount and resource in grows:
        yield f"pod {pod.key} holds {amount_text(resource, grows[resource])} more for its {_how(pod)}"
    elif amount and resource in shrinks:
        yield f"pod {pod.key} holds {amount_text(resource, shrinks[resource])} until its {_how(pod)} is done"


def _init_containers(pod: PodInfo) -> dict[str, int]:
    """What a pod holds only because its init containers requested it, although these have ended.

    The scheduler counts the most that a pod ever needs at once.
    """
    found: dict[str, int] | None = pod.cache.get(_INIT_KEY)
    if found is None:
        found = pod.cache[_INIT_KEY] = _held_by_init_containers(pod) if b'"initContainers"' in pod.raw else {}
    return found


def _held_by_init_containers(pod: PodInfo) -> dict[str, int]:
    restarting = [each for each in pod.spec.initContainers or () if each.restartPolicy == "Always"]
    ended = [each for each in pod.spec.initContainers or () if each.restartPolicy != "Always"]
    statuses = {each.name: each.state for each in pod.status.initContainerStatuses or ()}
    if not all((state := statuses.get(each.name)) is not None and state.terminated is not None for each in ended):
        return {}
    spec = structs.replace(pod.spec, initContainers=restarting or None)
    return _above(pod.requested, counted(pod_requests(structs.replace(pod.object, spec=spec), use_status=True)))


def _resize(pod: PodInfo) -> tuple[dict[str, int], dict[str, int]]:
    """What a resize that isn't done adds to a pod's requests, and what it doesn't take from them yet."""
    found: tuple[dict[str, int], dict[str, int]] | None = pod.cache.get(_KEY)
    if found is None:
        found = pod.cache[_KEY] = _resize_of(pod) if _is_resized(pod) else ({}, {})
    return found


def _is_resized(pod: PodInfo) -> bool:
    """Whether a resize is not done. Most pods need not be decoded for that."""
    raw = pod.raw
    return (b"PodResize" in raw or b'"resize"' in raw) and bool(_how(pod))


def _how(pod: PodInfo) -> str:
    conditions = {each.type: each for each in pod.status.conditions or () if each.status == "True"}
    pending = conditions.get("PodResizePending")
    if pending is not None:
        return f"{(pending.reason or 'pending').lower()} resize"
    if "PodResizeInProgress" in conditions or pod.status.resize == "InProgress":
        return "resize in progress"
    return f"{pod.status.resize.lower()} resize" if pod.status.resize else ""


def _resize_of(pod: PodInfo) -> tuple[dict[str, int], dict[str, int]]:
    desired, counts = counted(pod_requests(pod.object)), pod.requested
    # What an infeasible resize asks for doesn't count, so what is left is what the pod has.
    infeasible = [PodCondition(type="PodResizePending", status="True", reason="Infeasible")]
    status = structs.replace(pod.status, conditions=infeasible)
    has = counted(pod_requests(structs.replace(pod.object, status=status), use_status=True))
    return _above(counts, has), _above(counts, desired)


def _above(more: dict[str, int], less: dict[str, int]) -> dict[str, int]:
    return {name: amount - less.get(name, 0) for name, amount in more.items() if amount > less.get(name, 0)}
