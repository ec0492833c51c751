"""The rules of roles: what they allow, and whether one set of rules covers another.

Mirrors pkg/apis/rbac/v1/evaluation_helpers.go and k8s.io/component-helpers' auth/rbac/validation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from bayplan.core.api.field_errors import quoted
from bayplan_devcluster.apiserver.authorization.attributes import Attributes

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
        """Reads a rule of an API object."""
        fields = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
        return cls(*(tuple(rule.get(name) or ()) for name in fields))

    def allows(self, attributes: Attributes) -> bool:
        """Whether the rule allows a request."""
        if ALL not in self.verbs and attributes.verb not in self.verbs:
            return False
        if not attributes.resource:
            return any(_covers_url(url, attributes.path) for url in self.urls)
        return (
            (ALL in self.groups or attributes.group in self.groups)
            and _has_resource(self.resources, attributes.combined)
            and (not self.names or attributes.name in self.names)
        )

    def breakdown(self) -> Iterator[Rule]:
        """Splits the rule into rules with one verb and one resource (and name) or one path each."""
        for group, resource, verb, name in product(self.groups, self.resources, self.verbs, self.names or (None,)):
            yield Rule((verb,), (group,), (resource,), () if name is None else (name,))
        for url, verb in product(self.urls, self.verbs):
            yield Rule((verb,), urls=(url,))

    def covers(self, single: Rule) -> bool:
        """Whether the rule allows everything that a rule of `breakdown` allows."""
        return (
            (ALL in self.verbs or set(single.verbs) <= set(self.verbs))
            and (ALL in self.groups or set(single.groups) <= set(self.groups))
            and all(_has_resource(self.resources, resource) for resource in single.resources)
            and (not self.names or (bool(single.names) and set(single.names) <= set(self.names)))
            and all(any(_covers_url(own, url) for own in self.urls) for url in single.urls)
        )

    def __str__(self) -> str:
        parts = {
            "APIGroups": self.groups,
            "Resources": self.resources,
            "NonResourceURLs": self.urls,
            "ResourceNames": self.names,
            "Verbs": self.verbs,
        }
        listed = (f"{key}:[{' '.join(map(quoted, values))}]" for key, values in parts.items() if values)
        return f"{{{', '.join(listed)}}}"

    def as_resource_rule(self) -> dict[str, Any]:
        """The rule in a SelfSubjectRulesReview, for a rule about resources."""
        found = {"verbs": self.verbs, "apiGroups": self.groups, "resources": self.resources}
        rule = {key: list(values) for key, values in found.items()}
        return rule | ({"resourceNames": list(self.names)} if self.names else {})

    def as_path_rule(self) -> dict[str, Any]:
        """The rule in a SelfSubjectRulesReview, for a rule about paths."""
        return {"verbs": list(self.verbs), "nonResourceURLs": list(self.urls)}


def _has_resource(resources: tuple[str, ...], resource: str) -> bool:
    if ALL in resources or resource in resources:
        return True
    _, slash, subresource = resource.partition("/")
    return bool(slash) and f"*/{subresource}" in resources


def _covers_url(url: str, path: str) -> bool:
    return url in {ALL, path} or (url.endswith(ALL) and path.startswith(url.rstrip(ALL)))


def not_covered(owned: Sequence[Rule], wanted: Iterable[Rule]) -> list[Rule]:
    """The parts of the wanted rules that the owned rules do not cover, with one rule for all verbs of a resource."""
    missing: dict[tuple[Any, ...], list[str]] = {}
    for rule in wanted:
        for single in rule.breakdown():
            if not any(own.covers(single) for own in owned):
                what = (single.groups, single.resources, single.names, single.urls)
                missing.setdefault(what, []).extend(single.verbs)
    return [Rule(tuple(verbs), *what) for what, verbs in missing.items()]
