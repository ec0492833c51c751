"""Authenticated users. Mirrors apiserver's pkg/authentication/user and serviceaccount."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

MASTERS = "system:masters"
"""The group that may do everything, regardless of roles."""
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
ADMIN_NAME = "system:admin"
ANONYMOUS_NAME = "system:anonymous"

_SERVICE_ACCOUNT = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class User:
    """The sender of a request. `groups` includes `system:authenticated` or `system:unauthenticated`."""

    name: str
    groups: tuple[str, ...] = (AUTHENTICATED,)
    uid: str = ""
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict, hash=False)

    @property
    def is_master(self) -> bool:
        """Whether the user may do everything, regardless of roles."""
        return MASTERS in self.groups

    def info(self) -> dict[str, object]:
        """The user as a UserInfo of the API."""
        found: dict[str, object] = {"username": self.name, "uid": self.uid, "groups": list(self.groups)}
        if self.extra:
            found["extra"] = {key: list(values) for key, values in self.extra.items()}
        return {key: value for key, value in found.items() if value}


ADMIN = User(ADMIN_NAME, (MASTERS, AUTHENTICATED))
ANONYMOUS = User(ANONYMOUS_NAME, (UNAUTHENTICATED,))


def service_account_name(namespace: str, name: str) -> str:
    """The user name of a service account."""
    return f"{_SERVICE_ACCOUNT}{namespace}:{name}"


def service_account_groups(namespace: str) -> tuple[str, ...]:
    """The groups of a namespace's service accounts."""
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")


def service_account_of(user: str) -> tuple[str, str] | None:
    """The (namespace, name) of the service account with a user name, None if it is not a service account's."""
    namespace, _, name = user.removeprefix(_SERVICE_ACCOUNT).partition(":")
    return (namespace, name) if user.startswith(_SERVICE_ACCOUNT) and namespace and name and ":" not in name else None
