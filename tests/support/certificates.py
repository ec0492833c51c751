"""A certificate authority for tests, with certificates for servers and for users of an API server."""

from dataclasses import dataclass

import trustme

_NO_HOST = "client.invalid"
"""The alternative name of client certificates. trustme writes an empty list without one, which is invalid."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both as PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """A new certificate authority. `certificate` is its own certificate, as PEM."""

    def __init__(self) -> None:
        self._authority = trustme.CA()
        self.certificate = self._authority.cert_pem.bytes()

    def server(self, *hosts: str) -> KeyPair:
        """A certificate for a server that clients reach as `hosts`: names, wildcards or IP addresses."""
        return _pair(self._authority.issue_cert(*hosts, common_name=hosts[0]))

    def client(self, user: str, group: str = "users") -> KeyPair:
        """A client certificate for a user of an API server in one group."""
        return _pair(self._authority.issue_cert(_NO_HOST, common_name=user, organization_name=group))


def _pair(certificate: trustme.LeafCert) -> KeyPair:
    return KeyPair(certificate.cert_chain_pems[0].bytes(), certificate.private_key_pem.bytes())
