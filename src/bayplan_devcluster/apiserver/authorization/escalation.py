"""Users cannot grant permissions that they do not have, unless they may `escalate` a role or `bind` it.

Mirrors pkg/registry/rbac of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.core.api.field_errors import quoted
from bayplan.core.api.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING
from bayplan.core.api.status import forbidden
from bayplan_devcluster.apiserver.authorization.access import Access
from bayplan_devcluster.apiserver.authorization.attributes import Attributes
from bayplan_devcluster.apiserver.authorization.rules import Rule, not_covered
from bayplan_devcluster.apiserver.authorization.users import User
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.storage.resource import Resource

_EVERYTHING = (Rule(("*",), ("*",), ("*",)), Rule(("*",), urls=("*",)))
_ROLES, _BINDINGS = (ROLE, CLUSTER_ROLE), (ROLE_BINDING, CLUSTER_ROLE_BINDING)
GROUP = ROLE.group
_OWNERSHIP = frozenset({"ownerReferences", "finalizers", "managedFields", "resourceVersion"})


def check_escalation(
    access: Access, user: User, resource: Resource, namespace: str, new: Object, old: Object | None = None
) -> None:
    """Raises 403 if a new state of a role or binding would grant permissions that the user does not have."""
    if (
        access.rbac is None
        or user.is_master
        or (old is not None and _without_ownership(new) == _without_ownership(old))
    ):
        return
    if resource.kind in _ROLES:
        _check_role(access, user, resource, namespace, new, old)
    elif resource.kind in _BINDINGS:
        _check_binding(access, user, resource, namespace, new)


def _without_ownership(obj: Object) -> Object:
    """An object without the fields that garbage collection changes, which needs no further permission."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _OWNERSHIP}
    return {**obj, "metadata": metadata}


def _check_role(
    access: Access, user: User, resource: Resource, namespace: str, new: Object, old: Object | None
) -> None:
    name = new["metadata"].get("name", "")
    attributes = Attributes("escalate", GROUP, resource.kind.plural, "", namespace, name if old is not None else "")
    if access.authorize(user, attributes).allowed:
        return
    _confirm(access, user, resource, namespace, name, [Rule.of(rule) for rule in new.get("rules") or ()])
    if new.get("aggregationRule") or (old or {}).get("aggregationRule"):
        owned, _ = access.rules(user, namespace)
        if not_covered(owned, _EVERYTHING):
            raise forbidden(resource.kind, name, "must have cluster-admin privileges to use the aggregationRule")


def _check_binding(access: Access, user: User, resource: Resource, namespace: str, new: Object) -> None:
    assert access.rbac is not None  # the caller checked
    ref = new.get("roleRef") or {}
    plural = {kind.kind: kind.plural for kind in _ROLES}.get(ref.get("kind", ""))
    if plural is None:
        return  # validation rejects it
    if access.authorize(user, Attributes("bind", GROUP, plural, "", namespace, ref["name"])).allowed:
        return
    name = new["metadata"].get("name", "")
    _confirm(access, user, resource, namespace, name, access.rbac.role_rules(ref, namespace))


def _confirm(access: Access, user: User, resource: Resource, namespace: str, name: str, wanted: Sequence[Rule]) -> None:
    owned, problem = access.rules(user, namespace)
    missing = not_covered(owned, wanted)
    if missing:
        groups = "[" + " ".join(map(quoted, user.groups)) + "]"
        rules = "\n".join(sorted(map(str, missing)))
        why = f"user {quoted(user.name)} (groups={groups}) is attempting to grant RBAC permissions not currently held:"
        raise forbidden(resource.kind, name, f"{why}\n{rules}" + (f"; resolution errors: {problem}" if problem else ""))
