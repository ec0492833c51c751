"""The namespace that pages are filtered by."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

from bayplan.answers.insight.answers import QuestionError
from bayplan.answers.insight.insight import Insight
from bayplan.answers.insight.namespaces import namespaces_of

NEAR = 5
"""The most near names to offer."""


class UnknownName(QuestionError):
    """A filter names what the cluster lacks. `parameter`: the one of the query. `near`: names that hardly differ."""

    def __init__(self, what: str, name: str, parameter: str, known: Collection[str]) -> None:
        self.parameter = parameter
        self.near = near_names(name, known)
        hint = f"; did you mean {' or '.join(self.near)}?" if self.near else ""
        super().__init__(f"there is no {what} {name}{hint}")


def near_names(name: str, known: Collection[str]) -> list[str]:
    """Return the names that are similar to one or contain it, the most similar first."""
    close = get_close_matches(name, known, NEAR, 0.6)
    return list(dict.fromkeys((*close, *sorted(each for each in known if name in each))))[:NEAR]


def check_namespace(insight: Insight, namespace: str) -> list[str]:
    """Return the namespaces of a cluster. Raises UnknownName unless `namespace` is one of them, or ""."""
    known = namespaces_of(insight.world, insight.snapshot)
    if namespace and namespace not in known:
        raise UnknownName("namespace", namespace, "namespace", known)
    return known
