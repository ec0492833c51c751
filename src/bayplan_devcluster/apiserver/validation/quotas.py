"""Rules for LimitRanges and ResourceQuotas. Mirrors Kubernetes' pkg/apis/core/validation and pkg/apis/core/helper."""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.core.api import quantity
from bayplan.core.api.field_errors import FieldError, duplicate, forbidden, invalid, required
from bayplan.core.api.labels import label_key_errors
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.validation.resources import CONTAINER_RESOURCES, STANDARD_RESOURCES, overcommits
from bayplan_devcluster.apiserver.validation.rules import IMMUTABLE, At, problems

LIMIT_TYPES = frozenset({"Pod", "Container", "PersistentVolumeClaim"})
_BOUNDS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_COUNTED = frozenset({
    "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "persistentvolumeclaims", "configmaps",
    "services.nodeports", "services.loadbalancers",
})  # fmt: skip
_COMPUTE = frozenset({"cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"})
QUOTA_RESOURCES = _COUNTED | _COMPUTE | {
    "ephemeral-storage", "requests.storage", "requests.ephemeral-storage", "limits.ephemeral-storage",
}  # fmt: skip
"""The resources that quotas limit without a domain in the name."""
_OF_PODS = _COMPUTE | {"pods"}
SCOPES: dict[str, frozenset[str]] = {
    "Terminating": _OF_PODS,
    "NotTerminating": _OF_PODS,
    "BestEffort": frozenset({"pods"}),
    "NotBestEffort": _OF_PODS,
    "PriorityClass": _OF_PODS,
    "CrossNamespacePodAffinity": _OF_PODS,
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}
"""The scopes of quotas, with the standard resources that each applies to."""
_ONLY_EXISTS = frozenset(SCOPES) - {"PriorityClass", "VolumeAttributesClass"}
_STANDARD = STANDARD_RESOURCES | QUOTA_RESOURCES
_NOT_STANDARD = "must be a standard resource type or fully qualified"


# Limit ranges


def limit(item: Object, at: At) -> Iterator[FieldError]:
    """One limit of a LimitRange: of a type that no earlier one has."""
    yield from _limit_type(item["type"], f"{at.path}.type")
    if any(other["type"] == item["type"] for other in at.before):
        yield duplicate(f"{at.path}.type", item["type"])
    yield from _limit_item(item, at.path)


def _limit_type(kind: str, where: str) -> Iterator[FieldError]:
    errors = label_key_errors(kind)
    yield from problems(where, kind, errors)
    if not errors and "/" not in kind and kind not in LIMIT_TYPES:
        yield invalid(where, kind, "must be a standard limit type or fully qualified")


def _limit_item(item: Object, where: str) -> Iterator[FieldError]:
    kind = item["type"]
    fields = [field for field in _BOUNDS if kind != "Pod" or not field.startswith("default")]
    for field in _BOUNDS:
        if field not in fields:
            if item.get(field):
                yield forbidden(f"{where}.{field}", "may not be specified when `type` is 'Pod'")
            continue
        for name in item.get(field) or ():
            yield from _limited_resource(kind, name, f"{where}.{field}[{name}]")
    if kind == "PersistentVolumeClaim" and not any("storage" in item.get(field, {}) for field in ("min", "max")):
        detail = "either minimum or maximum storage value is required, but neither was provided"
        yield required(f"{where}.limits", detail)
    bounds = {field: item.get(field) or {} for field in fields}
    for name in dict.fromkeys(name for field in fields for name in bounds[field]):
        yield from _consistent(name, {field: bounds[field].get(name) for field in fields}, where)


def _limited_resource(kind: str, name: str, where: str) -> Iterator[FieldError]:
    errors = label_key_errors(name)
    yield from problems(where, name, errors)
    if errors or "/" in name or name.startswith("hugepages-"):
        return
    if name not in _STANDARD:
        yield invalid(where, name, _NOT_STANDARD)
    if kind in {"Pod", "Container"} and name not in CONTAINER_RESOURCES:
        yield invalid(where, name, "must be a standard resource for containers")


_ORDERED = (
    ("min", "max", "min", "min value {} is greater than max value {}"),
    ("min", "defaultRequest", "defaultRequest", "min value {} is greater than default request value {}"),
    ("defaultRequest", "max", "defaultRequest", "default request value {} is greater than max value {}"),
    ("defaultRequest", "default", "defaultRequest", "default request value {} is greater than default limit value {}"),
    ("min", "default", "default", "min value {} is greater than default value {}"),
    ("default", "max", "default", "default value {} is greater than max value {}"),
)
"""(the smaller field, the larger field, the field of the error, the error)."""


