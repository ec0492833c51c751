"""Rules for HorizontalPodAutoscalers. Mirrors Kubernetes' pkg/apis/autoscaling/validation."""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.api import quantity
from bayplan.api.field_errors import (
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
)
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.validation.meta import name_errors
from bayplan.devcluster.apiserver.validation.selectors import validate_not_negative

SOURCES = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
"""The types of metrics, and the fields with their sources."""
_EITHER = ("value", "averageValue")
_NEEDED = {
    "external": (_EITHER, "must set either a target value for metric or a per-pod target"),
    "object": (_EITHER, "must set either a target value or averageValue"),
    "pods": (("averageValue",), "must specify a positive target averageValue"),
}
"""By source: the fields of the target, one of which must be set, and the error."""


def validate_autoscaler(autoscaler: Object) -> Iterator[FieldError]:
    """Rules for a HorizontalPodAutoscaler."""
    spec = autoscaler["spec"]
    least, most = spec["minReplicas"], spec["maxReplicas"]
    if least < 1:
        yield invalid("spec.minReplicas", least, "must be greater than or equal to 1")
    if most == 0:
        yield required("spec.maxReplicas", "must be set and greater than 0")
    elif most < 0:
        yield invalid("spec.maxReplicas", most, "must be greater than or equal to 1")
    if most < least:
        yield invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    yield from _reference(spec["scaleTargetRef"], "spec.scaleTargetRef")
    for index, metric in enumerate(spec["metrics"]):
        yield from _metric(metric, f"spec.metrics[{index}]")
    for direction, rules in spec.get("behavior", {}).items():
        yield from _rules(rules, f"spec.behavior.{direction}")


def validate_target(autoscaler: Object, old: Object | None = None) -> Iterator[FieldError]:
    """Only replication controllers are in the core group. An unchanged reference is accepted."""
    kind, version = (autoscaler["spec"]["scaleTargetRef"].get(field, "") for field in ("kind", "apiVersion"))
    if old is not None:
        was = old["spec"]["scaleTargetRef"]
        if (was.get("kind", ""), was.get("apiVersion", "")) == (kind, version):
            return
    if kind != "ReplicationController" and version.count("/") <= 1 and not version.rpartition("/")[0]:
        yield invalid("spec.scaleTargetRef.apiVersion", version, "apiVersion must specify API group")


def validate_autoscaler_status(autoscaler: Object, _old: Object) -> Iterator[FieldError]:
    """Rules for the status of a HorizontalPodAutoscaler."""
    for field in ("currentReplicas", "desiredReplicas"):
        yield from validate_not_negative(autoscaler.get("status", {}).get(field), f"status.{field}")


def _reference(reference: Object, where: str) -> Iterator[FieldError]:
    for field in ("kind", "name"):
        yield from _path_segment(reference.get(field, ""), f"{where}.{field}")
    version = reference.get("apiVersion", "")
    if version.count("/") > 1:
        yield invalid(f"{where}.apiVersion", version, f"unexpected GroupVersion string: {version}")


def _path_segment(name: str, where: str, detail: str = "") -> Iterator[FieldError]:
    if not name:
        yield required(where, detail)
    for error in name_errors(name, "path") if name else ():
        yield invalid(where, name, error)


def _metric(metric: Object, where: str) -> Iterator[FieldError]:
    kind = metric.get("type", "")
    if not kind:
        yield required(f"{where}.type", "must specify a metric source type")
    if kind not in SOURCES:
        yield not_supported(f"{where}.type", kind, tuple(SOURCES))
    present = [field for field in ("object", "external", "pods", "resource", "containerResource") if field in metric]
    if present:
        yield from _source(present[0], metric[present[0]], f"{where}.{present[0]}")
    expected = SOURCES.get(kind, "")
    if expected and expected not in metric:
        yield required(f"{where}.{expected}", "must populate information for the given metric source")
    if len(present) != 1:
        for field in present:
            if field != expected:
                yield forbidden(f"{where}.{field}", "must populate the given metric source only")


def _source(field: str, source: Object, where: str) -> Iterator[FieldError]:
    target, at = source["target"], f"{where}.target"
    if field == "object":
        yield from _reference(source["describedObject"], f"{where}.describedObject")
    if field in _NEEDED:
        yield from _path_segment(source["metric"].get("name", ""), f"{where}.metric.name", "must specify a metric name")
    elif not source.get("name"):
        yield required(f"{where}.name", "must specify a resource name")
    if field == "containerResource" and not source.get("container"):
        yield required(f"{where}.container", "must specify a container")
    yield from _target(target, at)
    if field in _NEEDED:
        fields, detail = _NEEDED[field]
        if not any(each in target for each in fields):
            yield required(f"{at}.averageValue", detail)
        if field == "external" and "value" in target and "averageValue" in target:
            yield forbidden(f"{at}.value", "may not set both a target value for metric and a per-pod target")
    elif "averageUtilization" not in target and "averageValue" not in target:
        yield required(f"{at}.averageUtilization", "must set either a target raw value or a target utilization")
    elif "averageUtilization" in target and "averageValue" in target:
        yield forbidden(f"{at}.averageValue", "may not set both a target raw value and a target utilization")


def _target(target: Object, where: str) -> Iterator[FieldError]:
    kind = target.get("type", "")
    if not kind:
        yield required(f"{where}.type", "must specify a metric target type")
    if kind not in {"Utilization", "Value", "AverageValue"}:
        yield invalid(f"{where}.type", kind, "must be either Utilization, Value, or AverageValue")
    for field in ("value", "averageValue"):
        if field in target and quantity.parse(target[field]) <= 0:
            yield invalid(f"{where}.{field}", target[field], "must be positive")
    if target.get("averageUtilization", 1) < 1:
        yield invalid(f"{where}.averageUtilization", target["averageUtilization"], "must be greater than 0")


def _rules(rules: Object, where: str) -> Iterator[FieldError]:
    window = rules.get("stabilizationWindowSeconds", 0)
    if window < 0:
        yield invalid(f"{where}.stabilizationWindowSeconds", window, "must be greater than or equal to zero")
    if window > 3600:
        yield invalid(f"{where}.stabilizationWindowSeconds", window, "must be less than or equal to 3600")
    if rules["selectPolicy"] not in {"Max", "Min", "Disabled"}:
        yield not_supported(f"{where}.selectPolicy", rules["selectPolicy"], ("Disabled", "Max", "Min"))
    if not rules.get("policies"):
        yield required(f"{where}.policies", "must specify at least one Policy")
    for index, policy in enumerate(rules.get("policies") or ()):
        at = f"{where}.policies[{index}]"
        if policy["type"] not in {"Pods", "Percent"}:
            yield not_supported(f"{at}.type", policy["type"], ("Percent", "Pods"))
        for field in ("value", "periodSeconds"):
            if policy[field] <= 0:
                yield invalid(f"{at}.{field}", policy[field], "must be greater than zero")
        if policy["periodSeconds"] > 1800:
            yield invalid(f"{at}.periodSeconds", policy["periodSeconds"], "must be less than or equal to 1800")
    if "tolerance" in rules and quantity.parse(rules["tolerance"]) < 0:
        yield invalid(f"{where}.tolerance", rules["tolerance"], "must be greater than or equal to 0")
