"""Token reviews and access reviews by the API server (TokenReview, SubjectAccessReview), cached for a while.

Mirrors k8s.io/apiserver's delegating authentication and authorization (pkg/server/options).
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec

from bayplan.foundations.latest import LruDict
from bayplan.running.client.client import Client
from bayplan.running.client.errors import ApiError, ConfigError, TransportError
from bayplan.running.service.serving.options import ServingOptions

T = TypeVar("T")

_TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
_ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_CACHED_REVIEWS = 4096
_TIMEOUT = 10.0

PRIVILEGED = "system:masters"
"""The group with access to everything, without a review."""


class ReviewFailedError(Exception):
    """The API server did not return a review."""


@dataclass(frozen=True, slots=True)
class AuthenticatedUser:
    """An authenticated user."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)


class Reviews:
    """Reviews by the API server, cached as long as the options say. Without a client there are no reviews."""

    def __init__(
        self, client: Client | None, options: ServingOptions, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._options = options
        self._users: ReviewCache[AuthenticatedUser | None] = ReviewCache(now)
        self._decisions: ReviewCache[tuple[bool, str]] = ReviewCache(now)

    @property
    def available(self) -> bool:
        """Whether there is an API server for reviews."""
        return self._client is not None

    async def user_of(self, token: str) -> AuthenticatedUser | None:
        """The user of a token; None for an invalid token. Raises ReviewFailedError."""
        key = hashlib.sha256(token.encode()).digest()

        async def review() -> tuple[AuthenticatedUser | None, float]:
            status = await self._post(_TOKEN_REVIEWS, "authentication.k8s.io/v1", "TokenReview", {"token": token})
            user = status.get("user") or {}
            seconds = self._options.authentication.token_cache_ttl
            if not status.get("authenticated") or not user.get("username"):
                return None, seconds
            groups = tuple(user.get("groups") or ())
            return AuthenticatedUser(user["username"], groups, user.get("uid", ""), user.get("extra") or {}), seconds

        return await self._users.get(key, review)

    async def authorize(self, user: AuthenticatedUser, verb: str, path: str) -> tuple[bool, str]:
        """Whether a user may access a path, and the reason if not ("" if unknown). Raises ReviewFailedError."""
        spec: dict[str, Any] = {
            "user": user.name,
            "groups": list(user.groups),
            "nonResourceAttributes": {"path": path, "verb": verb},
        }
        if user.uid:
            spec["uid"] = user.uid
        if user.extra:
            spec["extra"] = {key: list(values) for key, values in user.extra.items()}

        async def review() -> tuple[tuple[bool, str], float]:
            status = await self._post(_ACCESS_REVIEWS, "authorization.k8s.io/v1", "SubjectAccessReview", spec)
            allowed = bool(status.get("allowed"))
            options = self._options.authorization
            seconds = options.authorized_cache_ttl if allowed else options.unauthorized_cache_ttl
            return (allowed, str(status.get("reason") or "")), seconds

        return await self._decisions.get(msgspec.json.encode(spec), review)

    async def _post(self, path: str, version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
        """The status of a review."""
        if self._client is None:
            raise ReviewFailedError(f"there is no API server for a {kind}")
        body = msgspec.json.encode({"apiVersion": version, "kind": kind, "spec": spec})
        try:
            async with asyncio.timeout(_TIMEOUT):
                reply = msgspec.json.decode(await self._client.request("POST", path, body=body))
        except TimeoutError:
            raise ReviewFailedError(f"the API server did not answer a {kind} within {_TIMEOUT:g} s") from None
        except (ApiError, TransportError, ConfigError, msgspec.DecodeError) as error:
            raise ReviewFailedError(f"the API server did not answer a {kind}: {error}") from error
        status = reply.get("status") if isinstance(reply, dict) else None
        return status if isinstance(status, dict) else {}


class ReviewCache(Generic[T]):
    """Reviews by key, each with its own lifetime. Concurrent callers share one request."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._reviews: LruDict[Hashable, tuple[float, T]] = LruDict(_CACHED_REVIEWS)
        self._requests: dict[Hashable, asyncio.Task[T]] = {}

    async def get(self, key: Hashable, review: Callable[[], Awaitable[tuple[T, float]]]) -> T:
        """The cached review, or what `review` returns now, with its lifetime in seconds."""
        cached = self._reviews.get(key)
        if cached is not None and self._now() < cached[0]:
            return cached[1]
        task = self._requests.get(key)
        if task is None:
            task = self._requests[key] = asyncio.create_task(self._review(key, review), name="review")
            task.add_done_callback(lambda done: self._finished(key, done))
        return await asyncio.shield(task)

    def _finished(self, key: Hashable, task: asyncio.Task[T]) -> None:
        del self._requests[key]
        if not task.cancelled():
            task.exception()  # mark it as retrieved: without a waiting caller, asyncio would log the exception

    async def _review(self, key: Hashable, review: Callable[[], Awaitable[tuple[T, float]]]) -> T:
        result, seconds = await review()
        self._reviews[key] = self._now() + seconds, result
        return result
