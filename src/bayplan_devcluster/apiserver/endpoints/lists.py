"""Lists: selectors, pages and resource versions. Mirrors apiserver's pkg/storage/cacher and pkg/endpoints/handlers.

Pages of one list show one version: a continue token names it, and expires when it is compacted.
"""

from __future__ import annotations

import base64
import posixpath
import string
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from bayplan.core.api.field_errors import FieldError, forbidden, not_supported
from bayplan.core.api.labels import (
    FieldSelector,
    InvalidSelector,
    LabelSelector,
    parse_field_selector,
    parse_label_selector,
)
from bayplan.core.api.status import StatusError, bad_request, expired, future_version, internal
from bayplan_devcluster.apiserver.endpoints.decoding import json_error
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.storage.resource import Resource
from bayplan_devcluster.apiserver.storage.rest_storage import RestStorage
from bayplan_devcluster.apiserver.storage.store import Collection, Entry, key_of

ENCODED_VERSION = "meta.k8s.io/v1"
_BASE64 = frozenset(f"{string.ascii_letters}{string.digits}-_".encode())


@dataclass(frozen=True, slots=True)
class Selection:
    """The objects that a list or a watch selects."""

    namespace: str
    labels: LabelSelector
    fields: FieldSelector

    def matches(self, entry: Entry) -> bool:
        """Whether it selects this version of an object."""
        return (
            (not self.namespace or entry.namespace == self.namespace)
            and (not self.labels.requirements or self.labels.matches(entry.labels))
            and (not self.fields.terms or self.fields.matches(entry.fields))
        )


def read_selection(resource: Resource, namespace: str, name: str, query: Mapping[str, str]) -> Selection:
    """Reads the selectors of a request. Raises 400."""
    try:
        labels = parse_label_selector(query.get("labelSelector", ""))
        fields = parse_field_selector(query.get("fieldSelector", ""), resource.supports_field)
        renamed = resource.fields.renamed
        terms = tuple((renamed.get(name, name), equal, value) for name, equal, value in fields.terms)
        fields = FieldSelector(terms)
    except InvalidSelector as error:
        raise bad_request(str(error)) from error
    if name:
        fields = FieldSelector((*fields.terms, ("metadata.name", True, name)))
    return Selection(namespace, labels, fields)


def list_objects(
    storage: RestStorage, resource: Resource, selection: Selection, query: Mapping[str, str]
) -> tuple[list[Entry], Object]:
    """Returns the selected objects, or a page of them, and the list's metadata. Raises StatusError."""
    limit = read_integer(query.get("limit", ""))
    token = query.get("continue", "")
    collection = storage.collection(resource)
    version, after = _read_token(collection, token) if token else (storage.store.version, "")
    if not token:
        _check_version(storage, collection, query)
    found = candidates(collection, selection, after)
    if not limit or limit < 0:
        return [entry for entry in found if selection.matches(entry)], {"resourceVersion": str(version)}
    page: list[Entry] = []
    visited = 0
    for entry in found:
        if len(page) == limit:
            break
        visited += 1
        if selection.matches(entry):
            page.append(entry)
    rest = len(found) - visited
    metadata: Object = {"resourceVersion": str(version)}
    if rest and _more(found, visited, selection):
        metadata["continue"] = _write_token(version, page[-1].key)
        if not selection.labels.requirements and not selection.fields.terms:
            metadata["remainingItemCount"] = rest
    return page, metadata


def _more(found: list[Entry], start: int, selection: Selection) -> bool:
    """Whether a selected object follows: no continue token leads to an empty page."""
    return any(selection.matches(found[index]) for index in range(start, len(found)))


def candidates(collection: Collection, selection: Selection, after: str = "") -> list[Entry]:
    """Returns the objects after a key that a selection may select, in order."""
    name = selection.fields.exact("metadata.name")
    if name is not None and selection.namespace:
        entry = collection.objects.get(key_of(selection.namespace, name))
        return [] if entry is None or entry.key <= after else [entry]
    return collection.select(selection.namespace, after)


def read_integer(text: str) -> int:
    """Parses an integer, "" as 0. Raises 400."""
    if not text:
        return 0
    try:
        return int(text)
    except ValueError as error:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from error


def _check_version(storage: RestStorage, collection: Collection, query: Mapping[str, str]) -> None:
    """Checks that the list can have the requested resource version. Raises 4xx or 504."""
    text, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    try:
        version = read_version(text)
    except StatusError as error:
        raise bad_request(f"invalid resource version: {error.message}") from error
    if match not in {"", "Exact", "NotOlderThan"}:
        raise bad_options(not_supported("resourceVersionMatch", match, ("Exact", "NotOlderThan", "")))
    if match and not text:
        raise bad_options(
            forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided")
        )
    if match == "Exact" and version == 0:
        detail = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        raise bad_options(forbidden("resourceVersionMatch", detail))
    if version > storage.store.version:
        raise future_version(version, storage.store.version)
    if match == "Exact" and version < collection.newest:
        raise expired(f"The provided continue parameter or resource version {version} is no longer held")


def bad_options(error: FieldError) -> StatusError:
    """422 for options of a list or a watch that do not fit together."""
    return StatusError(
        422,
        "Invalid",
        f'ListOptions.meta.k8s.io "" is invalid: {error}',
        {"group": "meta.k8s.io", "kind": "ListOptions", "causes": [error.cause()]},
    )


def read_version(text: str) -> int:
    """Parses a resource version, "" as 0. Raises 500 for text that is not a number, as kube-apiserver does."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise internal(f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax')
    return int(text)


class _Token(msgspec.Struct):
    """What a continue token says. Mirrors continueToken of apiserver's pkg/storage/continue.go."""

    v: str = ""
    rv: int = 0
    start: str = ""


def _write_token(version: int, key: str) -> str:
    token = msgspec.json.encode(_Token(ENCODED_VERSION, version, key))
    return base64.urlsafe_b64encode(token).decode().rstrip("=")


def _read_token(collection: Collection, token: str) -> tuple[int, str]:
    """Returns the version and the last key of the previous page. Raises 400, or 410 if the version is compacted."""
    read = _decoded(token)
    if read.v != ENCODED_VERSION:
        raise _invalid_token(f"server does not recognize this encoded version {read.v}")
    if read.rv <= 0:
        raise _invalid_token(f"incorrect encoded start resourceVersion (version {ENCODED_VERSION})")
    if not read.start:
        raise _invalid_token(f"encoded start key empty (version {ENCODED_VERSION})")
    if posixpath.normpath(f"/{read.start.removeprefix('/')}") != f"/{read.start.removeprefix('/')}":
        raise _invalid_token(read.start)
    if read.rv < collection.compacted:
        raise expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list "
            "without the continue parameter."
        )
    return read.rv, read.start


def _decoded(token: str) -> _Token:
    encoded = token.encode()
    wrong = next((index for index, byte in enumerate(encoded) if byte not in _BASE64), None)
    if wrong is None and len(encoded) % 4 == 1:
        wrong = len(encoded) - 1
    if wrong is not None:
        raise _invalid_token(f"illegal base64 data at input byte {wrong}")
    text = base64.urlsafe_b64decode(encoded + b"=" * (-len(encoded) % 4))
    try:
        return msgspec.json.decode(text, type=_Token)
    except msgspec.ValidationError as error:
        raise _invalid_token(f"json: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _invalid_token(json_error(text.decode(errors="replace"))) from error


def _invalid_token(why: str) -> StatusError:
    return bad_request(f"invalid continue token: continue key is not valid: {why}")
