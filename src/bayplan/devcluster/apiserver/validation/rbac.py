"""Validates roles and role bindings. Mirrors pkg/apis/rbac/validation of Kubernetes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from bayplan.api.field_errors import FieldError, invalid, not_supported, required
from bayplan.api.kinds import CLUSTER_ROLE, ROLE
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.validation.meta import name_errors
from bayplan.devcluster.apiserver.validation.selectors import validate_label_selector

_SUBJECTS = ("ServiceAccount", "User", "Group")


def validate_role(role: Object) -> Iterator[FieldError]:
    """Rules for a role."""
    yield from _rules(role, namespaced=True)


def validate_cluster_role(role: Object) -> Iterator[FieldError]:
    """Rules for a cluster role."""
    yield from _rules(role, namespaced=False)
    aggregation = role.get("aggregationRule")
    if aggregation is not None and not aggregation.get("clusterRoleSelectors"):
        where = "aggregationRule.clusterRoleSelectors"
        yield required(where, "at least one clusterRoleSelector required if aggregationRule is non-nil")
    for index, selector in enumerate((aggregation or {}).get("clusterRoleSelectors") or ()):
        yield from validate_label_selector(selector, f"aggregationRule.clusterRoleSelectors[{index}]")


def _rules(role: Object, *, namespaced: bool) -> Iterator[FieldError]:
    for index, rule in enumerate(role.get("rules") or ()):
        where = f"rules[{index}]"
        if not rule.get("verbs"):
            yield required(f"{where}.verbs", "verbs must contain at least one value")
        urls = rule.get("nonResourceURLs")
        if urls and namespaced:
            yield invalid(f"{where}.nonResourceURLs", urls, "namespaced rules cannot apply to non-resource URLs")
        if urls and any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
            what = "rules cannot apply to both regular resources and non-resource URLs"
            yield invalid(f"{where}.nonResourceURLs", urls, what)
        if urls:
            continue
        if not rule.get("apiGroups"):
            yield required(f"{where}.apiGroups", "resource rules must supply at least one api group")
        if not rule.get("resources"):
            yield required(f"{where}.resources", "resource rules must supply at least one resource")


def binding_rules(*, namespaced: bool) -> Callable[[Object], Iterable[FieldError]]:
    """Rules for a role binding or, if not namespaced, a cluster role binding."""
    kinds = (ROLE.kind, CLUSTER_ROLE.kind) if namespaced else (CLUSTER_ROLE.kind,)

    def validate(binding: Object) -> Iterator[FieldError]:
        ref = binding.get("roleRef") or {}
        if ref.get("apiGroup") != ROLE.group:
            yield not_supported("roleRef.apiGroup", ref.get("apiGroup", ""), (ROLE.group,))
        if ref.get("kind") not in kinds:
            yield not_supported("roleRef.kind", ref.get("kind", ""), kinds)
        if not ref.get("name"):
            yield required("roleRef.name")
        for error in name_errors(ref["name"], "path") if ref.get("name") else ():
            yield invalid("roleRef.name", ref["name"], error)
        for index, subject in enumerate(binding.get("subjects") or ()):
            yield from _subject(subject, f"subjects[{index}]", namespaced=namespaced)

    return validate


def _subject(subject: Object, where: str, *, namespaced: bool) -> Iterator[FieldError]:
    if not subject.get("name"):
        yield required(f"{where}.name")
    group = subject.get("apiGroup", "")
    match subject.get("kind"):
        case "ServiceAccount":
            if group:
                yield not_supported(f"{where}.apiGroup", group, ("",))
            if not namespaced and not subject.get("namespace"):
                yield required(f"{where}.namespace")
        case "User" | "Group":
            if group != ROLE.group:
                yield not_supported(f"{where}.apiGroup", group, (ROLE.group,))
        case kind:
            yield not_supported(f"{where}.kind", kind or "", _SUBJECTS)


def validate_binding_update(binding: Object, old: Object) -> Iterator[FieldError]:
    """The role of a binding is immutable."""
    if binding.get("roleRef") != old.get("roleRef"):
        yield invalid("roleRef", binding.get("roleRef"), "cannot change roleRef")
