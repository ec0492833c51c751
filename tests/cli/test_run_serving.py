"""What the flags about endpoints make of how these are served."""

from pathlib import Path

import pytest

from bayplan.cli.run_serving import Serving, flag_values, serving
from bayplan.service.serving.options import ServingOptions


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param({}, Serving(ServingOptions()), id="nothing said"),
        pytest.param({"secure-port": 0}, None, id="none to be served"),
        pytest.param(
            {"secure-port": 10300, "bind-address": "::1"},
            Serving(ServingOptions(port=10300, bind_address="::1")),
            id="where",
        ),
        pytest.param(
            {
                "tls-cert-file": "a.crt",
                "tls-private-key-file": "a.key",
                "client-ca-file": "ca.crt",
                "tls-min-version": "VersionTLS13",
                "tls-cipher-suites": ("A,B", "C"),
                "permit-port-sharing": True,
            },
            Serving(
                ServingOptions(
                    tls_cert_file=Path("a.crt"),
                    tls_private_key_file=Path("a.key"),
                    client_ca_file=Path("ca.crt"),
                    tls_min_version="VersionTLS13",
                    tls_cipher_suites=("A", "B", "C"),
                    permit_port_sharing=True,
                )
            ),
            id="certificates",
        ),
        pytest.param(
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
                    token_cache_ttl=60.0,
                    authorized_cache_ttl=5.0,
                    unauthorized_cache_ttl=0.5,
                    always_allow_paths=("/healthz", "/livez*"),
                ),
                "n.yaml",
                "z.yaml",
            ),
            id="who may",
        ),
    ],
)
def test_flags_as_options(values, expected) -> None:
    problems: list[str] = []
    assert serving(values, problems) == expected
    assert problems == []


def test_flags_as_they_stand() -> None:
    values = flag_values(
        {"secure_port": 10300, "permit_port_sharing": True, "tls_cipher_suites": ("A", "B"), "kubeconfig": None}
    )
    assert values["secure-port"] == "10300"
    assert values["permit-port-sharing"] == "true"
    assert values["tls-cipher-suites"] == "A,B"
    assert values["kubeconfig"] == ""
    assert values["bind-address"] == "0.0.0.0"
    assert "cert-dir" not in values
