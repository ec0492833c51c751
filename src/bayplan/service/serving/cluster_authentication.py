"""Whom the cluster says to believe: the ConfigMap that kube-apiserver writes for those that serve beside it.

Mirrors the lookups of k8s.io/apiserver/pkg/server/options/authentication.go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import msgspec
from lightkube.models.core_v1 import ConfigMap

from bayplan.api.kinds import CONFIG_MAP
from bayplan.client import ApiError, Client, ConfigError, Reflector, TransportError
from bayplan.service.serving.authorities import Authorities
from bayplan.service.serving.options import ProxyHeaders, ServingError

log = logging.getLogger(__name__)

NAMESPACE, NAME = "kube-system", "extension-apiserver-authentication"
_READER = "extension-apiserver-authentication-reader"
_TIMEOUT = 10.0
_LOOK_AGAIN_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Believed:
    """Whose certificates are believed as clients', and whose as front proxies', and what these say in which headers."""

    clients: Authorities = field(default_factory=Authorities)
    proxies: Authorities = field(default_factory=Authorities)
    headers: ProxyHeaders = field(default_factory=ProxyHeaders)


class ClusterAuthentication:
    """Keeps `believed` as the cluster says, and calls `changed` when that has changed.

    What it says and cannot be read leaves what was said before.
    """

    def __init__(self, client: Client, changed: Callable[[], None]) -> None:
        self.believed = Believed()
        self._client = client
        self._changed = changed
        self._found = False

    async def look(self) -> None:
        """Ask once. Raises ServingError where the cluster does not say; that there is nothing is an answer."""
        try:
            async with asyncio.timeout(_TIMEOUT):
                found = await self._client.get(CONFIG_MAP, NAME, NAMESPACE)
        except TimeoutError:
            raise ServingError(f"{NAMESPACE}/{NAME}: no answer in {_TIMEOUT:g} s") from None
        except ApiError as error:
            if error.status == 404:
                self._found = True
                return
            hint = f" (its reader needs the role {_READER})" if error.status == 403 else ""
            raise ServingError(f"{NAMESPACE}/{NAME} cannot be read: {error}{hint}") from error
        except (TransportError, ConfigError) as error:
            raise ServingError(f"{NAMESPACE}/{NAME} cannot be read: {error}") from error
        self._found = True
        self._take(found)

    async def follow(self) -> NoReturn:
        """Keep what is believed as the cluster says, until cancelled."""
        level = logging.WARNING
        while not self._found:
            try:
                await self.look()
            except ServingError as error:
                log.log(level, "%s: client certificates and front proxies are not believed meanwhile", error)
                level = logging.DEBUG  # once is enough
                await asyncio.sleep(_LOOK_AGAIN_SECONDS)
        reflector = Reflector(
            self._client, CONFIG_MAP, self, namespace=NAMESPACE, field_selector=f"metadata.name={NAME}"
        )
        await reflector.run()
        raise AssertionError("a reflector does not end")

    def added(self, new: ConfigMap) -> None:
        """The ConfigMap is there."""
        self._take(new)

    def updated(self, _: ConfigMap, new: ConfigMap) -> None:
        """It has changed."""
        self._take(new)

    def deleted(self, _: ConfigMap) -> None:
        """It is gone, which takes nothing back."""
        log.warning("%s/%s is gone: whom it said to believe is believed still", NAMESPACE, NAME)

    def undecodable(self, raw: bytes, error: Exception) -> None:
        """It cannot be read at all."""
        log.warning("%s/%s cannot be read (%d bytes): %s", NAMESPACE, NAME, len(raw), error)

    def _take(self, found: ConfigMap) -> None:
        believed = _believed(found.data or {}, self.believed)
        if believed != self.believed:
            self.believed = believed
            log.info("whom to believe was read from %s/%s", NAMESPACE, NAME)
            self._changed()


def _believed(data: Mapping[str, str], before: Believed) -> Believed:
    def read(key: str, reader: Callable[[str], Any], otherwise: Any) -> Any:
        try:
            return reader(data[key]) if data.get(key) else None
        except (ValueError, msgspec.DecodeError) as error:
            log.warning("%s/%s: %s stays as it was: %s", NAMESPACE, NAME, key, error)
            return otherwise

    def bundle(key: str, otherwise: Authorities) -> Authorities:
        found: Authorities | None = read(key, lambda text: Authorities.of(text.encode()), otherwise)
        return otherwise if found is None else found  # what is missing leaves what was there, as upstream

    def names(key: str, otherwise: tuple[str, ...]) -> tuple[str, ...]:
        found = read(key, lambda text: msgspec.json.decode(text, type=tuple[str, ...]), otherwise)
        return () if found is None else tuple(found)

    headers = before.headers
    return Believed(
        bundle("client-ca-file", before.clients),
        bundle("requestheader-client-ca-file", before.proxies),
        ProxyHeaders(
            username=names("requestheader-username-headers", headers.username),
            uid=names("requestheader-uid-headers", headers.uid),
            group=names("requestheader-group-headers", headers.group),
            extra_prefixes=names("requestheader-extra-headers-prefix", headers.extra_prefixes),
            allowed_names=names("requestheader-allowed-names", headers.allowed_names),
        ),
    )
