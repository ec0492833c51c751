"""Redactor: redacts objects one after the other, as `bayplan snapshot --redact` redacts all at once.

The same key gives the same names, so that a recording can be continued, and its pods be followed.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bayplan.answers.history.format import HistoryError
from bayplan.answers.snapshots.redaction.kinds import FIELDS
from bayplan.answers.snapshots.redaction.names import KeyedNames
from bayplan.core.api.kinds import PERSISTENT_VOLUME_CLAIM, Kind

_KEY_BYTES = 32


class Redactor:
    """Redacts objects. The same key gives the same names, so that a recording can be continued."""

    def __init__(self, key: bytes) -> None:
        self.names = KeyedNames(key)

    def __call__(self, kind: Kind, key: str, obj: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the object without what is private; None for custom kinds, whose fields aren't known."""
        rule = FIELDS.get((kind.group, kind.plural))
        if rule is None:
            return None
        self.names.namespace, _, self.names.object = key.rpartition("/")
        if kind == PERSISTENT_VOLUME_CLAIM and (pod := _pod_of_claim(obj, self.names.object)):
            self.names.claim_of(self.names.object, pod)
        redacted: Mapping[str, Any] | None = rule(obj, self.names)
        return redacted

    def key(self, kind: Kind, key: str) -> str | None:
        """The new `namespace/name` of an object; None for a kind that is left out."""
        namespace, _, name = key.rpartition("/")
        redacted = self(kind, key, {"metadata": {"namespace": namespace, "name": name}})
        return None if redacted is None else key_of(redacted)

    def removed(self, kind: Kind, key: str) -> str | None:
        """The new `namespace/name` of an object that is gone, and about which nothing need be known any more."""
        new = self.key(kind, key)
        if kind == PERSISTENT_VOLUME_CLAIM:
            namespace, _, name = key.rpartition("/")
            self.names.forget_claim(namespace, name)
        return new


def key_of(obj: Mapping[str, Any]) -> str:
    """`namespace/name`, or the name alone."""
    metadata = obj.get("metadata") or {}
    namespace, name = metadata.get("namespace"), metadata.get("name", "")
    return f"{namespace}/{name}" if namespace else str(name)


def _pod_of_claim(claim: Mapping[str, Any], name: str) -> str:
    """The pod of an ephemeral volume, which owns its claim; "" for other claims. The claim may come before the pod."""
    owners = claim.get("metadata", {}).get("ownerReferences") or ()
    for owner in owners:
        if owner.get("kind") == "Pod" and owner.get("controller") and name.startswith(f"{owner.get('name')}-"):
            return str(owner["name"])
    return ""


def key_beside(folder: Path) -> bytes:
    """The key of a redacted recording, in a file beside its folder, which only its owner can read.

    With the key, one can find out whether a name is in the recording. Raises HistoryError.
    """
    folder = folder.resolve()
    path = folder.with_name(f"{folder.name}.redaction-key")
    try:
        if path.exists():
            key = path.read_bytes()
            if len(key) != _KEY_BYTES:
                raise HistoryError(f"{path} is damaged: it has {len(key)} bytes, not {_KEY_BYTES}")
            return key
        key = secrets.token_bytes(_KEY_BYTES)
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(key)
    except OSError as error:
        raise HistoryError(f"cannot write {path}: {error.strerror or error}") from None
    return key
