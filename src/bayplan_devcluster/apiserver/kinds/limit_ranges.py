"""Applies the LimitRanges of a namespace to new pods and claims.

Mirrors Kubernetes' plugin/pkg/admission/limitranger.
"""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.core.api import quantity
from bayplan.core.api.kinds import LIMIT_RANGE, PERSISTENT_VOLUME_CLAIM, POD
from bayplan.core.api.resource_lists import Amount, Amounts, pod_total, read_amounts
from bayplan.core.api.status import forbidden
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.storage.resource import Resource
from bayplan_devcluster.apiserver.storage.rest_storage import RestStorage

ANNOTATION = "kubernetes.io/limit-ranger"


def set_default_limits(storage: RestStorage, pod: Object) -> None:
    """Sets the requests and limits that a new pod leaves out, and notes them in an annotation."""
    for item_list in _limit_ranges(storage, pod["metadata"].get("namespace", "")):
        requests: dict[str, str] = {}
        limits: dict[str, str] = {}
        for item in item_list:
            if item["type"] == "Container":
                requests |= item.get("defaultRequest", {})
                limits |= item.get("default", {})
        notes = [
            note
            for field, what in (("containers", "container"), ("initContainers", "init container"))
            for container in pod["spec"].get(field) or ()
            for note in _complete(container, requests, limits, what)
        ]
        if notes:
            annotations = pod["metadata"].setdefault("annotations", {})
            annotations[ANNOTATION] = f"LimitRanger plugin set: {'; '.join(notes)}"


def _limit_ranges(storage: RestStorage, namespace: str) -> Iterator[list[Object]]:
    """The items of each LimitRange in a namespace."""
    for entry in storage.store.collection(LIMIT_RANGE.resource).select(namespace) if namespace else ():
        yield entry.load()["spec"].get("limits") or []


def _complete(container: Object, requests: dict[str, str], limits: dict[str, str], what: str) -> Iterator[str]:
    """Sets the resources that a container leaves out. Yields a note for its requests, and one for its limits."""
    for field, defaults in (("requests", requests), ("limits", limits)):
        given = container["resources"].get(field, {})
        missing = {name: amount for name, amount in defaults.items() if name not in given}
        if missing:
            container["resources"][field] = {**given, **missing}
            yield f"{', '.join(sorted(missing))} {field[:-1]} for {what} {container.get('name', '')}"


def check_limits(storage: RestStorage, resource: Resource, new: Object, old: Object | None, subresource: str) -> None:
    """Rejects a new or resized pod, or a claim, that exceeds the limits of its namespace. Raises 403."""
    kind, spec = resource.kind, new.get("spec", {})
    if old is not None and ("deletionTimestamp" in old["metadata"] or (kind == POD and subresource != "resize")):
        return
    if kind not in {POD, PERSISTENT_VOLUME_CLAIM}:
        return
    for items in _limit_ranges(storage, new["metadata"]["namespace"]):
        problems = list(dict.fromkeys(_pod_problems(items, spec) if kind == POD else _claim_problems(items, spec)))
        if problems:
            why = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
            raise forbidden(kind, new["metadata"].get("name", ""), why)


def _pod_problems(items: list[Object], spec: Object) -> Iterator[str]:
    for item in items:
        if item["type"] == "Container":
            for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
                resources = container.get("resources", {})
                requests, limits = (read_amounts(resources.get(field)) for field in ("requests", "limits"))
                yield from _problems(item, requests, limits)
        elif item["type"] == "Pod":
            yield from _problems(item, pod_total(spec, "requests"), pod_total(spec, "limits"))


def _claim_problems(items: list[Object], spec: Object) -> Iterator[str]:
    requests = read_amounts(spec.get("resources", {}).get("requests"))
    for item in items:
        if item["type"] == "PersistentVolumeClaim":
            for name, bound in read_amounts(item.get("min")).items():
                yield from _below(item["type"], name, bound, requests.get(name), None)
            for name, bound in read_amounts(item.get("max")).items():
                prefix, request = f"maximum {name} usage per {item['type']} is {bound}", requests.get(name)
                if request is None:
                    yield f"{prefix}.  No request is specified"
                elif request.nanos > bound.nanos:
                    yield f"{prefix}, but request is {request}"


def _problems(item: Object, requests: Amounts, limits: Amounts) -> Iterator[str]:
    kind = item["type"]
    for name, bound in read_amounts(item.get("min")).items():
        yield from _below(kind, name, bound, requests.get(name), limits.get(name))
    for name, bound in read_amounts(item.get("max")).items():
        yield from _above(kind, name, bound, requests.get(name), limits.get(name))
    for name, bound in read_amounts(item.get("maxLimitRequestRatio")).items():
        yield from _too_far_apart(kind, name, bound, requests.get(name), limits.get(name))


def _below(kind: str, name: str, bound: Amount, request: Amount | None, limit: Amount | None) -> Iterator[str]:
    prefix = f"minimum {name} usage per {kind} is {bound}"
    if request is None:
        yield f"{prefix}.  No request is specified"
    elif request.nanos < bound.nanos:
        yield f"{prefix}, but request is {request}"
    elif limit is not None and limit.nanos < bound.nanos:
        yield f"{prefix}, but limit is {limit}"


def _above(kind: str, name: str, bound: Amount, request: Amount | None, limit: Amount | None) -> Iterator[str]:
    prefix = f"maximum {name} usage per {kind} is {bound}"
    if limit is None:
        yield f"{prefix}.  No limit is specified"
    elif limit.nanos > bound.nanos:
        yield f"{prefix}, but limit is {limit}"
    elif request is not None and request.nanos > bound.nanos:
        yield f"{prefix}, but request is {request}"


def _too_far_apart(kind: str, name: str, bound: Amount, request: Amount | None, limit: Amount | None) -> Iterator[str]:
    prefix = f"{name} max limit to request ratio per {kind} is {bound}, but"
    if request is None or not request.nanos:
        yield f"{prefix} no request is specified or request is 0"
    elif limit is None or not limit.nanos:
        yield f"{prefix} no limit is specified or limit is 0"
    elif limit.nanos * quantity.NANO > bound.nanos * request.nanos:
        yield f"{prefix} provided ratio is {limit.nanos / request.nanos:f}"
