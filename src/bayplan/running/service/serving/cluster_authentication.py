"""The cluster's authentication settings: the ConfigMap that kube-apiserver writes for other servers of the cluster.

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

from bayplan.core.api.kinds import CONFIG_MAP
from bayplan.running.client.client import Client
from bayplan.running.client.errors import ApiError, ConfigError, TransportError
from bayplan.running.client.reflector import Reflector
from bayplan.running.service.serving.authorities import Authorities
from bayplan.running.service.serving.options import ProxyHeaders, ServingError

log = logging.getLogger(__name__)

NAMESPACE, NAME = "kube-system", "extension-apiserver-authentication"
_READER = "extension-apiserver-authentication-reader"
_TIMEOUT = 10.0
_RETRY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ClientTrust:
    """The authorities trusted for client certificates and for front proxies, and the headers of front proxies."""

    clients: Authorities = field(default_factory=Authorities)
    proxies: Authorities = field(default_factory=Authorities)
    headers: ProxyHeaders = field(default_factory=ProxyHeaders)


class ClusterAuthentication:
    """Keeps `trust` up to date with the cluster, and calls `changed` after each change.

    Values that cannot be read keep their last state.
    """

    def __init__(self, client: Client, changed: Callable[[], None]) -> None:
        self.trust = ClientTrust()
        self._client = client
        self._changed = changed
        self._found = False

    async def read(self) -> None:
        """Read the ConfigMap once; it need not exist. Raises ServingError if the API server cannot be reached."""
        try:
            async with asyncio.timeout(_TIMEOUT):
                found = await self._client.get(CONFIG_MAP, NAME, NAMESPACE)
        except TimeoutError:
            raise ServingError(f"{NAMESPACE}/{NAME}: no response within {_TIMEOUT:g} s") from None
        except ApiError as error:
            if error.status == 404:
                self._found = True
                return
            hint = f" (reading it requires the role {_READER})" if error.status == 403 else ""
            raise ServingError(f"{NAMESPACE}/{NAME} cannot be read: {error}{hint}") from error
        except (TransportError, ConfigError) as error:
            raise ServingError(f"{NAMESPACE}/{NAME} cannot be read: {error}") from error
        self._found = True
        self._take(found)

    async def follow(self) -> NoReturn:
        """Keep `trust` up to date, until cancelled."""
        level = logging.WARNING
        while not self._found:
            try:
                await self.read()
            except ServingError as error:
                log.log(level, "%s: not trusting the cluster's client CAs until it can be read", error)
                level = logging.DEBUG  # warn only once
                await asyncio.sleep(_RETRY_SECONDS)
        reflector = Reflector(
            self._client, CONFIG_MAP, self, namespace=NAMESPACE, field_selector=f"metadata.name={NAME}"
        )
        await reflector.run()
        raise AssertionError("a reflector never returns")

    def added(self, new: ConfigMap) -> None:
        """The ConfigMap exists."""
        self._take(new)

    def updated(self, _: ConfigMap, new: ConfigMap) -> None:
        """The ConfigMap has changed."""
        self._take(new)

    def deleted(self, _: ConfigMap) -> None:
        """Handle the deletion of the ConfigMap. As upstream, its last values stay in use."""
        log.warning("%s/%s was deleted: keeping the last trusted CAs", NAMESPACE, NAME)

    def undecodable(self, raw: bytes, error: Exception) -> None:
        """The ConfigMap cannot be decoded."""
        log.warning("%s/%s cannot be decoded (%d bytes): %s", NAMESPACE, NAME, len(raw), error)

    def _take(self, found: ConfigMap) -> None:
        trust = _parse(found.data or {}, self.trust)
        if trust != self.trust:
            self.trust = trust
            log.info("read trusted CAs from %s/%s", NAMESPACE, NAME)
            self._changed()


def _parse(data: Mapping[str, str], before: ClientTrust) -> ClientTrust:
    def parse(key: str, parser: Callable[[str], Any], otherwise: Any) -> Any:
        try:
            return parser(data[key]) if data.get(key) else None
        except (ValueError, msgspec.DecodeError) as error:
            log.warning("%s/%s: keeping the last value of %s: %s", NAMESPACE, NAME, key, error)
            return otherwise

    def bundle(key: str, otherwise: Authorities) -> Authorities:
        found: Authorities | None = parse(key, lambda text: Authorities.from_pem(text.encode()), otherwise)
        return otherwise if found is None else found  # as upstream, a missing key keeps its last value

    def names(key: str, otherwise: tuple[str, ...]) -> tuple[str, ...]:
        found = parse(key, lambda text: msgspec.json.decode(text, type=tuple[str, ...]), otherwise)
        return () if found is None else tuple(found)

    headers = before.headers
    return ClientTrust(
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
