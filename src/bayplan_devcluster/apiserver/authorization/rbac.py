"""The RBAC authorizer, which reads roles and bindings from the store.

Mirrors plugin/pkg/auth/authorizer/rbac and pkg/registry/rbac/validation of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from bayplan.core.api.field_errors import quoted
from bayplan.core.api.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING
from bayplan.core.api.status import StatusError
from bayplan_devcluster.apiserver.authorization.attributes import Attributes, Verdict
from bayplan_devcluster.apiserver.authorization.rules import Rule
from bayplan_devcluster.apiserver.authorization.users import User, service_account_name
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.storage.store import Entry, Store

T = TypeVar("T")


class Rbac:
    """Authorizes by the roles and bindings of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._roles: _Parsed[tuple[Rule, ...]] = _Parsed(lambda role: tuple(map(Rule.of, role.get("rules") or ())))
        self._bindings: _Parsed[_Binding] = _Parsed(_Binding.of)

    def authorize(self, user: User, attributes: Attributes) -> Verdict:
        """Whether a rule that applies to the user allows the request."""
        if user.is_master:
            return Verdict(allowed=True)
        problems: list[str] = []
        for source, rules in self._granted(user, attributes.namespace, problems):
            if any(rule.allows(attributes) for rule in rules):
                return Verdict(allowed=True, reason=f"RBAC: allowed by {source}")
        return Verdict(allowed=False, reason=f"RBAC: {_joined(problems)}" if problems else "")

    def rules(self, user: User, namespace: str) -> tuple[list[Rule], str]:
        """The rules that apply to a user in a namespace, and the errors of bindings to missing roles."""
        problems: list[str] = []
        found = [rule for _, rules in self._granted(user, namespace, problems) for rule in rules]
        return found, _joined(problems)

    def role_rules(self, ref: Mapping[str, str], namespace: str) -> Sequence[Rule]:
        """The rules of the role that a binding in a namespace refers to. Raises 404."""
        kind = CLUSTER_ROLE if ref["kind"] == CLUSTER_ROLE.kind else ROLE
        key = ref["name"] if kind is CLUSTER_ROLE else f"{namespace}/{ref['name']}"
        entry = self._store.collection(kind.resource).objects.get(key)
        if entry is None:
            singular = f"{kind.singular}.{kind.group}"
            details = {"name": ref["name"], "group": kind.group, "kind": kind.singular}
            raise StatusError(404, "NotFound", f"{singular} {quoted(ref['name'])} not found", details)
        return self._roles.of(kind.resource, entry)

    def _granted(self, user: User, namespace: str, problems: list[str]) -> Iterator[tuple[str, Sequence[Rule]]]:
        """The bindings that apply to a user, with the rules that they grant; cluster role bindings come first."""
        everywhere = [(CLUSTER_ROLE_BINDING, "")]
        for kind, place in [*everywhere, (ROLE_BINDING, namespace)] if namespace else everywhere:
            for entry in self._store.collection(kind.resource).select(place):
                binding = self._bindings.of(kind.resource, entry)
                subject = binding.subject_of(user, place)
                if subject is None:
                    continue
                try:
                    yield binding.describe(kind.kind, subject), self.role_rules(binding.role, place)
                except StatusError as error:
                    problems.append(error.message)


class _Parsed(Generic[T]):
    """Parsed entries of the store; each version is parsed once."""

    def __init__(self, read: Callable[[Object], T]) -> None:
        self._read = read
        self._known: dict[tuple[str, str], tuple[Entry, T]] = {}

    def of(self, resource: str, entry: Entry) -> T:
        known = self._known.get((resource, entry.key))
        if known is not None and known[0] is entry:
            return known[1]
        found = self._read(entry.load())
        self._known[resource, entry.key] = entry, found
        return found


@dataclass(frozen=True, slots=True)
class _Binding:
    """A role binding or cluster role binding."""

    name: str
    namespace: str
    role: Mapping[str, str]
    subjects: Sequence[Mapping[str, Any]]

    @classmethod
    def of(cls, binding: Object) -> _Binding:
        metadata = binding["metadata"]
        subjects = binding.get("subjects") or ()
        return cls(metadata["name"], metadata.get("namespace", ""), binding["roleRef"], subjects)

    def subject_of(self, user: User, namespace: str) -> Mapping[str, Any] | None:
        """The first subject that matches the user."""
        return next((subject for subject in self.subjects if _matches(user, subject, namespace)), None)

    def describe(self, kind: str, subject: Mapping[str, Any]) -> str:
        """The binding in the format of an authorizer's reason."""
        name = f"{self.name}/{self.namespace}" if self.namespace else self.name
        who = subject["name"]
        if subject["kind"] == "ServiceAccount":
            who = f"{who}/{subject.get('namespace') or self.namespace}"
        role = f"{self.role['kind']} {quoted(self.role['name'])}"
        return f"{kind} {quoted(name)} of {role} to {subject['kind']} {quoted(who)}"


def _matches(user: User, subject: Mapping[str, Any], namespace: str) -> bool:
    match subject["kind"]:
        case "User":
            return bool(user.name == subject["name"])
        case "Group":
            return subject["name"] in user.groups
        case "ServiceAccount":
            home = subject.get("namespace") or namespace
            return bool(home) and user.name == service_account_name(home, subject["name"])
        case _:
            return False


def _joined(problems: list[str]) -> str:
    distinct = list(dict.fromkeys(problems))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]" if distinct else ""
