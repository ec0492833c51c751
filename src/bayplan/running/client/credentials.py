"""The credentials of a kubeconfig: tokens and passwords in it, token files, and exec plugins.
lightkube supports plugins only up to client.authentication.k8s.io/v1beta1, without KUBERNETES_EXEC_INFO, expiry and
client certificates. kubernetes_asyncio supports all of that, but takes two seconds to import.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import ssl
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from lightkube.config import models

from bayplan.core.api.times import seconds_since_epoch
from bayplan.running.client.errors import ConfigError

logger = logging.getLogger(__name__)

TOKEN_LIFETIME = 60.0
"""Seconds after which a token file is read again: kubelets rotate tokens."""

PLUGIN_TIMEOUT = 120.0
"""Seconds that an exec plugin may take. Some open a browser and wait for the user."""


class WrittenCredential(NamedTuple):
    """A token or a password that is written in a kubeconfig."""

    authorization: str
    """The value of the header `Authorization`."""
    description: str
    """What it is, without secrets: `the token of user joe`."""


class KubeconfigCredentials:
    """A token or a password in a kubeconfig. The server may refuse it because the user has replaced the kubeconfig.

    `read_again` reads it as it is now, in another thread: a kubeconfig is YAML, which is parsed slowly. It raises
    ConfigError if there is nothing to use.
    """

    tls: ssl.SSLContext | None = None

    def __init__(self, written: WrittenCredential, read_again: Callable[[], WrittenCredential]) -> None:
        self._written = written
        self._read_again = read_again
        self._lock = asyncio.Lock()
        self._readings = 0
        self._problem = ""
        """Why the last reading failed; "" if it didn't."""

    def __str__(self) -> str:
        return self._written.description

    async def headers(self) -> Mapping[str, str]:
        """The token or the password, as it was read last."""
        return {"Authorization": self._written.authorization}

    async def refresh(self, refused: Mapping[str, str]) -> bool:
        """Whether the kubeconfig now has something else than what was refused. Requests that wait share a reading."""
        readings = self._readings
        async with self._lock:
            if self._readings == readings and self._is_in(refused):
                await self._renew()
        return not self._is_in(refused)

    def _is_in(self, headers: Mapping[str, str]) -> bool:
        return headers.get("Authorization") == self._written.authorization

    async def _renew(self) -> None:
        try:
            self._written = await asyncio.to_thread(self._read_again)
        except ConfigError as error:
            problem = str(error)
            if problem != self._problem:  # each refused request reads again
                logger.warning("still using %s as it was: %s", self, problem)
            self._problem = problem
        else:
            self._problem = ""
        self._readings += 1


