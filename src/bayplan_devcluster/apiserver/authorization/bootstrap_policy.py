"""The default roles and bindings of a cluster, as `bootstrap_policy.json` has them. Mirrors
plugin/pkg/auth/authorizer/rbac/bootstrappolicy of Kubernetes, without the roles of controllers, which are
administrators here.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.resources import files

import msgspec

from bayplan.core.api.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING, Kind
from bayplan.core.versions import OLDEST, Version
from bayplan_devcluster.apiserver.schema import Object

AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"
SYSTEM = "kube-system"
AGGREGATED = {"admin": "", "edit": "admin", "view": "edit"}
"""The cluster roles that aggregate others, and the role that each of them is itself aggregated to."""
_LABELLED = {f"system:aggregate-to-{role}": role for role in AGGREGATED} | AGGREGATED


class _Role(msgspec.Struct, frozen=True):
    """A role of kube-system, with the subjects of its binding, such as "User jane"."""

    rules: tuple[Object, ...]
    subjects: tuple[str, ...]


class _Policy(msgspec.Struct, frozen=True, rename="camel"):
    """The default roles and bindings by name. A binding of a cluster role has the name of the role."""

    cluster_roles: dict[str, tuple[Object, ...]]
    cluster_role_bindings: dict[str, tuple[str, ...]]
    roles: dict[str, _Role]
    alpha_rules: dict[str, tuple[Object, ...]]
    """The rules that the feature gate GenericWorkload adds to cluster roles."""
    version_rules: dict[str, dict[str, tuple[Object, ...]]]
    """The rules that cluster roles have in a version only."""


@cache
def _policy() -> _Policy:
    return msgspec.json.decode(files(__package__).joinpath("bootstrap_policy.json").read_bytes(), type=_Policy)


def bootstrap_policy(version: Version = OLDEST, *, alpha: bool = False) -> Iterator[Object]:
    """The default roles and bindings as objects to create. `alpha`: with the rules for kinds behind feature gates."""
    policy = _policy()
    for name, rules in policy.cluster_roles.items():
        more = policy.version_rules.get(version, {}).get(name, ())
        if alpha:
            more += policy.alpha_rules.get(name, ())
        yield {**_head(CLUSTER_ROLE, name), "rules": [*rules, *more]}
    for name in AGGREGATED:
        selector = {"matchLabels": {f"{AGGREGATE}{name}": "true"}}
        yield {**_head(CLUSTER_ROLE, name), "aggregationRule": {"clusterRoleSelectors": [selector]}, "rules": []}
    for name, subjects in policy.cluster_role_bindings.items():
        yield {**_head(CLUSTER_ROLE_BINDING, name), **_bound(CLUSTER_ROLE, name, subjects)}
    for name, role in policy.roles.items():
        yield {**_head(ROLE, name), "rules": list(role.rules)}
        binding = f"system::{name.removeprefix('system::')}"
        yield {**_head(ROLE_BINDING, binding), **_bound(ROLE, name, role.subjects)}


def _head(kind: Kind, name: str) -> Object:
    labels = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    if part_of := _LABELLED.get(name) if kind is CLUSTER_ROLE else None:
        labels[f"{AGGREGATE}{part_of}"] = "true"
    metadata: Object = {
        "name": name,
        "labels": labels,
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    }
    if kind.namespaced:
        metadata["namespace"] = SYSTEM
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}


def _bound(role: Kind, name: str, subjects: tuple[str, ...]) -> Object:
    bound = []
    for subject in subjects:
        kind, _, who = subject.partition(" ")
        own = {"namespace": SYSTEM} if kind == "ServiceAccount" else {"apiGroup": role.group}
        bound.append({"kind": kind, "name": who, **own})
    return {"roleRef": {"apiGroup": role.group, "kind": role.kind, "name": name}, "subjects": bound}
