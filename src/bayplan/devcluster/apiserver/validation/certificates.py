"""Rules for CertificateSigningRequests. Mirrors Kubernetes' pkg/apis/certificates/validation."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator

from cryptography import x509

from bayplan.api.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.validation.meta import name_errors

USAGES = (
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment",
    "decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel",
    "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime",
    "server auth", "signing", "timestamping",
)  # fmt: skip
DECISIONS = ("Approved", "Denied")
_ALWAYS_TRUE = frozenset({*DECISIONS, "Failed"})


def validate_request(request: Object) -> Iterator[FieldError]:
    """Rules for a CertificateSigningRequest."""
    spec = request["spec"]
    if problem := _csr_problem(spec.get("request") or ""):
        yield invalid("spec.request", spec.get("request"), problem)
    usages = spec.get("usages") or []
    if not usages:
        yield required("spec.usages")
    for index, usage in enumerate(usages):
        if usage not in USAGES:
            yield not_supported(f"spec.usages[{index}]", usage, USAGES)
        if usage in usages[:index]:
            yield duplicate(f"spec.usages[{index}]", usage)
    yield from _signer(spec.get("signerName", ""), "spec.signerName")
    if spec.get("expirationSeconds", 600) < 600:
        detail = "may not specify a duration less than 600 seconds (10 minutes)"
        yield invalid("spec.expirationSeconds", spec["expirationSeconds"], detail)


def _csr_problem(encoded: str) -> str:
    """Returns what is wrong with a base64-encoded PEM request, "" if it is valid."""
    try:
        pem = base64.b64decode(encoded)
    except binascii.Error as error:
        return str(error)
    if b"-----BEGIN CERTIFICATE REQUEST-----" not in pem:
        return "PEM block type must be CERTIFICATE REQUEST"
    try:
        valid = x509.load_pem_x509_csr(pem).is_signature_valid
    except ValueError as error:
        return str(error)
    return "" if valid else "x509: signature verification failed"


def _signer(name: str, where: str) -> Iterator[FieldError]:
    domain, _, path = name.partition("/")
    labels = domain.split(".")
    if not name:
        yield required(where)
    elif name == "kubernetes.io/legacy-unknown":
        yield invalid(where, name, "the legacy signerName is not allowed via this API version")
    elif name.count("/") != 1:
        detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        yield invalid(where, name, detail)
    else:
        yield from _first_bad_label(domain, labels, "label", where)
        if len(labels) < 2:
            yield invalid(where, domain, "should be a domain with at least two segments separated by dots")
        yield from _first_bad_label(path, path.split("."), "subdomain", where)


def _first_bad_label(text: str, labels: list[str], rule: str, where: str) -> Iterator[FieldError]:
    for label in labels:
        if errors := name_errors(label, rule):
            yield from (invalid(where, text, f'validating label "{label}": {error}') for error in errors)
            return


def validate_approval(request: Object, old: Object) -> Iterator[FieldError]:
    """Rules for a change through the subresource `approval`."""
    yield from _conditions(request)
    if request.get("status", {}).get("certificate") != old.get("status", {}).get("certificate"):
        yield forbidden("status.certificate", "updates may not set certificate content")


def validate_request_status(request: Object, old: Object) -> Iterator[FieldError]:
    """Rules for a change of the status: it may not approve or deny."""
    yield from _conditions(request)
    for decision in DECISIONS:
        now, was = (_decided(one, decision) for one in (request, old))
        if now != was:
            verb = "add" if now else "remove"
            yield forbidden("status.conditions", f'updates may not {verb} a condition of type "{decision}"')


def _decided(request: Object, decision: str) -> bool:
    return any(one["type"] == decision for one in request.get("status", {}).get("conditions") or ())


def _conditions(request: Object) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, condition in enumerate(request.get("status", {}).get("conditions") or ()):
        at, kind, status = f"status.conditions[{index}]", condition["type"], condition["status"]
        if not kind:
            yield required(f"{at}.type")
        supported = ("True",) if kind in _ALWAYS_TRUE else ("False", "True", "Unknown")
        if not status:
            yield required(f"{at}.status")
        elif status not in supported:
            yield not_supported(f"{at}.status", status, supported)
        if kind in DECISIONS and seen & set(DECISIONS) - {kind}:
            yield invalid("status.conditions", kind, "Approved and Denied conditions are mutually exclusive")
        if kind in seen:
            yield duplicate(f"{at}.type", kind)
        seen.add(kind)
