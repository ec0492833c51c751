"""Decodes request bodies to objects in the form that is stored, with the errors of kube-apiserver.

Mirrors the decoding steps of apiserver's pkg/endpoints/handlers (create.go, update.go, patch.go).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

import msgspec

from bayplan.core.api.kinds import Kind
from bayplan.core.api.status import StatusError, bad_request, cannot_be_handled, unsupported_media_type
from bayplan.foundations.manifest_files import ManifestError, yaml_documents
from bayplan_devcluster.apiserver.encoding import decode
from bayplan_devcluster.apiserver.protobuf import PROTOBUF
from bayplan_devcluster.apiserver.scalars import Mismatch
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.storage.object_schema import ObjectSchema


@dataclass(slots=True)
class FieldValidation:
    """The handling of unknown and duplicate fields: an error (Strict), a warning (Warn), or nothing (Ignore)."""

    mode: str = "Warn"
    warnings: list[str] = field(default_factory=list)

    def check(self, kind: Kind, unknown: list[str], duplicates: list[str]) -> None:
        """Raises 400 with Strict; collects warnings with Warn."""
        problems = [f'unknown field "{path}"' for path in unknown] + [
            f'duplicate field "{path}"' for path in duplicates
        ]
        if problems and self.mode == "Strict":
            raise cannot_be_handled(kind, kind.kind, kind.version, f"strict decoding error: {', '.join(problems)}")
        if self.mode == "Warn":
            self.warnings += problems


def read_object(schema: ObjectSchema, body: bytes, content_type: str, validation: FieldValidation) -> Object:
    """Decodes and normalizes the object of a create or an update. Raises StatusError."""
    document = read_document(schema, body, content_type)
    duplicates = _duplicates(body) if validation.mode == "Strict" and "json" in content_type else []
    return accept(schema, document, validation, duplicates)


def accept(
    schema: ObjectSchema, document: Any, validation: FieldValidation, duplicates: list[str] | None = None
) -> Object:
    """Checks and normalizes a decoded object. Raises StatusError."""
    kind = schema.kind
    if document.__class__ is not dict:
        raise bad_request(f"the object provided is unrecognized (must be of type {kind.kind}): an object is expected")
    for field_name in ("kind", "apiVersion"):
        if not isinstance(document.get(field_name), str | None):
            why = f"{field_name} must be a string, not {json.dumps(document[field_name])[:30]}"
            raise bad_request(f"the object provided is unrecognized (must be of type {kind.kind}): {why}")
    schema.check_kind(document)
    try:
        obj, unknown = schema.normalize(document)
    except Mismatch as error:
        raise cannot_be_handled(kind, kind.kind, kind.version, str(error)) from error
    if unknown or duplicates:
        validation.check(kind, unknown, duplicates or [])
    return obj


def read_document(schema: ObjectSchema, body: bytes, content_type: str) -> Any:
    """Decodes a body of JSON, YAML or protobuf to plain values. Raises StatusError."""
    kind = schema.kind
    media = content_type.partition(";")[0].strip()
    if media == PROTOBUF:
        return schema.read_protobuf(body)
    if media in {"application/json", "", "application/json-patch+json"} or media.endswith("merge-patch+json"):
        try:
            return decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _unrecognized(kind, body) from error
    if media in {"application/yaml", "application/apply-patch+yaml"}:
        return _read_yaml(kind, body)
    raise unsupported_media_type()


def _read_yaml(kind: Kind, body: bytes) -> Any:
    """Decodes the first document of a YAML body. kubectl sends JSON, which is decoded a thousand times as fast."""
    try:
        return decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return next((_plain(value) for _, value in yaml_documents("the body", body.decode())), None)
    except (ManifestError, ValueError) as error:
        why = f"error converting YAML to JSON: {' '.join(str(error).split())}"
        raise bad_request(f"the object provided is unrecognized (must be of type {kind.kind}): {why}") from error


def _plain(value: Any) -> Any:
    """Converts YAML's keys to the text that JSON has, and its sets and bytes, which JSON lacks, to null."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value if isinstance(value, (str, int, float, bool)) else None


def _unrecognized(kind: Kind, body: bytes) -> StatusError:
    text = body.decode(errors="replace")
    shown = "<empty>" if not text else text if len(text) <= 30 else f"{text[:30]} ..."
    return bad_request(
        f"the object provided is unrecognized (must be of type {kind.kind}): couldn't get version/kind; "
        f"json parse error: {json_error(text)} ({shown})"
    )


_GO_MESSAGES = (
    ("Expecting property name", "looking for beginning of object key string"),
    ("Expecting value", "looking for beginning of value"),
    ("Expecting ':'", "after object key"),
    ("Expecting ','", "after object key:value pair"),
    ("Extra data", "after top-level value"),
)


def json_error(text: str) -> str:
    """Returns Go's message for a text that is not JSON."""
    try:
        json.loads(text)
    except RecursionError:
        return "exceeded max depth"
    except json.JSONDecodeError as error:
        if error.pos >= len(text):
            return "unexpected end of JSON input"
        for begin, message in _GO_MESSAGES:
            if error.msg.startswith(begin):
                return f"invalid character '{text[error.pos]}' {message}"
        return error.msg
    except ValueError:  # Python reads no integers of thousands of digits
        return "invalid number"
    return "invalid UTF-8 or number"


class _WithDuplicates(dict[str, Any]):
    """A decoded object with duplicate keys."""

    duplicates: list[str]


def _duplicates(body: bytes) -> list[str]:
    """Returns the paths of the duplicate fields in a body."""
    found: list[str] = []

    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        built = dict(pairs)
        if len(built) == len(pairs):
            return built
        marked = _WithDuplicates(built)
        keys = [key for key, _ in pairs]
        marked.duplicates = sorted({key for key in keys if keys.count(key) > 1})
        return marked

    def walk(value: Any, path: str) -> None:
        if isinstance(value, _WithDuplicates):
            found.extend(f"{path}.{key}".lstrip(".") for key in value.duplicates)
        if isinstance(value, dict):
            for key, item in value.items():
                walk(item, f"{path}.{key}")
        elif isinstance(value, list):
            for index, item in enumerate(value):
                walk(item, f"{path}[{index}]")

    walk(json.loads(body, object_pairs_hook=build), "")
    return found


def warning_header(message: str) -> str:
    """Returns the value of a Warning header, on one line."""
    escaped = re.sub(r'(["\\])', r"\\\1", re.sub(r"[\x00-\x1f\x7f]", " ", message))
    return f'299 - "{escaped}"'
