"""The fields that a redacted snapshot keeps of claims, classes and slices of devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayplan.answers.snapshots.redaction.names import Names, Rule
from bayplan.answers.snapshots.redaction.rules import (
    CONDITIONS,
    NODE_SELECTOR,
    attributes,
    by_name,
    by_resource,
    condition,
    each,
    expression,
    fields,
    keep,
    keyed,
    labels,
    name,
    obj,
    request,
    verbatim,
)
from bayplan.core.devices.claims import POD_GROUP_RESOURCE

_CAPACITY = by_resource(keep)
_SELECTORS = each(fields(cel=fields(expression=expression)))
_EXACT = {
    "deviceClassName": name("deviceclass"),
    "selectors": _SELECTORS,
    "allocationMode": keep,
    "count": keep,
    "adminAccess": keep,
    "tolerations": each(keyed),
    "capacity": fields(requests=_CAPACITY),
    "derivedAttributes": each(fields(name=verbatim, expression=expression)),
}
_DEVICE_CLAIM = fields(
    devices=fields(
        requests=each(
            fields(name=request, exactly=fields(**_EXACT), firstAvailable=each(fields(name=request, **_EXACT)))
        ),
        constraints=each(fields(requests=each(request), matchAttribute=verbatim, distinctAttribute=verbatim)),
    )
)
_POOL = name("pool")
_DEVICE_NAME = name("device")
_SHARE = name("share")
_ALLOCATION = fields(
    "allocationTimestamp",
    devices=fields(
        results=each(
            fields(
                "adminAccess",
                request=request,
                driver=verbatim,
                pool=_POOL,
                device=_DEVICE_NAME,
                consumedCapacity=_CAPACITY,
                shareID=_SHARE,
                tolerations=each(keyed),
                bindingConditions=each(condition),
                bindingFailureConditions=each(condition),
            )
        )
    ),
    nodeSelector=NODE_SELECTOR,
)
_COUNTERS = by_name("counter", fields("value"))
_DEVICE = fields(
    "allNodes allowMultipleAllocations bindsToNode",
    name=_DEVICE_NAME,
    attributes=attributes,
    capacity=by_resource(keep),
    consumesCounters=each(
        fields(counterSet=name("counterset"), counters=_COUNTERS, compatibilityGroups=each(name("devicegroup")))
    ),
    taints=each(keyed),
    nodeName=name("node"),
    nodeSelector=NODE_SELECTOR,
    bindingConditions=each(condition),
    bindingFailureConditions=each(condition),
    nodeAllocatableResourceMappings=by_resource(fields("allocationMultiplier", capacityKey=verbatim)),
    nodeAllocatableResources=by_resource(
        fields(
            mapping=fields("capacityMultiplier deviceMultiplier", capacityKey=verbatim),
            overhead=fields("perPod perContainer"),
        )
    ),
)


def _consumer(value: Any, names: Names) -> Any:
    """A consumer of a claim: a pod, a PodGroup, or another object, which is as good as a pod that is gone."""
    if isinstance(value, dict) and value.get("resource") == POD_GROUP_RESOURCE:
        return fields(apiGroup=verbatim, resource=verbatim, name=name("podgroup"), uid=name("uid"))(value, names)
    kept = fields(name=name("pod"), uid=name("uid"))(value, names)
    return None if kept is None else {**kept, "resource": "pods" if value.get("resource") == "pods" else "others"}


DEVICE_FIELDS: Mapping[tuple[str, str], Rule] = {
    ("resource.k8s.io", "deviceclasses"): obj(
        "deviceclass", spec=fields(selectors=_SELECTORS, extendedResourceName=verbatim)
    ),
    ("resource.k8s.io", "resourceclaims"): obj(
        "resourceclaim",
        spec=_DEVICE_CLAIM,
        status=fields(
            allocation=_ALLOCATION,
            reservedFor=each(_consumer),
            devices=each(
                fields(driver=verbatim, pool=_POOL, device=_DEVICE_NAME, shareID=_SHARE, conditions=CONDITIONS)
            ),
        ),
    ),
    ("resource.k8s.io", "resourceclaimtemplates"): obj(
        "resourceclaimtemplate", spec=fields(metadata=fields(labels=labels), spec=_DEVICE_CLAIM)
    ),
    ("resource.k8s.io", "resourceslices"): obj(
        "resourceslice",
        spec=fields(
            "allNodes perDeviceNodeSelection",
            driver=verbatim,
            pool=fields("generation resourceSliceCount", name=_POOL),
            nodeName=name("node"),
            nodeSelector=NODE_SELECTOR,
            sharedCounters=each(fields(name=name("counterset"), counters=_COUNTERS)),
            devices=each(_DEVICE),
        ),
    ),
    ("resource.k8s.io", "devicetaintrules"): obj(
        "devicetaintrule",
        spec=fields(taint=keyed, deviceSelector=fields(driver=verbatim, pool=_POOL, device=_DEVICE_NAME)),
    ),
}
"""(group, plural) -> the rule for its objects"""
