"""Rules of selectors that concern several fields. Mirrors apimachinery's pkg/apis/meta/v1/validation and the node
selectors of Kubernetes' pkg/apis/core/validation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bayplan.core.api.field_errors import FieldError, forbidden, invalid, required
from bayplan.core.api.labels import label_key_errors, label_value_errors
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.validation.rules import At, problems


def requirement(expression: Object, at: At) -> Iterator[FieldError]:
    """A requirement of a label selector."""
    operator, values = expression["operator"], expression.get("values", ())
    yield from _operator(operator, values, at.path)
    yield from _key_and_values(expression["key"], values, at.path)


def node_requirement(expression: Object, at: At) -> Iterator[FieldError]:
    """A requirement of a node selector."""
    operator, values = expression["operator"], expression.get("values", ())
    if operator not in {"Gt", "Lt"}:
        yield from _operator(operator, values, at.path)
    elif len(values) != 1:
        yield required(f"{at.path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
    yield from _key_and_values(expression["key"], values, at.path)


def _operator(operator: str, values: Sequence[str], where: str) -> Iterator[FieldError]:
    if operator in {"In", "NotIn"}:
        if not values:
            yield required(f"{where}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in {"Exists", "DoesNotExist"}:
        if values:
            yield forbidden(f"{where}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    else:
        yield invalid(f"{where}.operator", operator, "not a valid selector operator")


def _key_and_values(key: str, values: Sequence[str], where: str) -> Iterator[FieldError]:
    yield from problems(f"{where}.key", key, label_key_errors(key))
    for position, value in enumerate(values):
        yield from problems(f"{where}.values[{position}]", value, label_value_errors(value))


def node_field(expression: Object, at: At) -> Iterator[FieldError]:
    """A requirement of a node selector that is about a field: the name is the only one."""
    if expression["operator"] not in {"In", "NotIn"}:
        yield invalid(f"{at.path}.operator", expression["operator"], "not a valid selector operator")
    elif len(expression.get("values", ())) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield required(f"{at.path}.values", detail)
    if expression["key"] != "metadata.name":
        yield invalid(f"{at.path}.key", expression["key"], "not a valid field selector key")
