"""Rules of roles: what they allow, and whether some rules amount to others.

Mirrors pkg/apis/rbac/v1/evaluation_helpers.go and k8s.io/component-helpers' auth/rbac/validation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from bayplan.api.field_errors import quoted
from bayplan.devcluster.apiserver.authorization.attributes import Attributes

ALL = "*"


@dataclass(frozen=True, slots=True)
class Rule:
    """A PolicyRule."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    @classmethod
    def of(cls, rule: Mapping[str, Sequence[str]]) -> Rule:
        """A rule as the API has it."""
        fields = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
        return cls(*(tuple(rule.get(name) or ()) for name in fields))

    def allows(self, asked: Attributes) -> bool:
        """Whether the rule is enough."""
        if ALL not in self.verbs and asked.verb not in self.verbs:
            return False
        if not asked.resource:
            return any(_covers_url(url, asked.path) for url in self.urls)
        return (
            (ALL in self.groups or asked.group in self.groups)
            and _has_resource(self.resources, asked.combined)
            and (not self.names or asked.name in self.names)
        )

    def broken_down(self) -> Iterator[Rule]:
        """Rules of one verb and one resource (and name) or path each that together are this one."""
        for group, resource, verb, name in product(self.groups, self.resources, self.verbs, self.names or (None,)):
            yield Rule((verb,), (group,), (resource,), () if name is None else (name,))
        for url, verb in product(self.urls, self.verbs):
            yield Rule((verb,), urls=(url,))

    def covers(self, single: Rule) -> bool:
        """Whether the rule allows all that a broken down one does."""
        return (
            (ALL in self.verbs or set(single.verbs) <= set(self.verbs))
            and (ALL in self.groups or set(single.groups) <= set(self.groups))
            and all(_has_resource(self.resources, resource) for resource in single.resources)
            and (not self.names or (bool(single.names) and set(single.names) <= set(self.names)))
            and all(any(_covers_url(own, url) for own in self.urls) for url in single.urls)
        )

    def __str__(self) -> str:
        told = {
            "APIGroups": self.groups,
            "Resources": self.resources,
            "NonResourceURLs": self.urls,
            "ResourceNames": self.names,
            "Verbs": self.verbs,
        }
        return "{" + ", ".join(f"{key}:{_listed(values)}" for key, values in told.items() if values) + "}"

    def as_resource_rule(self) -> dict[str, Any]:
        """The rule as SelfSubjectRulesReviews tell it, if it is of resources."""
        found = {"verbs": self.verbs, "apiGroups": self.groups, "resources": self.resources}
        told = {key: list(values) for key, values in found.items()}
        return told | ({"resourceNames": list(self.names)} if self.names else {})

    def as_path_rule(self) -> dict[str, Any]:
        """The rule as SelfSubjectRulesReviews tell it, if it is of paths."""
        return {"verbs": list(self.verbs), "nonResourceURLs": list(self.urls)}


def _listed(values: Iterable[str]) -> str:
    return "[" + " ".join(map(quoted, values)) + "]"


def _has_resource(resources: tuple[str, ...], asked: str) -> bool:
    if ALL in resources or asked in resources:
        return True
    _, slash, subresource = asked.partition("/")
    return bool(slash) and f"*/{subresource}" in resources


def _covers_url(url: str, path: str) -> bool:
    return url in {ALL, path} or (url.endswith(ALL) and path.startswith(url.rstrip(ALL)))


def not_covered(owned: Sequence[Rule], wanted: Iterable[Rule]) -> list[Rule]:
    """What of some rules others do not allow, with the verbs of a resource together."""
    missing: dict[tuple[Any, ...], list[str]] = {}
    for rule in wanted:
        for single in rule.broken_down():
            if not any(own.covers(single) for own in owned):
                what = (single.groups, single.resources, single.names, single.urls)
                missing.setdefault(what, []).extend(single.verbs)
    return [Rule(tuple(verbs), *what) for what, verbs in missing.items()]
