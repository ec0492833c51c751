"""Finds the user of a request: named by a front proxy, by a client certificate or by a token, or anonymous.

Mirrors k8s.io/apiserver's delegating authentication (pkg/authentication/authenticatorfactory/delegating.go).
"""

from __future__ import annotations

import hashlib
import logging
import ssl
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from bayplan.running.service.serving.authorities import ClientCertificate, ClientCertificates
from bayplan.running.service.serving.certificates import Certificates
from bayplan.running.service.serving.options import ProxyHeaders
from bayplan.running.service.serving.reviews import AuthenticatedUser, ReviewFailedError, Reviews

log = logging.getLogger(__name__)

AUTHENTICATED, UNAUTHENTICATED = "system:authenticated", "system:unauthenticated"
ANONYMOUS = AuthenticatedUser("system:anonymous", (UNAUTHENTICATED,))

_CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
_UID_OF_SUBJECT = "1.3.6.1.4.1.57683.2"


class InvalidCredentialsError(Exception):
    """A request has credentials, but they are invalid. The message is for the log, not for the client."""


class Authentication:
    """Authenticates requests. `trusted`: the authorities and headers that are trusted at the moment."""

    def __init__(self, reviews: Reviews, trusted: Certificates) -> None:
        self._reviews = reviews
        self._trusted = trusted
        self._certificates = ClientCertificates()

    async def user_of(self, request: web.BaseRequest) -> AuthenticatedUser:
        """The user of a request; ANONYMOUS if it has no credentials. Raises InvalidCredentialsError.

        The first valid credential decides: front proxy, client certificate, token.
        """
        connection: Any = None if request.transport is None else request.transport.get_extra_info("ssl_object")
        certificate = self._certificates.of(connection) if isinstance(connection, ssl.SSLObject) else None
        problems: list[str] = []
        user = None
        if certificate is not None:
            user = self._proxied_user(request, certificate, problems) or self._certified_user(certificate, problems)
        user = user or await self._token_user(request, problems)
        if user is not None:
            return _with_group(user)
        if problems:
            raise InvalidCredentialsError("; ".join(problems))
        return ANONYMOUS

    def _proxied_user(
        self, request: web.BaseRequest, certificate: ClientCertificate, problems: list[str]
    ) -> AuthenticatedUser | None:
        trusted, headers = self._trusted.proxies, self._trusted.headers
        if not trusted:
            return None
        if not certificate.is_signed_by(trusted, time.time()):
            problems.append(f"the certificate of {certificate.common_name!r} is not a front proxy's")
        elif headers.allowed_names and certificate.common_name not in headers.allowed_names:
            problems.append(f"{certificate.common_name!r} is not an allowed name of a front proxy")
        else:
            return user_of_headers(request, headers)
        return None

    def _certified_user(self, certificate: ClientCertificate, problems: list[str]) -> AuthenticatedUser | None:
        trusted = self._trusted.clients
        if not trusted:
            return None
        if not certificate.is_signed_by(trusted, time.time()):
            problems.append(f"the certificate of {certificate.common_name!r} has expired or has no trusted authority")
            return None
        try:
            return user_of_certificate(certificate)
        except ValueError as error:
            problems.append(str(error))
            return None

    async def _token_user(self, request: web.BaseRequest, problems: list[str]) -> AuthenticatedUser | None:
        token = bearer_token(request.headers.get("Authorization", ""))
        if not token or not self._reviews.available:
            return None
        try:
            user = await self._reviews.user_of(token) if token.isascii() else None
        except ReviewFailedError as error:
            problems.append(str(error))
            return None
        if user is None:
            problems.append("invalid bearer token")
        return user


def user_of_headers(request: web.BaseRequest, headers: ProxyHeaders) -> AuthenticatedUser | None:
    """The user that a front proxy names; None if it names none."""

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
    return AuthenticatedUser(name, tuple(values(headers.group)), next(iter(values(headers.uid)), ""), extra)


def user_of_certificate(certificate: ClientCertificate) -> AuthenticatedUser | None:
    """The user that a certificate names; None without a common name. Raises ValueError for an invalid uid."""
    if not certificate.common_name:
        return None
    uids = certificate.subject_values(_UID_OF_SUBJECT)
    if len(uids) > 1 or uids == [""]:
        raise ValueError(f"the certificate of {certificate.common_name!r} must have one uid at most: {uids}")
    extra = {_CREDENTIAL_ID: [f"X509SHA256={hashlib.sha256(certificate.der).hexdigest()}"]}
    return AuthenticatedUser(
        certificate.common_name, tuple(certificate.subject_values("organizationName")), "".join(uids), extra
    )


def bearer_token(header: str) -> str:
    """The token of an Authorization header; "" if there is none."""
    parts = header.strip().split(" ", 2)
    return parts[1] if len(parts) > 1 and parts[0].lower() == "bearer" else ""


def _with_group(user: AuthenticatedUser) -> AuthenticatedUser:
    if user.name == ANONYMOUS.name or {AUTHENTICATED, UNAUTHENTICATED} & set(user.groups):
        return user
    return replace(user, groups=(*user.groups, AUTHENTICATED))
