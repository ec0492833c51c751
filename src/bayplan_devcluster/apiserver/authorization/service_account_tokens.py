"""Issues and verifies the tokens of service accounts.

They are JSON Web Tokens with the claims of Kubernetes' pkg/serviceaccount/claims.go, signed with this server's own key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec

from bayplan.core.api import field_errors
from bayplan.core.api.field_errors import FieldError
from bayplan.core.api.kinds import NODE, POD, SECRET, SERVICE_ACCOUNT, Kind
from bayplan.core.api.status import StatusError, bad_request, conflict, invalid, not_found
from bayplan.core.api.times import rfc3339
from bayplan.foundations.clock import Clock
from bayplan_devcluster.apiserver.authorization.users import (
    AUTHENTICATED,
    User,
    service_account_groups,
    service_account_name,
)
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.storage.store import Entry, Store, key_of

AUDIENCE = "https://kubernetes.default.svc.cluster.local"
"""The issuer, and the default audience."""
MIN_SECONDS, MAX_SECONDS, DEFAULT_SECONDS = 600, 1 << 32, 3600
"""The bounds of a token's lifetime, and its default."""

TOKEN_REQUEST = Kind(
    "authentication.k8s.io",
    "v1",
    "TokenRequest",
    "TokenRequest",
    "",
    namespaced=True,
    model="authentication_v1.TokenRequest",
)
_HEADER = {"alg": "HS256", "typ": "JWT"}
_EXTRA = "authentication.kubernetes.io"
_BINDABLE = {kind.kind: kind for kind in (POD, SECRET, NODE)}


class InvalidTokenError(Exception):
    """A token that is not valid, or no longer valid; the message says why."""