def _consistent(name: str, found: dict[str, str | None], where: str) -> Iterator[FieldError]:
    """Rules for the bounds of one resource."""
    for small, large, field, detail in _ORDERED:
        less, more = found.get(small), found.get(large)
        if less is not None and more is not None and quantity.parse(less) > quantity.parse(more):
            shown = more if (small, field) == ("min", "defaultRequest") else less
            shown = more if (small, large) == ("default", "max") else shown
            yield invalid(f"{where}.{field}[{name}]", shown, detail.format(less, more))
    yield from _ratio(name, found, where)
    default, request = found.get("default"), found.get("defaultRequest")
    if default is None or request is None or overcommits(name):
        return
    if quantity.parse(default) != quantity.parse(request):
        detail = f"default value {default} must equal to defaultRequest value {request} in {name}"
        yield invalid(f"{where}.defaultRequest[{name}]", request, detail)


def _ratio(name: str, found: dict[str, str | None], where: str) -> Iterator[FieldError]:
    ratio, least, most = (found.get(field) for field in ("maxLimitRequestRatio", "min", "max"))
    if ratio is None:
        return
    at, wanted = f"{where}.maxLimitRequestRatio[{name}]", quantity.parse(ratio) / quantity.NANO
    if wanted < 1:
        yield invalid(at, ratio, f"ratio {ratio} is less than 1")
    if least is not None and most is not None and (smallest := quantity.parse(least)):
        limit = quantity.parse(most) / smallest
        if wanted > limit:
            yield invalid(at, ratio, f"ratio {ratio} is greater than max/min = {limit:f}")


# Quotas


def quota(spec: Object, _at: At) -> Iterator[FieldError]:
    """The limits and scopes of a ResourceQuota."""
    yield from amounts(spec.get("hard") or {}, At("spec.hard"))
    scopes, selector = spec.get("scopes") or [], spec.get("scopeSelector")
    for scope in scopes:
        if scope not in SCOPES:
            yield invalid("spec.scopes", scopes, "unsupported scope")
        if not _applies(scope, spec):
            yield invalid("spec.scopes", scopes, "unsupported scope applied to resource")
    if _conflict(scopes):
        yield invalid("spec.scopes", scopes, "conflicting scopes")
    if selector is not None:
        yield from _selector(spec, selector)


def same_scopes(scopes: list[str] | None, at: At) -> Iterator[FieldError]:
    """The scopes are immutable."""
    if set(scopes or ()) != set(at.old or ()):
        yield invalid(at.path, scopes, IMMUTABLE)


def amounts(given: dict[str, str], at: At) -> Iterator[FieldError]:
    """Amounts of resources that a quota limits."""
    for name, amount in given.items():
        where = f"{at.path}[{name}]"
        errors = label_key_errors(name)
        yield from problems(where, name, errors)
        if not errors and "/" not in name and not name.startswith(("hugepages-", "requests.hugepages-")):
            if name not in _STANDARD:
                yield invalid(where, name, _NOT_STANDARD)
            if name not in QUOTA_RESOURCES:
                yield invalid(where, name, "must be a standard resource for quota")
        nanos = quantity.parse(amount)
        if nanos < 0:
            yield invalid(where, amount, "must be greater than or equal to 0")
        if nanos % quantity.NANO and (name in _COUNTED or not overcommits(name)):
            yield invalid(where, amount, "must be an integer")


def _applies(scope: str, spec: Object) -> bool:
    """Whether a scope applies to all standard resources of a quota."""
    supported = SCOPES.get(scope, QUOTA_RESOURCES)
    return all(name in supported for name in spec.get("hard") or () if name in QUOTA_RESOURCES)


def _conflict(scopes: list[str]) -> bool:
    return {"BestEffort", "NotBestEffort"} <= set(scopes) or {"Terminating", "NotTerminating"} <= set(scopes)


def _selector(spec: Object, selector: Object) -> Iterator[FieldError]:
    where = "spec.scopeSelector.matchExpressions"
    expressions = selector.get("matchExpressions") or []
    for expression in expressions:
        scope, operator = expression["scopeName"], expression["operator"]
        values = expression.get("values") or []
        if scope not in SCOPES:
            yield invalid(f"{where}.scopeName", scope, "unsupported scope")
        if not _applies(scope, spec):
            yield invalid(where, selector, "unsupported scope applied to resource")
        if scope in _ONLY_EXISTS and operator != "Exists":
            detail = (
                "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
                "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or "
                "ResourceQuotaScopeCrossNamespacePodAffinity"
            )
            yield invalid(f"{where}.operator", operator, detail)
        if operator in {"In", "NotIn"} and not values:
            detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            yield required(f"{where}.values", detail)
        elif operator in {"Exists", "DoesNotExist"} and values:
            detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            yield invalid(f"{where}.values", values, detail)
        elif operator not in {"In", "NotIn", "Exists", "DoesNotExist"}:
            yield invalid(f"{where}.operator", operator, "not a valid selector operator")
    if _conflict([expression["scopeName"] for expression in expressions]):
        yield invalid("spec.scopes", spec.get("scopes"), "conflicting scopes")
