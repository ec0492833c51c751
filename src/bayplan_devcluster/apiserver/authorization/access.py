"""Access: authenticates and authorizes requests. The server and its reviews call this module.

Every request passes here, in memory or over a socket. Without tokens, everyone may do everything; with `rbac`, the
roles of the cluster decide (`rbac.py`, `bootstrap_policy.json`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol
from urllib.parse import unquote

from bayplan.core.api.status import bad_request, unauthorized
from bayplan.foundations.clock import Clock
from bayplan_devcluster.apiserver.authorization.attributes import Attributes, Verdict, attributes_of, forbidden_request
from bayplan_devcluster.apiserver.authorization.rbac import Rbac
from bayplan_devcluster.apiserver.authorization.rules import Rule
from bayplan_devcluster.apiserver.authorization.service_account_tokens import InvalidTokenError, ServiceAccountTokens
from bayplan_devcluster.apiserver.authorization.users import (
    ADMIN,
    ANONYMOUS,
    ANONYMOUS_NAME,
    AUTHENTICATED,
    UNAUTHENTICATED,
    User,
    service_account_groups,
    service_account_of,
)
from bayplan_devcluster.apiserver.http.request_info import RequestInfo
from bayplan_devcluster.apiserver.storage.store import Store

Audit = Callable[[User, Attributes, Verdict], None]
"""Called for every authorized request with the user, the attributes of the request, and the verdict."""

_AUTHENTICATION = "authentication.k8s.io"


Headers = Iterable[tuple[str, str]]
"""Pairs of a name, in any case, and a value."""


class Authorizer(Protocol):
    """Decides what users may do."""

    def authorize(self, user: User, attributes: Attributes) -> Verdict:
        """Whether a user may do something."""
        ...

    def rules(self, user: User, namespace: str) -> tuple[Sequence[Rule], str]:
        """What a user may do in a namespace, and the errors that kept the list from being complete."""
        ...


class Access:
    """Authentication and authorization of one server.

    `users` maps static bearer tokens to users. With `rbac`, roles decide, and requests without
    credentials are anonymous. Without it, all known users may do everything; if there are no users, everyone may.
    """

    def __init__(self, store: Store, clock: Clock, users: Mapping[str, User], *, rbac: bool) -> None:
        self.tokens = ServiceAccountTokens(store, clock)
        self.audit: list[Audit] = []
        self.rbac = Rbac(store) if rbac else None
        self._users = users
        self._authorizer: Authorizer = self.rbac or _AllowKnownUsers({user.name for user in users.values()})

    def authenticate(self, authorization: str) -> User:
        """The user that an Authorization header identifies. Raises 401."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() == "bearer" and token.strip():
            try:
                return self.user_of_token(token.strip())[0]
            except InvalidTokenError:
                if self._users or self.rbac is not None:
                    raise unauthorized() from None
        if self.rbac is not None:
            return ANONYMOUS
        if self._users:
            raise unauthorized()
        return ADMIN

    def user_of_token(self, token: str, audiences: Sequence[str] = ()) -> tuple[User, list[str]]:
        """The user of a bearer token, and the audiences that it is valid for, if any. Raises InvalidTokenError."""
        known = self._users.get(token)
        return (known, []) if known is not None else self.tokens.user_of(token, audiences)

    def admit(self, user: User, info: RequestInfo, parameters: Mapping[str, str], headers: Headers) -> User:
        """Authorizes a request. Returns its effective user: the given one, or the one they impersonate. Raises 403."""
        if self.rbac is None and not self.audit:
            return user
        if self.rbac is not None:
            user = self._impersonated(user, headers)
        self.check(user, attributes_of(info, parameters))
        return user

    def check(self, user: User, attributes: Attributes) -> None:
        """Raises 403 if a user may not do something."""
        verdict = self._authorizer.authorize(user, attributes)
        for callback in self.audit:
            callback(user, attributes, verdict)
        if not verdict.allowed:
            raise forbidden_request(user, attributes, verdict.reason)

    def authorize(self, user: User, attributes: Attributes) -> Verdict:
        """Whether a user may do something. The audit callbacks are not called."""
        return self._authorizer.authorize(user, attributes)

    def rules(self, user: User, namespace: str) -> tuple[Sequence[Rule], str]:
        """What a user may do in a namespace, and the errors that kept the list from being complete."""
        return self._authorizer.rules(user, namespace)

    def _impersonated(self, user: User, headers: Headers) -> User:
        """Mirrors apiserver's pkg/endpoints/filters/impersonation."""
        requested, extra = _impersonation(headers)
        name, groups, uid = "".join(requested["user"][:1]), tuple(requested["group"]), "".join(requested["uid"][:1])
        if not name:
            if groups or extra or uid:
                raise bad_request("requested groups, extra or uid without impersonating a user")
            return user
        account = service_account_of(name)
        if account is not None:
            self._check_impersonation(user, "serviceaccounts", account[1], namespace=account[0])
        else:
            self._check_impersonation(user, "users", name)
        for group in groups:
            self._check_impersonation(user, "groups", group)
        for key, values in extra.items():
            for value in values:
                self._check_impersonation(user, "userextras", value, group=_AUTHENTICATION, subresource=key)
        if uid:
            self._check_impersonation(user, "uids", uid, group=_AUTHENTICATION)
        if account is not None and not groups:
            groups = service_account_groups(account[0])
        return User(name, _completed(name, groups), uid, extra)

    def _check_impersonation(
        self, user: User, resource: str, name: str, *, group: str = "", subresource: str = "", namespace: str = ""
    ) -> None:
        self.check(user, Attributes("impersonate", group, resource, subresource, namespace, name))


def _impersonation(headers: Headers) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """The values of the Impersonate headers: `user`, `group` and `uid`, and those of Impersonate-Extra by key."""
    requested: dict[str, list[str]] = {"user": [], "group": [], "uid": []}
    extra: dict[str, list[str]] = {}
    for header, value in headers:
        prefix, _, what = header.lower().partition("-")
        if prefix != "impersonate":
            continue
        if what in requested:
            requested[what].append(value)
        elif what.startswith("extra-"):
            extra.setdefault(unquote(what.removeprefix("extra-")), []).append(value)
    return requested, extra


def _completed(name: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    """The groups of an impersonated user, with `system:authenticated` or `system:unauthenticated`."""
    if name == ANONYMOUS_NAME:
        return groups if UNAUTHENTICATED in groups else (*groups, UNAUTHENTICATED)
    return groups if {AUTHENTICATED, UNAUTHENTICATED} & set(groups) else (*groups, AUTHENTICATED)


class _AllowKnownUsers:
    """Allows everything to users and groups by name, or to everyone if there are no names."""

    def __init__(self, names: set[str]) -> None:
        self._names = names

    def authorize(self, user: User, attributes: Attributes) -> Verdict:
        known = user.is_master or service_account_of(user.name) is not None
        return Verdict(known or not self._names or any(name in self._names for name in (user.name, *user.groups)))

    def rules(self, user: User, namespace: str) -> tuple[Sequence[Rule], str]:
        return (Rule(("*",), ("*",), ("*",)), Rule(("*",), urls=("*",))), ""
