"""Objects as a snapshot keeps them: their kind, their key, and their JSON without what nothing reads.

An object has one form, whatever version of its kind a server or a file has. Secrets, ConfigMaps and most events are
left out: no decision depends on them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from bayplan.answers.snapshots.numeric_quantities import with_text_quantities
from bayplan.answers.snapshots.older_versions import NEWER, updated
from bayplan.answers.snapshots.reading import SnapshotError
from bayplan.core.api.kinds import CONFIG_MAP, CORE_EVENT, EVENT, SECRET, TYPED_KINDS, Kind, custom_kind
from bayplan.core.api.objects import encode
from bayplan.core.api.suggestions import did_you_mean

_KNOWN = {(kind.api_version, kind.kind): kind for kind in TYPED_KINDS}
_CORE_GROUP = re.compile(r"v[0-9]|(apps|batch|extensions|policy)/")
"""The API versions whose kinds are all known, so that another kind is a mistake."""


def kind_named(api_version: str, name: str) -> Kind:
    """The kind of objects with this `apiVersion` and `kind`. Raises SnapshotError for one that can't exist.

    A kind without a model is the `custom_kind` that plugins read it as; its plural is guessed as kubectl does.
    """
    known = _KNOWN.get((api_version, name))
    if known is not None:
        return known
    if _CORE_GROUP.match(api_version) or "/" not in api_version:
        served = [version for version, kind in _KNOWN if kind == name]
        hint = f"; {name} is in {' and '.join(served)}" if served else did_you_mean(name, [kind for _, kind in _KNOWN])
        raise SnapshotError(f"there is no kind {name} in {api_version}{hint}")
    group, _, version = api_version.rpartition("/")
    try:
        return custom_kind(f"{_plural(name)}.{version}.{group}")
    except ValueError:
        raise SnapshotError(f"{api_version} {name} is not a kind") from None


def _plural(name: str) -> str:
    """The plural of a kind's name. Mirrors meta.UnsafeGuessKindToResource (apimachinery/pkg/api/meta)."""
    name = name.lower()
    if name.endswith("s"):
        return f"{name}es"
    return f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"


def collect(objects: Iterable[tuple[Kind, str, bytes]]) -> dict[Kind, dict[str, bytes]]:
    """Identified objects by kind and key. Of two with the same key, the last one counts.

    Secrets, ConfigMaps and events are left out: no decision depends on them. Events about pods that could not be
    created, or were preempted, stay.
    """
    documents: dict[Kind, dict[str, bytes]] = {}
    for kind, key, raw in objects:
        if kind not in _LEFT_OUT or (kind in _EVENTS and any(reason in raw for reason in _REASONS)):
            documents.setdefault(kind, {})[key] = raw
    return documents


def identify(document: Mapping[str, Any]) -> tuple[Kind, str, bytes]:
    """The kind, the key and the JSON of an object. Raises SnapshotError, whose message names the field."""
    for field in ("apiVersion", "kind"):
        if not isinstance(document.get(field), str):
            raise SnapshotError(f"{field} is missing")
    try:
        raw = encode(document)
    except (TypeError, ValueError, RecursionError) as error:
        raise SnapshotError(f"{document['kind']}: {error}") from None
    return identify_raw(document["apiVersion"], document["kind"], raw)


def identify_raw(api_version: str, name: str, raw: bytes) -> tuple[Kind, str, bytes]:
    """`identify` for an object's JSON, whose `apiVersion` and `kind` are known."""
    older, kind = NEWER.get((api_version, name), (None, None))
    if kind is None:
        kind = kind_named(api_version, name)
    try:
        return (kind, *stored(kind, with_text_quantities(kind, updated(older, raw) if older else raw)))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SnapshotError(f"{name}: {error}") from None


def stored(kind: Kind, raw: bytes) -> tuple[str, bytes]:
    """An object's key, and its JSON without `managedFields`, and without `kind` and `apiVersion` unless it is custom.

    An object that has no namespace but needs one is in `default`. Raises SnapshotError.
    """
    known = _as_stored(kind, raw)
    if known is not None:
        return known, raw
    try:
        if b"\n" in raw:
            raw = encode(msgspec.json.decode(raw))  # indented, which takes twice the memory
        fields = _fields.decode(raw)
        metadata = _fields.decode(fields["metadata"])
        identity = _identity.decode(fields["metadata"])
    except (msgspec.MsgspecError, KeyError, ValueError, RecursionError) as error:
        what = "metadata is missing" if isinstance(error, KeyError) else str(error)
        raise SnapshotError(f"{kind.kind}: {what}") from None
    if not identity.name:
        raise SnapshotError(f"{kind.kind}: metadata.name is missing")
    namespace = identity.namespace or ""
    if kind.namespaced and not namespace and (kind.model or not identity.uid):
        # A custom kind may have no namespaces, which only the server knows; an object from a server has a uid.
        namespace = "default"
        metadata["namespace"] = _DEFAULT
    metadata.pop("managedFields", None)
    fields["metadata"] = msgspec.Raw(encode(metadata))
    if kind.model:
        fields.pop("kind", None)
        fields.pop("apiVersion", None)
    return f"{namespace}/{identity.name}" if namespace else identity.name, encode(fields)


def _as_stored(kind: Kind, raw: bytes) -> str | None:
    """The key of an object whose JSON need not change; None for others, and for those with errors."""
    if b"\n" in raw or not kind.model:
        return None
    try:
        found = _saved.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    metadata = found.metadata
    if found.kind or found.apiVersion or metadata.managedFields or not metadata.name:
        return None
    if not kind.namespaced:
        return None if metadata.namespace else metadata.name
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else None


class _SavedMetadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    managedFields: msgspec.Raw = msgspec.Raw()


class _Saved(msgspec.Struct):
    """An object, as far as it says whether its JSON need not change."""

    metadata: _SavedMetadata
    kind: msgspec.Raw = msgspec.Raw()
    apiVersion: msgspec.Raw = msgspec.Raw()


class _Identity(msgspec.Struct):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None


_EVENTS = {EVENT, CORE_EVENT}
_LEFT_OUT = {SECRET, CONFIG_MAP, *_EVENTS}
_REASONS = (b'"FailedCreate"', b'"Preempted"')
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_saved = msgspec.json.Decoder(_Saved)
_identity = msgspec.json.Decoder(_Identity)
_DEFAULT = msgspec.Raw(b'"default"')