class ServiceAccountTokens:
    """Issues and verifies tokens. A token is valid until it expires, or its account or bound object is deleted."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._key = secrets.token_bytes(32)

    def create(self, namespace: str, name: str, request: Object) -> Object:
        """The reply to a TokenRequest. Raises StatusError."""
        metadata, spec = request.get("metadata") or {}, request.get("spec") or {}
        errors: list[FieldError] = []
        for field, wanted in (("name", name), ("namespace", namespace)):
            if (metadata.get(field) or wanted) != wanted:
                what = f"must match the service account {field} if specified"
                errors.append(field_errors.invalid(f"metadata.{field}", metadata[field], what))
        if errors:
            raise invalid(TOKEN_REQUEST, name, errors)
        account = self._find(SERVICE_ACCOUNT, namespace, name)
        if (metadata.get("uid") or account.uid) != account.uid:
            why = (
                f"the UID in the token request ({metadata['uid']}) does not match the UID of the service account "
                f"({account.uid})"
            )
            raise conflict(TOKEN_REQUEST, name, why)
        seconds = spec.get("expirationSeconds") or DEFAULT_SECONDS
        if seconds < MIN_SECONDS:
            errors.append(_bad_duration(seconds, "may not specify a duration less than 10 minutes"))
        if seconds > MAX_SECONDS:
            errors.append(_bad_duration(seconds, "may not specify a duration larger than 2^32 seconds"))
        if errors:
            raise invalid(TOKEN_REQUEST, "", errors)
        audiences = list(spec.get("audiences") or [AUDIENCE])
        bound = self._bound_to(namespace, name, spec.get("boundObjectRef") or {})
        now = self._clock.now()
        token = self._signed(account, audiences, int(now.timestamp()), seconds, bound)
        return {
            "kind": TOKEN_REQUEST.kind,
            "apiVersion": TOKEN_REQUEST.api_version,
            "metadata": {"name": name, "namespace": namespace, "uid": account.uid, "creationTimestamp": rfc3339(now)},
            "spec": {**spec, "audiences": audiences, "expirationSeconds": seconds},
            "status": {"token": token, "expirationTimestamp": rfc3339(now + timedelta(seconds=seconds))},
        }

    def user_of(self, token: str, audiences: Sequence[str] = ()) -> tuple[User, list[str]]:
        """The user of a token, and the given audiences that it is valid for (default: the server's). Raises
        InvalidTokenError.
        """
        claims = self._verified(token)
        now = self._clock.now().timestamp()
        if now >= claims["exp"]:
            raise InvalidTokenError("service account token has expired")
        if now + 60 < claims["nbf"]:
            raise InvalidTokenError("service account token is not valid yet")
        meant = [audience for audience in claims["aud"] if audience in (audiences or (AUDIENCE,))]
        if not meant:
            raise InvalidTokenError(f"token audiences {claims['aud']} is invalid for the target audiences")
        named = claims["kubernetes.io"]
        namespace, account = named["namespace"], named["serviceaccount"]
        self._check(SERVICE_ACCOUNT, namespace, account)
        extra = {f"{_EXTRA}/credential-id": [f"JTI={claims['jti']}"]}
        for what, kind in (("pod", POD), ("secret", SECRET), ("node", NODE)):
            if what in named:
                self._check(kind, namespace, named[what])
                extra |= {f"{_EXTRA}/{what}-name": [named[what]["name"]], f"{_EXTRA}/{what}-uid": [named[what]["uid"]]}
        groups = (*service_account_groups(namespace), AUTHENTICATED)
        return User(service_account_name(namespace, account["name"]), groups, account["uid"], extra), meant

    def _find(self, kind: Kind, namespace: str, name: str) -> Entry:
        found = self._store.collection(kind.resource).objects.get(key_of(namespace if kind.namespaced else "", name))
        if found is None:
            raise not_found(kind, name)
        return found

    def _check(self, kind: Kind, namespace: str, named: Object) -> None:
        """Raises InvalidTokenError if an object was deleted."""
        try:
            entry = self._find(kind, namespace, named["name"])
        except StatusError as error:
            raise InvalidTokenError(error.message) from None
        if entry.uid != named["uid"]:
            raise InvalidTokenError(f"the {kind.singular} {named['name']} has another UID than in the token")

    def _bound_to(self, namespace: str, account: str, ref: Object) -> dict[str, Object]:
        """The claims for the object that a token is bound to. Raises StatusError."""
        if not ref:
            return {}
        kind = _BINDABLE.get(ref.get("kind", "")) if ref.get("apiVersion", "") == "v1" else None
        if kind is None:
            group, _, version = ref.get("apiVersion", "").rpartition("/")
            raise bad_request(f"cannot bind token to object of type {group}/{version}, Kind={ref.get('kind', '')}")
        entry = self._find(kind, namespace, ref.get("name", ""))
        if kind is POD and (entry.fields["spec.serviceAccountName"] or "default") != account:
            why = f'cannot bind token for serviceaccount "{account}" to pod running with different serviceaccount name.'
            raise bad_request(why)
        if (ref.get("uid") or entry.uid) != entry.uid:
            why = (
                f"the UID in the bound object reference ({ref['uid']}) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            )
            raise conflict(kind, entry.name, why)
        return {kind.singular: {"name": entry.name, "uid": entry.uid}}

    def _signed(self, account: Entry, audiences: list[str], now: int, seconds: int, bound: dict[str, Object]) -> str:
        claims = {
            "aud": audiences,
            "exp": now + seconds,
            "iat": now,
            "iss": AUDIENCE,
            "jti": str(uuid.uuid4()),
            "kubernetes.io": {
                "namespace": account.namespace,
                "serviceaccount": {"name": account.name, "uid": account.uid},
                **bound,
            },
            "nbf": now,
            "sub": service_account_name(account.namespace, account.name),
        }
        content = f"{_packed(_HEADER)}.{_packed(claims)}"
        return f"{content}.{_base64(self._signature(content))}"

    def _verified(self, token: str) -> dict[str, Any]:
        content, _, signature = token.rpartition(".")
        try:
            genuine = hmac.compare_digest(_unbase64(signature), self._signature(content))
            claims = msgspec.json.decode(_unbase64(content.partition(".")[2])) if genuine else None
        except (ValueError, msgspec.DecodeError):
            claims = None
        if not isinstance(claims, dict):
            raise InvalidTokenError("invalid bearer token")
        return claims

    def _signature(self, content: str) -> bytes:
        return hmac.new(self._key, content.encode(), hashlib.sha256).digest()


def _bad_duration(seconds: int, why: str) -> FieldError:
    return field_errors.invalid("spec.expirationSeconds", seconds, why)


def _packed(document: Any) -> str:
    return _base64(msgspec.json.encode(document))


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _unbase64(text: str) -> bytes:
    """Raises ValueError."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from error
