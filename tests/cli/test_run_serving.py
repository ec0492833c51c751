"""Flags for endpoints."""

from pathlib import Path

import pytest
from tests.support.tables import cases

from bayplan.faces.cli.run_serving import Serving, flag_values, serving
from bayplan.running.service.serving.options import (
    DelegatingAuthentication,
    DelegatingAuthorization,
    NamedCertificate,
    ProxyHeaders,
    SecureServing,
    ServingOptions,
)


@cases(
    "values, expected",
    {
        "no flags": ({}, Serving(ServingOptions())),
        "no endpoints": ({"secure-port": 0}, None),
        "address": (
            {"secure-port": 10300, "bind-address": "::1"},
            Serving(ServingOptions(secure=SecureServing(port=10300, bind_address="::1"))),
        ),
        "certificates": (
            {
                "tls-cert-file": "a.crt",
                "tls-private-key-file": "a.key",
                "cert-dir": "here",
                "client-ca-file": "ca.crt",
                "tls-min-version": "VersionTLS13",
                "tls-cipher-suites": ("A,B", "C"),
                "permit-port-sharing": True,
            },
            Serving(
                ServingOptions(
                    secure=SecureServing(
                        tls_cert_file=Path("a.crt"),
                        tls_private_key_file=Path("a.key"),
                        cert_dir=Path("here"),
                        tls_min_version="VersionTLS13",
                        tls_cipher_suites=("A", "B", "C"),
                        permit_port_sharing=True,
                    ),
                    authentication=DelegatingAuthentication(client_ca_file=Path("ca.crt")),
                )
            ),
        ),
        "authentication and authorization": (
            {
                "authentication-kubeconfig": "n.yaml",
                "authorization-kubeconfig": "z.yaml",
                "authentication-token-webhook-cache-ttl": "1m",
                "authorization-webhook-cache-authorized-ttl": "5s",
                "authorization-webhook-cache-unauthorized-ttl": "500ms",
                "authorization-always-allow-paths": ("/healthz, /livez*",),
            },
            Serving(
                ServingOptions(
                    authentication=DelegatingAuthentication(token_cache_ttl=60.0),
                    authorization=DelegatingAuthorization(
                        authorized_cache_ttl=5.0, unauthorized_cache_ttl=0.5, always_allow_paths=("/healthz", "/livez*")
                    ),
                ),
                "n.yaml",
                "z.yaml",
            ),
        ),
        "certificates by name": (
            {"tls-sni-cert-key": ("a.crt,a.key", "b.crt, b.key : *.b.example, b.example")},
            Serving(
                ServingOptions(
                    secure=SecureServing(
                        tls_sni_cert_keys=(
                            NamedCertificate(Path("a.crt"), Path("a.key")),
                            NamedCertificate(Path("b.crt"), Path("b.key"), ("*.b.example", "b.example")),
                        )
                    )
                )
            ),
        ),
        "front proxies": (
            {
                "requestheader-client-ca-file": "proxy.crt",
                "requestheader-username-headers": ("X-User,X-Remote-User",),
                "requestheader-uid-headers": ("X-Remote-Uid",),
                "requestheader-group-headers": ("X-Group", "X-Remote-Group"),
                "requestheader-extra-headers-prefix": ("X-More-",),
                "requestheader-allowed-names": ("",),
                "authentication-skip-lookup": True,
                "authentication-tolerate-lookup-failure": False,
            },
            Serving(
                ServingOptions(
                    authentication=DelegatingAuthentication(
                        requestheader_client_ca_file=Path("proxy.crt"),
                        requestheader=ProxyHeaders(
                            ("X-User", "X-Remote-User"),
                            ("X-Remote-Uid",),
                            ("X-Group", "X-Remote-Group"),
                            ("X-More-",),
                            (),
                        ),
                        skip_lookup=True,
                        tolerate_lookup_failure=False,
                    )
                )
            ),
        ),
    },
)
def test_flags_as_options(values, expected) -> None:
    problems: list[str] = []
    assert serving(values, problems) == expected
    assert problems == []


@pytest.mark.parametrize(
    ("flag", "value", "error"),
    [
        ("tls-sni-cert-key", ("a.crt",), "expected CERTIFICATE,KEY or CERTIFICATE,KEY:NAME,..., got 'a.crt'"),
        ("tls-sni-cert-key", ("a,b,c",), "expected CERTIFICATE,KEY or CERTIFICATE,KEY:NAME,..., got 'a,b,c'"),
        ("tls-sni-cert-key", ("a.crt,a.key: ",), "expected names after the colon of 'a.crt,a.key: '"),
        ("requestheader-username-headers", ("X-Remote-User, ",), "one of the values is empty"),
        ("requestheader-allowed-names", (" ",), "one of the values is empty"),
        ("requestheader-uid-headers", ("X-Uid",), "must include X-Remote-Uid"),
    ],
)
def test_invalid_flags_are_reported(flag, value, error) -> None:
    problems: list[str] = []
    serving({flag: value}, problems)
    assert problems == [f"bayplan run: --{flag}: {error}"]


def test_values_of_all_flags() -> None:
    values = flag_values(
        {"secure_port": 10300, "permit_port_sharing": True, "tls_cipher_suites": ("A", "B"), "kubeconfig": None}
    )
    assert values["secure-port"] == "10300"
    assert values["permit-port-sharing"] == "true"
    assert values["tls-cipher-suites"] == "A,B"
    assert values["kubeconfig"] == ""
    assert values["bind-address"] == "0.0.0.0"
    assert "vmodule" not in values
