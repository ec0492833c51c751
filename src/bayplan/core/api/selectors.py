"""Selectors in objects, parsed: `spec.nodeSelector`, node affinity, and label selector objects.

Mirrors component-helpers' scheduling/corev1/nodeaffinity/nodeaffinity.go. `labels` parses selectors in text form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lightkube.models import core_v1, meta_v1

from bayplan.core.api import field_errors
from bayplan.core.api.field_errors import FieldError
from bayplan.core.api.labels import (
    FieldSelector,
    InvalidSelector,
    LabelSelector,
    Requirement,
    is_int64,
    label_key_errors,
    label_value_errors,
)
from bayplan.core.api.objects import convert

NAME_FIELD = "metadata.name"
"""The only field of a node that selectors support."""

_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!", "Gt": "gt", "Lt": "lt"}


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """Required labels and fields of a node. A term with errors matches nothing."""

    labels: LabelSelector
    fields: FieldSelector
    errors: tuple[FieldError, ...] = ()

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Whether a node matches."""
        return not self.errors and self.labels.matches(labels) and self.fields.matches({NAME_FIELD: name})


@dataclass(frozen=True, slots=True)
class NodeSelector:
    """Terms; at least one must match. A selector without terms matches nothing."""

    terms: tuple[NodeTerm, ...]

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Whether a node matches."""
        return any(term.matches(labels, name) for term in self.terms)

    def __str__(self) -> str:
        """The terms, for people."""
        terms = [
            [*(each.wants for each in term.labels.requirements), *([str(term.fields)] if term.fields.terms else [])]
            for term in self.terms
        ]
        return " or ".join(", ".join(each) for each in terms)

    @property
    def errors(self) -> tuple[FieldError, ...]:
        """The errors of the terms, with paths relative to the selector."""
        return tuple(error for term in self.terms for error in term.errors)


@dataclass(frozen=True, slots=True)
class RequiredNodeAffinity:
    """A pod's requirements on its node: the labels of `nodeSelector`, and one of the terms of its node affinity."""

    labels: LabelSelector | None = None
    selector: NodeSelector | None = None

    @classmethod
    def of(cls, spec: core_v1.PodSpec) -> RequiredNodeAffinity:
        """The requirements of a pod with this spec. Terms with errors are kept; they match nothing."""
        labels = spec.nodeSelector and LabelSelector(
            tuple(Requirement(key, "=", (value,)) for key, value in sorted(spec.nodeSelector.items()))
        )
        affinity = spec.affinity.nodeAffinity if spec.affinity else None
        required = affinity.requiredDuringSchedulingIgnoredDuringExecution if affinity else None
        return cls(labels or None, parse_node_selector(required) if required is not None else None)

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Whether a node meets the requirements."""
        if self.labels is not None and not self.labels.matches(labels):
            return False
        return self.selector is None or self.selector.matches(labels, name)


@dataclass(frozen=True, slots=True)
class PreferredTerm:
    """A term and its weight in a node's score."""

    weight: int
    term: NodeTerm


def label_selector(selector: meta_v1.LabelSelector | None) -> LabelSelector | None:
    """Parse a label selector object. An empty one matches everything, None nothing. Raises InvalidSelector."""
    if selector is None:
        return None
    requirements = [Requirement(key, "=", (value,)) for key, value in (selector.matchLabels or {}).items()]
    for expression in selector.matchExpressions or ():
        operator = _OPERATORS.get(expression.operator)
        if operator is None or operator in {"gt", "lt"}:
            raise InvalidSelector(f'"{expression.operator}" is not a valid label selector operator')
        values = expression.values or []
        if operator in {"in", "notin"} and not values:
            raise InvalidSelector("for 'in', 'notin' operators, values set can't be empty")
        if operator in {"exists", "!"} and values:
            raise InvalidSelector("values set must be empty for exists and does not exist")
        requirements.append(Requirement.of(expression.key, operator, values))
    if len(requirements) > 1:
        requirements.sort(key=lambda each: (each.key, each.operator, sorted(each.values)))
    return LabelSelector(tuple(requirements))


