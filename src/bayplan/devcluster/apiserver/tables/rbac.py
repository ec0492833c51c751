"""The rows of roles and role bindings."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from bayplan.api import kinds
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.tables.columns import AGE, NAME, Cells, Column, age


def _role(role: Object, _now: datetime) -> list[Any]:
    return [role["metadata"]["name"], role["metadata"].get("creationTimestamp", "")]


def _binding(binding: Object, now: datetime) -> list[Any]:
    ref = binding["roleRef"]
    subjects: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in binding.get("subjects") or ():
        home = f"{subject.get('namespace', '')}/" if subject["kind"] == "ServiceAccount" else ""
        subjects[subject["kind"]].append(home + subject["name"])
    bound = [", ".join(names) for names in subjects.values()]
    return [binding["metadata"]["name"], f"{ref['kind']}/{ref['name']}", age(binding, now), *bound]


_ROLE_COLUMNS = (NAME, Column("Created At", "meta_v1.ObjectMeta.creationTimestamp"))
_BINDING_COLUMNS = (
    NAME,
    Column("Role", "rbac_v1.RoleBinding.roleRef"),
    AGE,
    Column("Users", "Users in the roleBinding", wide=True),
    Column("Groups", "Groups in the roleBinding", wide=True),
    Column("ServiceAccounts", "ServiceAccounts in the roleBinding", wide=True),
)

TABLES: dict[kinds.Kind, tuple[tuple[Column, ...], Cells]] = {
    kinds.ROLE: (_ROLE_COLUMNS, _role),
    kinds.CLUSTER_ROLE: (_ROLE_COLUMNS, _role),
    kinds.ROLE_BINDING: (_BINDING_COLUMNS, _binding),
    kinds.CLUSTER_ROLE_BINDING: (_BINDING_COLUMNS, _binding),
}
