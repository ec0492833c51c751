"""TLS contexts of clients. They verify what Go verifies: the chain to a trusted certificate, names and dates."""

from __future__ import annotations

import ssl


def client_context(authority: str | None = None) -> ssl.SSLContext:
    """A context that trusts CAs in PEM, by default those of the system. Raises ssl.SSLError or ValueError."""
    return verify_like_go(ssl.create_default_context(cadata=authority))


def verify_like_go(context: ssl.SSLContext) -> ssl.SSLContext:
    """Change a context for clients to verify certificates like Go's crypto/x509, and return it.

    Python 3.13 and newer reject certificates without an Authority Key Identifier, which many clusters have. Before
    3.13 Python trusts a certificate only up to a root; Go trusts every certificate that it is given.
    """
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.hostname_checks_common_name = False
    return context