class TokenFile:
    """A bearer token in a file that another process renews."""

    tls: ssl.SSLContext | None = None

    def __init__(self, path: str | Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = Path(path)
        self._clock = clock
        self._token = ""
        self._read_at = float("-inf")

    def __str__(self) -> str:
        return f"the token in {self._path}"

    async def headers(self) -> Mapping[str, str]:
        """The token, read again every minute. If the file becomes unreadable, the last token stays in use."""
        if self._clock() - self._read_at >= TOKEN_LIFETIME:
            self._read()
        return {"Authorization": f"Bearer {self._token}"}

    async def refresh(self, refused: Mapping[str, str]) -> bool:
        """Whether the file now has another token than the refused one."""
        self._read()
        return refused.get("Authorization") != f"Bearer {self._token}"

    def _read(self) -> None:
        self._read_at = self._clock()
        try:
            token = self._path.read_text().strip()
            if not token:
                raise ConfigError(f"{self._path}: the token file is empty")
        except (OSError, ValueError, ConfigError) as error:
            if not self._token:
                raise ConfigError(f"{self._path}: cannot read the token: {_short(error)}") from error
            logger.warning("%s: still using the last token, cannot read the file: %s", self._path, _short(error))
        else:
            self._token = token


class Exec(models.UserExec):
    """The `exec` section of a kubeconfig's user."""

    provideClusterInfo: bool = False
    interactiveMode: str = "IfAvailable"


class ExecPlugin:
    """Credentials that a program prints. It runs on first use, on expiry, and when the server refuses them.

    `cluster` is the cluster information for plugins with provideClusterInfo. `with_certificate` makes a TLS context
    from a client certificate and its key (PEM). `where` names the user of the kubeconfig in error messages.
    """

    def __init__(
        self,
        plugin: Exec,
        *,
        cluster: Mapping[str, Any],
        with_certificate: Callable[[str, str], ssl.SSLContext | None],
        where: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.tls: ssl.SSLContext | None = None
        self._plugin = plugin
        self._cluster = cluster
        self._with_certificate = with_certificate
        self._where = where
        self._clock = clock
        self._lock = asyncio.Lock()
        self._current: _Status | None = None
        self._expires = float("inf")

    def __str__(self) -> str:
        return f"credentials of the plugin {self._plugin.command}"

    async def headers(self) -> Mapping[str, str]:
        """The plugin's token, if it returns one rather than a certificate."""
        current = self._current
        if current is None or self._clock() >= self._expires:
            async with self._lock:
                if self._current is current:
                    await self._renew()
        bearer = self._bearer()
        return {"Authorization": bearer} if bearer else {}

    async def refresh(self, refused: Mapping[str, str]) -> bool:
        """Whether there are credentials other than the refused ones. Runs the plugin again if necessary."""
        known = self._current
        sent = refused.get("Authorization")
        async with self._lock:
            if self._current is known and self._bearer() == sent:
                await self._renew()
        return self._current != known or self._bearer() != sent

    def _bearer(self) -> str | None:
        return f"Bearer {self._current.token}" if self._current and self._current.token else None

    async def _renew(self) -> None:
        status = self._read(await self._run())
        if status.clientCertificateData and status.clientKeyData:
            self.tls = self._with_certificate(status.clientCertificateData, status.clientKeyData)
        expires = status.expirationTimestamp
        self._expires = seconds_since_epoch(expires) if expires else float("inf")
        self._current = status

    async def _run(self) -> bytes:
        plugin = self._plugin
        terminal = sys.stdin is not None and sys.stdin.isatty()
        if plugin.interactiveMode == "Always" and not terminal:
            raise ConfigError(f"{self._where}: the plugin {plugin.command} needs a terminal, and there is none")
        interactive = terminal and plugin.interactiveMode != "Never"
        spec: dict[str, Any] = {"interactive": interactive}
        if plugin.provideClusterInfo:
            spec["cluster"] = self._cluster
        info = {"kind": "ExecCredential", "apiVersion": plugin.apiVersion, "spec": spec}
        env = os.environ | {variable.name: variable.value for variable in plugin.env or ()}
        env["KUBERNETES_EXEC_INFO"] = msgspec.json.encode(info).decode()
        try:
            process = await asyncio.create_subprocess_exec(
                plugin.command,
                *(plugin.args or ()),
                env=env,
                stdin=None if interactive else DEVNULL,
                stdout=PIPE,
                stderr=PIPE,
            )
        except OSError as error:
            hint = f". {' '.join(plugin.installHint.split())}" if plugin.installHint else ""
            raise ConfigError(
                f"{self._where}: cannot run the credential plugin {plugin.command}: {_short(error)}{hint}"
            ) from error
        try:
            async with asyncio.timeout(PLUGIN_TIMEOUT):
                output, complaint = await process.communicate()
        except TimeoutError:
            raise ConfigError(
                f"{self._where}: the credential plugin {plugin.command} took longer than {PLUGIN_TIMEOUT:.0f} s"
            ) from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            why = complaint.decode(errors="replace").strip().splitlines()[-1:] or ["it printed no error message"]
            raise ConfigError(
                f"{self._where}: the credential plugin {plugin.command} failed with {process.returncode}: {why[0]}"
            )
        return output

    def _read(self, output: bytes) -> _Status:
        output_of = f"{self._where}: the output of the credential plugin {self._plugin.command}"
        try:
            credential = msgspec.json.decode(output, type=_ExecCredential)
        except (msgspec.MsgspecError, ValueError) as error:
            raise ConfigError(f"{output_of} is not an ExecCredential: {error}") from None
        if credential.kind != "ExecCredential" or credential.apiVersion != self._plugin.apiVersion:
            raise ConfigError(
                f"{output_of} is a {credential.kind} of {credential.apiVersion}, not an ExecCredential of "
                f"{self._plugin.apiVersion}, which the kubeconfig requires"
            )
        status = credential.status
        if status is None or not (status.token or status.clientCertificateData):
            raise ConfigError(f"{output_of} has neither a token nor a client certificate in its status")
        if bool(status.clientCertificateData) != bool(status.clientKeyData):
            raise ConfigError(f"{output_of} has a client certificate without a key, or a key without a certificate")
        return status


def bearer(token: str) -> str:
    """The header `Authorization` with a token. Raises ValueError if no header can have the token."""
    if not token.isprintable():
        raise ValueError("a header can't have the token")
    return f"Bearer {token}"


def basic(username: str, password: str) -> str:
    """The header `Authorization` of basic authentication. Raises ValueError for what isn't Unicode."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


class _Status(msgspec.Struct, frozen=True):
    token: str | None = None
    clientCertificateData: str | None = None
    clientKeyData: str | None = None
    expirationTimestamp: datetime | None = None


class _ExecCredential(msgspec.Struct):
    kind: str = ""
    apiVersion: str = ""
    status: _Status | None = None


def _short(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
