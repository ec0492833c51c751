"""Converts HorizontalPodAutoscalers: they are stored as autoscaling/v2 and served as autoscaling/v1 too.

In v1, annotations have the fields that only v2 has, in v2's form. Mirrors Kubernetes' pkg/apis/autoscaling/v1.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bayplan.devcluster.apiserver.encoding import decode, encode
from bayplan.devcluster.apiserver.schema import Object

CPU_UTILIZATION = 80
"""The percentage that autoscalers without metrics aim for."""
_PREFIX = "autoscaling.alpha.kubernetes.io/"
_SPEC = {"metrics": f"{_PREFIX}metrics", "behavior": f"{_PREFIX}behavior"}
_STATUS = {"currentMetrics": f"{_PREFIX}current-metrics", "conditions": f"{_PREFIX}conditions"}


def to_v2(autoscaler: Object) -> Object:
    """Converts an autoscaler from autoscaling/v1. The argument is not changed."""
    metadata, spec, status = ({**autoscaler.get(key, {})} for key in ("metadata", "spec", "status"))
    annotations = {**metadata.pop("annotations", {})}
    for part, fields in ((spec, _SPEC), (status, _STATUS)):
        for field, annotation in fields.items():
            value = _read(annotations.pop(annotation, "null"))
            if isinstance(value, dict if field == "behavior" else list):
                part[field] = value
    target = spec.pop("targetCPUUtilizationPercentage", None)
    if target is not None:
        spec["metrics"] = [_cpu("target", target), *(spec.get("metrics") or ())]
    current = status.pop("currentCPUUtilizationPercentage", None)
    if current is not None:
        status["currentMetrics"] = [_cpu("current", current), *(status.get("currentMetrics") or ())]
    if annotations:
        metadata["annotations"] = annotations
    return {"metadata": metadata, "spec": spec, "status": status}


def from_v2(autoscaler: Object) -> Object:
    """Converts an autoscaler from autoscaling/v2. The argument is not changed."""
    metadata, spec, status = ({**autoscaler.get(key, {})} for key in ("metadata", "spec", "status"))
    target = _take_cpu(spec, "metrics", "target")
    if target is not None:
        spec["targetCPUUtilizationPercentage"] = target
    current = _take_cpu(status, "currentMetrics", "current")
    if current is not None:
        status["currentCPUUtilizationPercentage"] = current
    annotations = {**metadata.get("annotations", {})}
    for part, fields in ((spec, _SPEC), (status, _STATUS)):
        for field, annotation in fields.items():
            value = part.pop(field, None)
            if value:
                annotations[annotation] = encode(value).decode()
    if annotations:
        metadata["annotations"] = annotations
    status.setdefault("currentReplicas", 0)
    status.setdefault("desiredReplicas", 0)
    return {"metadata": metadata, "spec": spec, "status": status}


def default_v1(autoscaler: Object) -> None:
    """Sets the minimum, and the target if there is no other metric."""
    spec, annotations = autoscaler["spec"], autoscaler["metadata"].get("annotations", {})
    spec.setdefault("minReplicas", 1)
    if _SPEC["metrics"] not in annotations:
        spec.setdefault("targetCPUUtilizationPercentage", CPU_UTILIZATION)


def _cpu(field: str, utilization: int) -> Object:
    shown = {"averageUtilization": utilization}
    return {
        "type": "Resource",
        "resource": {"name": "cpu", field: {"type": "Utilization", **shown} if field == "target" else shown},
    }


def _take_cpu(part: Object, field: str, key: str) -> Any:
    """Removes the first metric of cpu utilization, and returns its value; None if there is none."""
    for index, metric in enumerate(part.get(field) or ()):
        resource = metric.get("resource") or {}
        value = (resource.get(key) or {}).get("averageUtilization")
        if resource.get("name") == "cpu" and value is not None:
            part[field] = [*part[field][:index], *part[field][index + 1 :]]
            return value
    return None


def _read(text: str) -> Any:
    """Decodes an annotation; None if it is not JSON."""
    try:
        return decode(text)
    except msgspec.DecodeError:
        return None
