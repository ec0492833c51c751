"""Where a release comes from: an in-toto statement with the fields of SLSA's provenance, signed if there is a key.

A signature is a DSSE envelope, as other tools read it. The key is a file in PEM: Ed25519, or an elliptic curve.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from tools.commit import Commit
from tools.problems import Problem
from tools.releases.folder import digest_of

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://slsa.dev/provenance/v1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
BUILD_TYPE = "urn:bayplan:make-release:1"
PRIVATE = (ed25519.Ed25519PrivateKey, ec.EllipticCurvePrivateKey)
PUBLIC = (ed25519.Ed25519PublicKey, ec.EllipticCurvePublicKey)


def statement(
    commit: Commit, tag: str, subjects: Iterable[tuple[str, str]], *, source: str, builder: str, digests: dict[str, str]
) -> str:
    """Return a statement about subjects, each a name and a SHA-256. `digests` are those of what the build is given."""
    given = [{"uri": f"{source}@refs/tags/{tag}", "digest": {"gitCommit": commit.id}}]
    given += [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(digests.items())]
    predicate = {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": {"source": source, "ref": f"refs/tags/{tag}"},
            "internalParameters": {"SOURCE_DATE_EPOCH": commit.seconds},
            "resolvedDependencies": given,
        },
        "runDetails": {"builder": {"id": builder}},
    }
    document = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in subjects],
        "predicateType": PREDICATE_TYPE,
        "predicate": predicate,
    }
    return json.dumps(document, indent=1) + "\n"


def check_statement(text: str, what: str, files: Iterable[Path]) -> dict[str, Any]:
    """Return the predicate of a statement, which has to be about exactly these files."""
    try:
        document = json.loads(text)
        types = (document["_type"], document["predicateType"])
        said = {subject["name"]: subject["digest"]["sha256"] for subject in document["subject"]}
        predicate: dict[str, Any] = document["predicate"]
        definition = predicate["buildDefinition"]
        needed = (definition["buildType"], definition["externalParameters"], predicate["runDetails"]["builder"]["id"])
        commits = [each["digest"]["gitCommit"] for each in definition["resolvedDependencies"] if "uri" in each]
    except ValueError as error:
        raise Problem(f"{what} is no JSON: {error}") from None
    except LookupError as error:
        raise Problem(f"{what} is no provenance: it has no field {error}") from None
    except TypeError:
        raise Problem(f"{what} is no provenance: its fields are not those of an in-toto statement") from None
    if types != (STATEMENT_TYPE, PREDICATE_TYPE):
        raise Problem(f"{what} is no provenance of SLSA 1: its types are {types[0]} and {types[1]}")
    if not all(needed) or not commits:
        raise Problem(f"{what} doesn't say how, by whom and from which commit the files were built")
    there = {path.name: digest_of(path) for path in files}
    for name in sorted(there.keys() | said.keys()):
        if there.get(name) != said.get(name):
            raise Problem(f"{what} says another SHA-256 of {name} than the file has")
    return predicate


def load_key(key: Path, *, private: bool) -> Any:
    """Return the key in a file."""
    what = "private" if private else "public"
    load = (
        (lambda text: serialization.load_pem_private_key(text, None)) if private else serialization.load_pem_public_key
    )
    try:
        found = load(key.read_bytes())
    except OSError as error:
        raise Problem(f"{key}: {error.strerror}") from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise Problem(f"{key}: expected a {what} key in PEM, without a password") from None
    if not isinstance(found, PRIVATE if private else PUBLIC):
        raise Problem(f"{key}: expected a {what} key of Ed25519 or an elliptic curve")
    return found


def sign(text: str, key: Path) -> str:
    """Return a statement in an envelope, signed with a private key."""
    private = load_key(key, private=True)
    message = _authenticated(text.encode())
    if isinstance(private, ed25519.Ed25519PrivateKey):
        signature = private.sign(message)
    else:
        signature = private.sign(message, ec.ECDSA(hashes.SHA256()))
    encoded = base64.b64encode(signature).decode()
    envelope = {
        "payloadType": PAYLOAD_TYPE,
        "payload": base64.b64encode(text.encode()).decode(),
        "signatures": [{"keyid": "", "sig": encoded}],
    }
    return json.dumps(envelope) + "\n"


def check_envelope(envelope: str, text: str, what: str, key: Path) -> None:
    """Check that an envelope has this statement, and a signature of a public key."""
    public = load_key(key, private=False)
    try:
        document = json.loads(envelope)
        payload = base64.b64decode(document["payload"], validate=True)
        signatures = [base64.b64decode(each["sig"], validate=True) for each in document["signatures"]]
    except (ValueError, LookupError, TypeError) as error:
        raise Problem(f"{what} is no DSSE envelope: {type(error).__name__} {error}") from None
    if payload != text.encode():
        raise Problem(f"{what} has another statement than the file beside it")
    if not any(_signed(public, signature, _authenticated(payload)) for signature in signatures):
        raise Problem(f"{what} has no signature of {key}")


def _signed(public: Any, signature: bytes, message: bytes) -> bool:
    try:
        if isinstance(public, ed25519.Ed25519PublicKey):
            public.verify(signature, message)
        else:
            public.verify(signature, message, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True


def _authenticated(payload: bytes) -> bytes:
    """Return what is signed: DSSE's pre-authentication encoding."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)
