"""Defaults of role bindings. Mirrors pkg/apis/rbac/v1/defaults.go of Kubernetes."""

from __future__ import annotations

from bayplan.api.kinds import ROLE
from bayplan.devcluster.apiserver.schema import Object


def default_binding(binding: Object) -> None:
    """The API group of the role, and of users and groups, is that of RBAC."""
    if ref := binding.get("roleRef"):
        ref["apiGroup"] = ref.get("apiGroup") or ROLE.group
    for subject in binding.get("subjects") or ():
        if subject.get("kind") in {"User", "Group"}:
            subject["apiGroup"] = subject.get("apiGroup") or ROLE.group
