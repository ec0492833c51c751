"""Rules of roles and role bindings that concern several fields. Mirrors pkg/apis/rbac/validation of Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.core.api.field_errors import FieldError, invalid, not_supported, required
from bayplan.core.api.kinds import ROLE
from bayplan.core.api.names import name_errors
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.validation.rules import At, problems

_SUBJECTS = ("ServiceAccount", "User", "Group")


def policy_rule(rule: Object, at: At) -> Iterator[FieldError]:
    """A rule of a role, which is `namespaced` or not."""
    where = at.path
    if not rule.get("verbs"):
        yield required(f"{where}.verbs", "verbs must contain at least one value")
    urls = rule.get("nonResourceURLs")
    if urls and at.arguments:
        yield invalid(f"{where}.nonResourceURLs", urls, "namespaced rules cannot apply to non-resource URLs")
    if urls and any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
        what = "rules cannot apply to both regular resources and non-resource URLs"
        yield invalid(f"{where}.nonResourceURLs", urls, what)
    if urls:
        return
    if not rule.get("apiGroups"):
        yield required(f"{where}.apiGroups", "resource rules must supply at least one api group")
    if not rule.get("resources"):
        yield required(f"{where}.resources", "resource rules must supply at least one resource")


def role_reference(given: Object | None, at: At) -> Iterator[FieldError]:
    """The role of a binding. The arguments are its possible kinds."""
    ref, kinds = given or {}, at.arguments.split(",")
    name = ref.get("name", "")
    if ref.get("apiGroup") != ROLE.group:
        yield not_supported(f"{at.path}.apiGroup", ref.get("apiGroup", ""), (ROLE.group,))
    if ref.get("kind") not in kinds:
        yield not_supported(f"{at.path}.kind", ref.get("kind", ""), kinds)
    if not name:
        yield required(f"{at.path}.name")
    yield from problems(f"{at.path}.name", name, name_errors(name, "path"))


def subject(subject: Object, at: At) -> Iterator[FieldError]:
    """A subject of a binding, which is `namespaced` or not."""
    where = at.path
    if not subject.get("name"):
        yield required(f"{where}.name")
    group = subject.get("apiGroup", "")
    match subject.get("kind"):
        case "ServiceAccount":
            if group:
                yield not_supported(f"{where}.apiGroup", group, ("",))
            if not at.arguments and not subject.get("namespace"):
                yield required(f"{where}.namespace")
        case "User" | "Group":
            if group != ROLE.group:
                yield not_supported(f"{where}.apiGroup", group, (ROLE.group,))
        case kind:
            yield not_supported(f"{where}.kind", kind or "", _SUBJECTS)
