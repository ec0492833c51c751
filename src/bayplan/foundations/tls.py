"""TLS contexts of clients. They verify what Go verifies: the chain to a trusted certificate, names and dates."""

from __future__ import annotations

import ssl


def client_context(authority: str | None = None, *, file: str | None = None) -> ssl.SSLContext:
    """A context that trusts CAs in PEM, or in a file of PEM; by default, those of the system.

    It verifies certificates like Go's crypto/x509. Python 3.13 and newer reject certificates without an Authority Key
    Identifier, which many clusters have. Before 3.13, Python trusts a certificate only up to a root; Go trusts every
    certificate that it is given. Raises ssl.SSLError, ValueError or OSError.
    """
    context = ssl.create_default_context(cadata=authority, cafile=file)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.hostname_checks_common_name = False
    return context
