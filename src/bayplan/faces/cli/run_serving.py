"""Reads the flags that configure endpoints."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bayplan.core.api import durations
from bayplan.faces.cli.run_flags import FLAGS, Treatment
from bayplan.running.service.serving.options import (
    DelegatingAuthentication,
    DelegatingAuthorization,
    NamedCertificate,
    SecureServing,
    ServingOptions,
)


@dataclass(frozen=True, slots=True)
class Serving:
    """How to serve endpoints, and the kubeconfigs for token and access reviews ("": the scheduler's)."""

    options: ServingOptions
    authentication_kubeconfig: str = ""
    authorization_kubeconfig: str = ""


def serving(values: Mapping[str, Any], problems: list[str]) -> Serving | None:
    """The settings for endpoints from flags by name; None for no endpoints. Adds errors to `problems`."""
    secure = replace(SecureServing(), **_read(_SECURE, values, problems))
    authentication = replace(DelegatingAuthentication(), **_read(_AUTHENTICATION, values, problems))
    headers = replace(authentication.requestheader, **_read(_HEADERS, values, problems))
    authorization = replace(DelegatingAuthorization(), **_read(_AUTHORIZATION, values, problems))
    if ("tls-cert-file" in values) is not ("tls-private-key-file" in values):
        problems.append("bayplan run: --tls-cert-file and --tls-private-key-file must be given together")
    if secure.port == 0:
        return None
    authentication = replace(authentication, requestheader=headers)
    return Serving(
        ServingOptions(secure=secure, authentication=authentication, authorization=authorization),
        values.get("authentication-kubeconfig", ""),
        values.get("authorization-kubeconfig", ""),
    )


def _read(options: Mapping[str, Option], values: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for flag, (option, read) in options.items():
        if flag in values:
            try:
                found[option] = read(values[flag])
            except ValueError as error:
                problems.append(f"bayplan run: --{flag}: {error}")
    return found


def flag_values(flags: Mapping[str, Any]) -> dict[str, str]:
    """The values of all flags that work: the given value or the default."""
    values = {}
    for flag in FLAGS:
        if flag.treatment is Treatment.WORKS:
            given = flags.get(flag.parameter)
            if isinstance(given, tuple):
                given = ",".join(given) or None
            if isinstance(given, bool):
                given = str(given).lower()
            values[flag.name] = flag.default if given is None else str(given)
    return values


def _port(value: int) -> int:
    if not 0 <= value <= 65535:
        raise ValueError(f"expected a port from 0 (no endpoints) to 65535, got {value}")
    return value


def _paths(values: tuple[str, ...]) -> tuple[str, ...]:
    paths = _list(values)
    for path in paths:
        if "*" in path[:-1]:
            raise ValueError(f"only a trailing * is allowed, not {path!r}")
    return paths


def _list(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(each.strip() for value in values for each in value.split(",") if each.strip())


def _names(values: tuple[str, ...]) -> tuple[str, ...]:
    names = tuple(each.strip() for value in values if value for each in value.split(","))
    if not all(names):
        raise ValueError("one of the values is empty")
    return names


def _uid_headers(values: tuple[str, ...]) -> tuple[str, ...]:
    names = _names(values)
    if names and "x-remote-uid" not in map(str.lower, names):
        raise ValueError("must include X-Remote-Uid")
    return names


def _named_certificate(value: str) -> NamedCertificate:
    """Mirrors NamedCertKey of k8s.io/component-base/cli/flag."""
    files, colon, names = value.partition(":")
    pair = [each.strip() for each in files.split(",")]
    if len(pair) != 2 or not all(pair):
        raise ValueError(f"expected CERTIFICATE,KEY or CERTIFICATE,KEY:NAME,..., got {value!r}")
    if colon and not names.strip():
        raise ValueError(f"expected names after the colon of {value!r}")
    return NamedCertificate(Path(pair[0]), Path(pair[1]), _names((names,)) if colon else ())


def _choice(*allowed: str) -> Callable[[str], str]:
    def read(value: str) -> str:
        if value not in allowed:
            raise ValueError(f"expected {' or '.join(allowed)}, got {value!r}")
        return value

    return read


Option = tuple[str, Callable[[Any], Any]]

_SECURE: dict[str, Option] = {
    "secure-port": ("port", _port),
    "bind-address": ("bind_address", lambda value: str(ipaddress.ip_address(value))),
    "tls-cert-file": ("tls_cert_file", Path),
    "tls-private-key-file": ("tls_private_key_file", Path),
    "cert-dir": ("cert_dir", Path),
    "tls-min-version": ("tls_min_version", _choice("VersionTLS12", "VersionTLS13")),
    "tls-cipher-suites": ("tls_cipher_suites", _list),
    "tls-sni-cert-key": ("tls_sni_cert_keys", lambda values: tuple(map(_named_certificate, values))),
    "permit-port-sharing": ("permit_port_sharing", bool),
}
"""flag -> the field of SecureServing, and a function that reads its value or raises ValueError"""

_AUTHENTICATION: dict[str, Option] = {
    "client-ca-file": ("client_ca_file", Path),
    "requestheader-client-ca-file": ("requestheader_client_ca_file", Path),
    "authentication-skip-lookup": ("skip_lookup", bool),
    "authentication-tolerate-lookup-failure": ("tolerate_lookup_failure", bool),
    "authentication-token-webhook-cache-ttl": ("token_cache_ttl", durations.parse),
}
"""The same for DelegatingAuthentication."""

_AUTHORIZATION: dict[str, Option] = {
    "authorization-webhook-cache-authorized-ttl": ("authorized_cache_ttl", durations.parse),
    "authorization-webhook-cache-unauthorized-ttl": ("unauthorized_cache_ttl", durations.parse),
    "authorization-always-allow-paths": ("always_allow_paths", _paths),
}
"""The same for DelegatingAuthorization."""

_HEADERS: dict[str, Option] = {
    "requestheader-username-headers": ("username", _names),
    "requestheader-uid-headers": ("uid", _uid_headers),
    "requestheader-group-headers": ("group", _names),
    "requestheader-extra-headers-prefix": ("extra_prefixes", _names),
    "requestheader-allowed-names": ("allowed_names", _names),
}
"""The same for DelegatingAuthentication.requestheader."""
