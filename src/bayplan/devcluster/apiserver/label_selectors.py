"""Parses the label selectors in objects.

Mirrors LabelSelectorAsSelector of apimachinery's pkg/apis/meta/v1.
"""

from __future__ import annotations

from bayplan.api.labels import LabelSelector, Requirement
from bayplan.devcluster.apiserver.schema import Object

_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


def label_selector(selector: Object | None) -> LabelSelector:
    """Returns the parsed selector, which selects nothing for None and everything for {}."""
    if selector is None:
        return LabelSelector((Requirement("", "in"),))
    terms = [Requirement(key, "=", frozenset({value})) for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        operator, values = _OPERATORS[expression["operator"]], frozenset(expression.get("values", ()))
        terms.append(Requirement(expression["key"], operator, values))
    return LabelSelector(tuple(terms))
