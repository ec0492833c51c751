"""Who asks, and may they? Both are the API server's to say: TokenReview, SubjectAccessReview, remembered for a while.

Mirrors k8s.io/apiserver's delegating authentication and authorization (pkg/server/options).
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec

from bayplan.client import ApiError, Client, ConfigError, TransportError

T = TypeVar("T")

_TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
_ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_REMEMBERED = 4096
_TIMEOUT = 10.0

PRIVILEGED = "system:masters"
"""The group that may do everything, and need not be asked about."""


class ReviewFailedError(Exception):
    """The API server did not say, or could not be asked."""


@dataclass(frozen=True, slots=True)
class User:
    """Somebody whose word has been taken for who they are."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)


class Reviews:
    """Asks the API server, and remembers its answers for so many seconds. `client` None: nobody can be asked."""

    def __init__(
        self,
        client: Client | None,
        *,
        token_ttl: float,
        allowed_ttl: float,
        denied_ttl: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._token_ttl = token_ttl
        self._allowed_ttl = allowed_ttl
        self._denied_ttl = denied_ttl
        self._users: Remembered[User | None] = Remembered(now)
        self._verdicts: Remembered[tuple[bool, str]] = Remembered(now)

    @property
    def can_ask(self) -> bool:
        """Whether there is an API server to ask."""
        return self._client is not None

    async def user_of(self, token: str) -> User | None:
        """Whose token it is; None for nobody's. Raises ReviewFailedError."""
        key = hashlib.sha256(token.encode()).digest()

        async def ask() -> tuple[User | None, float]:
            status = await self._post(_TOKEN_REVIEWS, "authentication.k8s.io/v1", "TokenReview", {"token": token})
            user = status.get("user") or {}
            if not status.get("authenticated") or not user.get("username"):
                return None, self._token_ttl
            groups = tuple(user.get("groups") or ())
            return User(user["username"], groups, user.get("uid", ""), user.get("extra") or {}), self._token_ttl

        return await self._users.get(key, ask)

    async def may(self, user: User, verb: str, path: str) -> tuple[bool, str]:
        """Whether a user may do something with a path, and why not, if that was said. Raises ReviewFailedError."""
        spec: dict[str, Any] = {
            "user": user.name,
            "groups": list(user.groups),
            "nonResourceAttributes": {"path": path, "verb": verb},
        }
        if user.uid:
            spec["uid"] = user.uid
        if user.extra:
            spec["extra"] = {key: list(values) for key, values in user.extra.items()}

        async def ask() -> tuple[tuple[bool, str], float]:
            status = await self._post(_ACCESS_REVIEWS, "authorization.k8s.io/v1", "SubjectAccessReview", spec)
            allowed = bool(status.get("allowed"))
            return (allowed, str(status.get("reason") or "")), self._allowed_ttl if allowed else self._denied_ttl

        return await self._verdicts.get(msgspec.json.encode(spec), ask)

    async def _post(self, path: str, version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
        """The status of a review."""
        if self._client is None:
            raise ReviewFailedError(f"there is no API server to ask for a {kind}")
        body = msgspec.json.encode({"apiVersion": version, "kind": kind, "spec": spec})
        try:
            async with asyncio.timeout(_TIMEOUT):
                answer = msgspec.json.decode(await self._client.request("POST", path, body=body))
        except TimeoutError:
            raise ReviewFailedError(f"the API server did not answer a {kind} in {_TIMEOUT:g} s") from None
        except (ApiError, TransportError, ConfigError, msgspec.DecodeError) as error:
            raise ReviewFailedError(f"the API server did not answer a {kind}: {error}") from error
        status = answer.get("status") if isinstance(answer, dict) else None
        return status if isinstance(status, dict) else {}


class Remembered(Generic[T]):
    """Answers by key, each for its time. Whoever asks while an answer is under way waits for the same one."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._answers: OrderedDict[Hashable, tuple[float, T]] = OrderedDict()
        self._asking: dict[Hashable, asyncio.Task[T]] = {}

    async def get(self, key: Hashable, ask: Callable[[], Awaitable[tuple[T, float]]]) -> T:
        """The answer to `key`: the remembered one, or what `ask` answers now, with the seconds that it holds."""
        known = self._answers.get(key)
        if known is not None and self._now() < known[0]:
            return known[1]
        task = self._asking.get(key)
        if task is None:
            task = self._asking[key] = asyncio.create_task(self._ask(key, ask), name="review")
            task.add_done_callback(lambda done: self._asked(key, done))
        return await asyncio.shield(task)

    def _asked(self, key: Hashable, task: asyncio.Task[T]) -> None:
        del self._asking[key]
        if not task.cancelled():
            task.exception()  # whoever asked may have hung up, and then nobody else looks at it

    async def _ask(self, key: Hashable, ask: Callable[[], Awaitable[tuple[T, float]]]) -> T:
        answer, seconds = await ask()
        self._answers[key] = self._now() + seconds, answer
        self._answers.move_to_end(key)
        if len(self._answers) > _REMEMBERED:
            self._answers.popitem(last=False)
        return answer