def selector_or_nothing(selector: meta_v1.LabelSelector | None) -> LabelSelector:
    """Parse a label selector object. None and an invalid one match nothing."""
    try:
        return label_selector(selector) or _NOTHING
    except InvalidSelector:
        return _NOTHING


_NOTHING = LabelSelector((Requirement("", "in"),))


def read_selector(document: Mapping[str, Any] | None) -> LabelSelector:
    """`selector_or_nothing` for a plain document."""
    return selector_or_nothing(convert(meta_v1.LabelSelector, document) if document is not None else None)


def parse_node_selector(selector: core_v1.NodeSelector) -> NodeSelector:
    """Parse a node selector. Empty terms match nothing and are omitted."""
    return NodeSelector(
        tuple(
            _parse_term(term, f"nodeSelectorTerms[{index}]")
            for index, term in enumerate(selector.nodeSelectorTerms or ())
            if term.matchExpressions or term.matchFields
        )
    )


def parse_preferred_terms(terms: Sequence[core_v1.PreferredSchedulingTerm] | None) -> tuple[PreferredTerm, ...]:
    """Parse preferred terms. Terms that are empty or have weight 0 are omitted."""
    return tuple(
        PreferredTerm(term.weight, _parse_term(term.preference, f"[{index}]"))
        for index, term in enumerate(terms or ())
        if term.weight and (term.preference.matchExpressions or term.preference.matchFields)
    )


def _parse_term(term: core_v1.NodeSelectorTerm, path: str) -> NodeTerm:
    errors: list[FieldError] = []
    labels: list[Requirement] = []
    for index, expression in enumerate(term.matchExpressions or ()):
        faults = _label_faults(expression, f"{path}.matchExpressions[{index}]")
        errors += faults
        if not faults:
            operator = _OPERATORS[expression.operator]
            labels.append(Requirement.of(expression.key, operator, expression.values or ()))
    fields: list[tuple[str, bool, str]] = []
    for index, expression in enumerate(term.matchFields or ()):
        where = f"{path}.matchFields[{index}]"
        values = expression.values or []
        if expression.operator not in {"In", "NotIn"}:
            errors.append(field_errors.not_supported(f"{where}.operator", expression.operator, ("In", "NotIn")))
        elif len(values) != 1:
            errors.append(field_errors.invalid(f"{where}.values", values, "must have one element"))
        else:
            fields.append((expression.key, expression.operator == "In", values[0]))
    return NodeTerm(LabelSelector(tuple(labels)), FieldSelector(tuple(fields)), tuple(errors))


def _label_faults(expression: core_v1.NodeSelectorRequirement, path: str) -> list[FieldError]:
    operator, values = expression.operator, expression.values or []
    if operator not in _OPERATORS:
        return [field_errors.not_supported(f"{path}.operator", operator, tuple(_OPERATORS))]
    faults = [
        field_errors.invalid(f"{path}.key", expression.key, problem) for problem in label_key_errors(expression.key)
    ]
    if operator in {"In", "NotIn"} and not values:
        problem = "for 'in', 'notin' operators, values set can't be empty"
        faults.append(field_errors.invalid(f"{path}.values", values, problem))
    elif operator in {"Exists", "DoesNotExist"} and values:
        problem = "values set must be empty for exists and does not exist"
        faults.append(field_errors.invalid(f"{path}.values", values, problem))
    elif operator in {"Gt", "Lt"}:
        if len(values) != 1:
            problem = "for 'Gt', 'Lt' operators, exactly one value is required"
            faults.append(field_errors.invalid(f"{path}.values", values, problem))
        problem = "for 'Gt', 'Lt' operators, the value must be an integer"
        faults += [
            field_errors.invalid(f"{path}.values[{index}]", value, problem)
            for index, value in enumerate(values)
            if not is_int64(value)
        ]
    return faults + [
        field_errors.invalid(f"{path}.values[{index}]", value, problem)
        for index, value in enumerate(values)
        for problem in label_value_errors(value)
    ]
