"""Who asks: a user that a front proxy names, the owner of a certificate or of a token, or somebody without a name.

Mirrors k8s.io/apiserver's delegating authentication (pkg/authentication/authenticatorfactory/delegating.go).
"""

from __future__ import annotations

import hashlib
import logging
import ssl
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from bayplan.service.serving import authorities
from bayplan.service.serving.authorities import Authorities, ClientCertificate, ClientCertificates
from bayplan.service.serving.options import ProxyHeaders
from bayplan.service.serving.reviews import ReviewFailedError, Reviews, User

log = logging.getLogger(__name__)

AUTHENTICATED, UNAUTHENTICATED = "system:authenticated", "system:unauthenticated"
ANONYMOUS = User("system:anonymous", (UNAUTHENTICATED,))

_CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
_UID_OF_SUBJECT = "1.3.6.1.4.1.57683.2"


class RefusedCredentialsError(Exception):
    """Somebody has shown something, and it is no good. The message is for the log."""


class Authentication:
    """Finds out who asks. `clients`, `proxies` and `headers` give what is to be believed at the moment."""

    def __init__(
        self,
        reviews: Reviews,
        *,
        clients: Callable[[], Authorities],
        proxies: Callable[[], Authorities],
        headers: Callable[[], ProxyHeaders],
    ) -> None:
        self._reviews = reviews
        self._clients = clients
        self._proxies = proxies
        self._headers = headers
        self._certificates = ClientCertificates()

    async def user_of(self, request: web.BaseRequest) -> User:
        """Who asks: the first who is found. Raises RefusedCredentialsError where what was shown is no good.

        Who shows nothing is anonymous.
        """
        connection: Any = None if request.transport is None else request.transport.get_extra_info("ssl_object")
        certificate = self._certificates.of(connection) if isinstance(connection, ssl.SSLObject) else None
        problems: list[str] = []
        user = None
        if certificate is not None:
            user = self._named_by_proxy(request, certificate, problems) or self._owner_of(certificate, problems)
        user = user or await self._owner_of_token(request, problems)
        if user is not None:
            return _with_group(user)
        if problems:
            raise RefusedCredentialsError("; ".join(problems))
        return ANONYMOUS

    def _named_by_proxy(
        self, request: web.BaseRequest, certificate: ClientCertificate, problems: list[str]
    ) -> User | None:
        believed, headers = self._proxies(), self._headers()
        if not believed:
            return None
        if not certificate.rests_on(believed, authorities.now()):
            problems.append(f"the certificate of {certificate.common_name!r} is no front proxy's")
        elif headers.allowed_names and certificate.common_name not in headers.allowed_names:
            problems.append(f"{certificate.common_name!r} is not among the names of front proxies")
        else:
            return user_of_headers(request, headers)
        return None

    def _owner_of(self, certificate: ClientCertificate, problems: list[str]) -> User | None:
        believed = self._clients()
        if not believed:
            return None
        if not certificate.rests_on(believed, authorities.now()):
            problems.append(f"the certificate of {certificate.common_name!r} is no client's, or has expired")
            return None
        try:
            return user_of_certificate(certificate)
        except ValueError as error:
            problems.append(str(error))
            return None

    async def _owner_of_token(self, request: web.BaseRequest, problems: list[str]) -> User | None:
        token = bearer_token(request.headers.get("Authorization", ""))
        if not token or not self._reviews.can_ask:
            return None
        try:
            user = await self._reviews.user_of(token) if token.isascii() else None
        except ReviewFailedError as error:
            problems.append(str(error))
            return None
        if user is None:
            problems.append("invalid bearer token")
        return user


def user_of_headers(request: web.BaseRequest, headers: ProxyHeaders) -> User | None:
    """Whom a front proxy names; None if it names nobody."""

    def values(names: Iterable[str]) -> list[str]:
        return [value for name in names for value in request.headers.getall(name, ()) if value]

    name = next(iter(values(headers.username)), "")
    if not name:
        return None
    extra: dict[str, list[str]] = {}
    for prefix in headers.extra_prefixes:
        for key, value in request.headers.items():
            if key.lower().startswith(prefix.lower()):
                extra.setdefault(unquote(key[len(prefix) :].lower()), []).append(value)
    return User(name, tuple(values(headers.group)), next(iter(values(headers.uid)), ""), extra)


def user_of_certificate(certificate: ClientCertificate) -> User | None:
    """Who a certificate says that they are; None where it names nobody. Raises ValueError for a uid that is none."""
    if not certificate.common_name:
        return None
    uids = certificate.named(_UID_OF_SUBJECT)
    if len(uids) > 1 or uids == [""]:
        raise ValueError(f"the certificate of {certificate.common_name!r} has not one uid: {uids}")
    extra = {_CREDENTIAL_ID: [f"X509SHA256={hashlib.sha256(certificate.der).hexdigest()}"]}
    return User(certificate.common_name, tuple(certificate.named("organizationName")), "".join(uids), extra)


def bearer_token(header: str) -> str:
    """The token of an Authorization header; "" where there is none."""
    parts = header.strip().split(" ", 2)
    return parts[1] if len(parts) > 1 and parts[0].lower() == "bearer" else ""


def _with_group(user: User) -> User:
    if user.name == ANONYMOUS.name or {AUTHENTICATED, UNAUTHENTICATED} & set(user.groups):
        return user
    return replace(user, groups=(*user.groups, AUTHENTICATED))
