"""The TLS context of an entry in a kubeconfig: it verifies the server, and has the certificate of the user.

lightkube has contexts, too, but they import its HTTP client, which nothing else here uses.
"""

from __future__ import annotations

import base64
import ssl
import traceback
from pathlib import Path

from lightkube.config import models

from bayplan.foundations.tls import client_context
from bayplan.running.client.errors import ConfigError


def tls_context(cluster: models.Cluster, user: models.User, source: str) -> ssl.SSLContext | None:
    """The TLS context for a cluster and a user of `source`; None for plain HTTP. Raises ConfigError."""
    if not cluster.server.startswith("https://"):
        return None
    if cluster.insecure and (cluster.certificate_auth or cluster.certificate_auth_data):
        raise ConfigError(f"{source}: certificate-authority and insecure-skip-tls-verify exclude each other")
    certificate = user.client_cert or user.client_cert_data
    key = user.client_key or user.client_key_data
    if bool(certificate) != bool(key):
        raise ConfigError(f"{source}: the user needs both a client certificate and a client key, one is missing")
    for field, data in (
        ("certificate-authority-data", cluster.certificate_auth_data),
        ("client-certificate-data", user.client_cert_data),
        ("client-key-data", user.client_key_data),
    ):
        _check_base64(field, data, source)
    authority = None if cluster.certificate_auth_data else cluster.certificate_auth  # kubectl prefers the data
    files = [path for path in (authority, user.client_cert, user.client_key) if path]
    try:
        for path in files:
            Path(path).read_bytes()
        return _context(cluster, user)
    except ssl.SSLError as error:
        # The temporary files close with the frames that reference them.
        traceback.clear_frames(error.__traceback__)
        named = f" ({', '.join(files)})" if files else ""
        raise ConfigError(
            f"{source}: a certificate or key is not valid PEM, or they don't match{named}: {error}"
        ) from None
    except OSError as error:
        raise ConfigError(f"{source}: cannot read {error.filename}: {error.strerror}") from error


def _context(cluster: models.Cluster, user: models.User) -> ssl.SSLContext:
    """What verifies the server, by the CAs of the system if the cluster names none, and has the user's certificate."""
    written = models.FileStr(cluster.certificate_auth_data or None)  # a temporary file, as long as it is referenced
    context = client_context(file=written or cluster.certificate_auth)
    if cluster.insecure:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    certificate = models.FileStr(user.client_cert_data or None) or user.client_cert
    key = models.FileStr(user.client_key_data or None) or user.client_key
    if certificate:
        context.load_cert_chain(certificate, key)
    return context


def _check_base64(field: str, data: str | None, source: str) -> None:
    try:
        base64.b64decode("".join((data or "").split()), validate=True)
    except ValueError as error:
        raise ConfigError(f"{source}: {field} is not base64: {error}") from None
