"""Follows the kinds of a cluster of any Kubernetes version, each in the newest version that the server has."""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from bayplan.answers.snapshots.older_versions import OLDER, updated
from bayplan.answers.snapshots.rights import REQUIRED
from bayplan.core.api.kinds import Kind
from bayplan.running.client.client import Client
from bayplan.running.client.errors import ApiError, ConfigError, TransportError
from bayplan.running.client.list_watch import ListWatch, Reports, Sink
from bayplan.running.client.pace import Pace

logger = logging.getLogger(__name__)

LOOK_AGAIN = 60.0
"""Seconds between two looks for a kind that the server lacks."""
LISTING_PAUSE = 0.05
"""Seconds between two looks at whether all kinds are listed."""


class FollowedKind(Reports, Sink[Any]):
    """Follows one kind. `clock` returns seconds."""

    def __init__(
        self, client: Client, kind: Kind, field_selector: str = "", *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.kind = kind
        self._client = client
        self._field_selector = field_selector
        self._clock = clock
        self._watch: ListWatch[Any] | None = None

    @property
    def synced(self) -> bool:
        """Whether the kind was listed, or the server lacks it."""
        return self._watch is not None and self._watch.synced.is_set()

    @property
    def problem(self) -> str:
        """Why the kind can't be read now; "" if it can."""
        return self._watch.problem if self._watch is not None else ""

    @property
    def ready(self) -> bool:
        """Whether the first list has arrived, or isn't waited for: only nodes and pods are required."""
        return self.synced or (bool(self.problem) and self.kind not in REQUIRED)

    async def run(self) -> None:
        """Follow the kind until cancelled."""
        version = await served_version(self._client, self.kind)
        self._watch = ListWatch(
            self._client,
            version,
            self,
            field_selector=self._field_selector,
            decode=lambda raw: self.decode(updated(version, raw)),
            look_for_kind=None if self.kind in REQUIRED else LOOK_AGAIN,
            pace=Pace(clock=self._clock),
            reports=self,
        )
        await self._watch.run()

    @abstractmethod
    def decode(self, raw: bytes) -> Any:
        """The object in the version that plugins read."""

    def undecodable(self, raw: bytes, error: Exception) -> None:
        """Log that the object is left out."""
        logger.warning("%s: an object can't be read and is left out: %s", self.kind.resource, error)


async def served_version(client: Client, kind: Kind) -> Kind:
    """The newest version of a kind that the server has, or the kind itself if it has none or can't be asked."""
    versions = (kind, *OLDER.get(kind, ()))
    for version in versions[1:] and versions:
        try:
            async for _ in client.pages(version, limit=1, decode=bytes):
                return version
        except ApiError as error:
            if error.status != 404:
                break
        except (TransportError, ConfigError):
            break  # the watch reports it
    return kind
