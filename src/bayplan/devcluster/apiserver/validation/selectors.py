"""Validates selectors in objects. Mirrors apimachinery's pkg/apis/meta/v1/validation and the node selectors of
Kubernetes' pkg/apis/core/validation.
"""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.api.field_errors import FieldError, forbidden, invalid, required
from bayplan.api.labels import label_key_errors, label_value_errors
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.validation.checks import problems
from bayplan.devcluster.apiserver.validation.meta import validate_labels


def validate_label_selector(selector: Object | None, where: str) -> Iterator[FieldError]:
    """Rules for a LabelSelector, if there is one."""
    if selector is None:
        return
    yield from validate_labels(selector.get("matchLabels"), f"{where}.matchLabels")
    for index, expression in enumerate(selector.get("matchExpressions", ())):
        at = f"{where}.matchExpressions[{index}]"
        operator, values = expression["operator"], expression.get("values", ())
        if operator in {"In", "NotIn"}:
            if not values:
                yield required(f"{at}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in {"Exists", "DoesNotExist"}:
            if values:
                detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield forbidden(f"{at}.values", detail)
        else:
            yield invalid(f"{at}.operator", operator, "not a valid selector operator")
        yield from problems(f"{at}.key", expression["key"], label_key_errors(expression["key"]))
        for position, value in enumerate(values):
            yield from problems(f"{at}.values[{position}]", value, label_value_errors(value))


def validate_node_affinity(affinity: Object, where: str) -> Iterator[FieldError]:
    """Rules for a NodeAffinity."""
    needed = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if needed is not None:
        yield from validate_node_selector(needed, f"{where}.requiredDuringSchedulingIgnoredDuringExecution")
    for index, preferred in enumerate(affinity.get("preferredDuringSchedulingIgnoredDuringExecution", ())):
        at = f"{where}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
        if not 1 <= preferred["weight"] <= 100:
            yield invalid(f"{at}.weight", preferred["weight"], "must be in the range 1-100")
        yield from _node_term(preferred["preference"], f"{at}.preference")


def validate_node_selector(selector: Object, where: str) -> Iterator[FieldError]:
    """Rules for a NodeSelector."""
    terms = selector.get("nodeSelectorTerms") or ()
    if not terms:
        yield required(f"{where}.nodeSelectorTerms", "must have at least one node selector term")
    for index, term in enumerate(terms):
        yield from _node_term(term, f"{where}.nodeSelectorTerms[{index}]")


def _node_term(term: Object, where: str) -> Iterator[FieldError]:
    for index, requirement in enumerate(term.get("matchExpressions", ())):
        yield from _node_requirement(requirement, f"{where}.matchExpressions[{index}]")
    for index, requirement in enumerate(term.get("matchFields", ())):
        at = f"{where}.matchFields[{index}]"
        if requirement["operator"] not in {"In", "NotIn"}:
            yield invalid(f"{at}.operator", requirement["operator"], "not a valid selector operator")
        elif len(requirement.get("values", ())) != 1:
            detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            yield required(f"{at}.values", detail)
        if requirement["key"] != "metadata.name":
            yield invalid(f"{at}.key", requirement["key"], "not a valid field selector key")


def _node_requirement(requirement: Object, where: str) -> Iterator[FieldError]:
    operator, values = requirement["operator"], requirement.get("values", ())
    if operator in {"In", "NotIn"}:
        if not values:
            yield required(f"{where}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in {"Exists", "DoesNotExist"}:
        if values:
            yield forbidden(f"{where}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    elif operator in {"Gt", "Lt"}:
        if len(values) != 1:
            yield required(f"{where}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
    else:
        yield invalid(f"{where}.operator", operator, "not a valid selector operator")
    yield from problems(f"{where}.key", requirement["key"], label_key_errors(requirement["key"]))
    for position, value in enumerate(values):
        yield from problems(f"{where}.values[{position}]", value, label_value_errors(value))


def validate_positive(number: int, where: str) -> Iterator[FieldError]:
    """The number has to be above zero."""
    if number <= 0:
        yield invalid(where, number, "must be greater than zero")


def validate_not_negative(number: int | None, where: str) -> Iterator[FieldError]:
    """The number, if there is one, must not be below zero."""
    if number is not None and number < 0:
        yield invalid(where, number, "must be greater than or equal to 0")
