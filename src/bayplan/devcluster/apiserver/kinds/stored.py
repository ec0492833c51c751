"""Kinds that the server only stores, because nothing in the embedded cluster acts on them.

They have no code of their own: DEFAULTS are upstream's defaults as data, and the table of types says which fields are
required and which values are possible. Each write returns a warning that says what doesn't happen.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from bayplan.api.field_errors import FieldError, join, not_supported, required
from bayplan.api.kinds import Kind
from bayplan.devcluster.apiserver.api_types import fields_of, table
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.storage.resource import Resource
from bayplan.devcluster.apiserver.storage.strategy import Strategy

_WEBHOOK: Object = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "timeoutSeconds": 10,
}
_PERCENT_POLICY: Object = {"type": "Percent", "value": 100, "periodSeconds": 15}
_TCP: Object = {"protocol": "TCP"}

DEFAULTS: Mapping[str, Object] = {
    "admissionregistration_v1.MatchResources": {
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
    },
    "admissionregistration_v1.MutatingAdmissionPolicySpec": {"failurePolicy": "Fail"},
    "admissionregistration_v1.MutatingWebhook": {**_WEBHOOK, "reinvocationPolicy": "Never"},
    "admissionregistration_v1.NamedRuleWithOperations": {"scope": "*"},
    "admissionregistration_v1.RuleWithOperations": {"scope": "*"},
    "admissionregistration_v1.ServiceReference": {"port": 443},
    "admissionregistration_v1.ValidatingAdmissionPolicySpec": {"failurePolicy": "Fail"},
    "admissionregistration_v1.ValidatingWebhook": _WEBHOOK,
    "apiregistration_v1.ServiceReference": {"port": 443},
    "autoscaling_v2.HorizontalPodAutoscalerBehavior": {
        "scaleUp": {
            "stabilizationWindowSeconds": 0,
            "selectPolicy": "Max",
            "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, _PERCENT_POLICY],
        },
        "scaleDown": {"selectPolicy": "Max", "policies": [_PERCENT_POLICY]},
    },
    "autoscaling_v2.HorizontalPodAutoscalerSpec": {
        "minReplicas": 1,
        "metrics": [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
            }
        ],
    },
    "core_v1.EndpointPort": _TCP,
    "discovery_v1.EndpointPort": {"name": "", **_TCP},
    "flowcontrol_v1.ExemptPriorityLevelConfiguration": {"nominalConcurrencyShares": 0, "lendablePercent": 0},
    "flowcontrol_v1.FlowSchemaSpec": {"matchingPrecedence": 1000},
    "flowcontrol_v1.LimitedPriorityLevelConfiguration": {"nominalConcurrencyShares": 30, "lendablePercent": 0},
    "flowcontrol_v1.QueuingConfiguration": {"handSize": 8, "queues": 64, "queueLengthLimit": 50},
    "networking_v1.IngressClassParametersReference": {"scope": "Cluster"},
    "networking_v1.NetworkPolicyPort": _TCP,
}
"""The values of missing fields, by type. Those of objects are merged into the ones that are there."""


def stored(
    kind: Kind,
    why: str,
    *,
    default: Callable[[Object], None] = lambda _: None,
    validate: Callable[[Object], Iterable[FieldError]] | None = None,
    **facts: Any,
) -> Resource:
    """Returns a kind that is only stored. `why` ends the warning `stored; ...`, and `facts` are those of a Resource.

    `default` sets the defaults that depend on other fields, and `validate` replaces the check by the schema.
    """
    model, warning = kind.model, f"stored; {why}"

    def complete(obj: Object) -> None:
        default(obj)
        set_defaults(model, obj)

    strategy = Strategy(
        default=complete, validate=validate or partial(check_by_schema, model), warn=lambda _obj: (warning,)
    )
    return Resource(kind, strategy, **facts)


def set_defaults(model: str, obj: Object) -> None:
    """Completes an object of a type, and all objects inside it."""
    for kind, part, _ in _objects(model, obj):
        _complete(kind, part, DEFAULTS.get(kind, {}))


def _complete(model: str, obj: Object, defaults: Object) -> None:
    for key, default in defaults.items():
        field, value = fields_of(model)[key], obj.get(key)
        if value is None or (field.empty == "zero" and value == 0):
            obj[key] = copy.deepcopy(default)
        elif isinstance(default, dict):
            _complete(field.type, value, default)


def check_by_schema(model: str, obj: Object) -> Iterator[FieldError]:
    """Yields the required strings that an object lacks, and strings that are none of the possible values."""
    for kind, part, where in _objects(model, obj):
        if where.partition(".")[0] in {"metadata", "status"}:
            continue
        for key, field in fields_of(kind).items():
            value, at = part.get(key), join(where, key)
            if field.required and field.type == "string" and not value:
                yield required(at)
            elif field.enum and isinstance(value, str) and value not in field.enum:
                yield not_supported(at, value, sorted(field.enum))
            elif field.enum and isinstance(value, list):
                for index, item in enumerate(value):
                    if item not in field.enum:
                        yield not_supported(f"{at}[{index}]", item, sorted(field.enum))


def _objects(model: str, value: Any, where: str = "") -> Iterator[tuple[str, Object, str]]:
    """Yields the objects in a value of a type, the outer ones first: their types, the objects and their paths."""
    if model.startswith("[]"):
        for index, item in enumerate(value):
            yield from _objects(model[2:], item, f"{where}[{index}]")
    elif model.startswith("{}"):
        for key, item in value.items():
            yield from _objects(model[2:], item, f"{where}[{key}]")
    elif isinstance(value, dict) and model in table():
        yield model, value, where
        for key, field in fields_of(model).items():
            if value.get(key) is not None:
                yield from _objects(field.type, value[key], join(where, key))
