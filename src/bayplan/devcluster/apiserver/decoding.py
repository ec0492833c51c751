"""From a request's body to an object as it is stored, or to the error that kube-apiserver gives.

Mirrors the decoding steps of apiserver's pkg/endpoints/handlers (create.go, update.go, patch.go).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

import msgspec
import yaml

from bayplan.api.kinds import Kind
from bayplan.devcluster.apiserver.encoding import decode
from bayplan.devcluster.apiserver.protobuf import PROTOBUF
from bayplan.devcluster.apiserver.scalars import Mismatch
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.shapes import Shape
from bayplan.devcluster.apiserver.status import (
    StatusError,
    bad_request,
    cannot_be_handled,
    unsupported_media_type,
)


@dataclass(slots=True)
class FieldValidation:
    """What becomes of fields that the kind does not have: an error (Strict), a warning (Warn), or nothing (Ignore)."""

    mode: str = "Warn"
    warnings: list[str] = field(default_factory=list)

    def judge(self, kind: Kind, unknown: list[str], duplicates: list[str]) -> None:
        """Raises under Strict, remembers a warning under Warn."""
        problems = [f'unknown field "{path}"' for path in unknown] + [
            f'duplicate field "{path}"' for path in duplicates
        ]
        if problems and self.mode == "Strict":
            raise cannot_be_handled(kind, kind.kind, kind.version, f"strict decoding error: {', '.join(problems)}")
        if self.mode == "Warn":
            self.warnings += problems


def read_object(shape: Shape, body: bytes, content_type: str, validation: FieldValidation) -> Object:
    """The object of a create or an update, normalized. Raises StatusError."""
    document = read_document(shape, body, content_type)
    duplicates = _duplicates(body) if validation.mode == "Strict" and "json" in content_type else []
    return accept(shape, document, validation, duplicates)


def accept(shape: Shape, document: Any, validation: FieldValidation, duplicates: list[str] | None = None) -> Object:
    """A decoded document as an object of the kind, normalized. Raises StatusError."""
    kind = shape.kind
    if document.__class__ is not dict:
        raise bad_request(f"the object provided is unrecognized (must be of type {kind.kind}): an object is expected")
    for field_name in ("kind", "apiVersion"):
        if not isinstance(document.get(field_name), str | None):
            why = f"{json.dumps(document[field_name])[:30]} is no text, as {field_name} has to be"
            raise bad_request(f"the object provided is unrecognized (must be of type {kind.kind}): {why}")
    shape.check_kind(document)
    try:
        obj, unknown = shape.normalize(document)
    except Mismatch as error:
        raise cannot_be_handled(kind, kind.kind, kind.version, str(error)) from error
    if unknown or duplicates:
        validation.judge(kind, unknown, duplicates or [])
    return obj


def read_document(shape: Shape, body: bytes, content_type: str) -> Any:
    """The body's JSON or YAML as plain values. Raises StatusError."""
    kind = shape.kind
    media = content_type.partition(";")[0].strip()
    if media == PROTOBUF:
        return shape.read_protobuf(body)
    if media in {"application/json", "", "application/json-patch+json"} or media.endswith("merge-patch+json"):
        try:
            return decode(body)
        except msgspec.DecodeError as error:
            raise _unrecognized(kind, body) from error
    if media in {"application/yaml", "application/apply-patch+yaml"}:
        try:
            return _plain(yaml.safe_load(body))
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise bad_request(
                f"the object provided is unrecognized (must be of type {kind.kind}): error converting YAML to JSON: "
                f"{' '.join(str(error).split())}"
            ) from error
    raise unsupported_media_type()


def _plain(value: Any) -> Any:
    """YAML's dates as the text that JSON would carry."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return value


def _unrecognized(kind: Kind, body: bytes) -> StatusError:
    text = body.decode(errors="replace")
    shown = "<empty>" if not text else text if len(text) <= 30 else f"{text[:30]} ..."
    return bad_request(
        f"the object provided is unrecognized (must be of type {kind.kind}): couldn't get version/kind; "
        f"json parse error: {json_error(text)} ({shown})"
    )


_GO_WORDS = (
    ("Expecting property name", "looking for beginning of object key string"),
    ("Expecting value", "looking for beginning of value"),
    ("Expecting ':'", "after object key"),
    ("Expecting ','", "after object key:value pair"),
    ("Extra data", "after top-level value"),
)


def json_error(text: str) -> str:
    """What is wrong with a text that is no JSON, in Go's words."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        if error.pos >= len(text):
            return "unexpected end of JSON input"
        for begin, words in _GO_WORDS:
            if error.msg.startswith(begin):
                return f"invalid character '{text[error.pos]}' {words}"
        return error.msg
    return "invalid UTF-8 or number"


class _Repeating(dict[str, Any]):
    """An object in whose text a key occurs twice."""

    repeated: list[str]


def _duplicates(body: bytes) -> list[str]:
    """The paths of fields that a body says twice."""
    found: list[str] = []

    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        built = dict(pairs)
        if len(built) == len(pairs):
            return built
        marked = _Repeating(built)
        keys = [key for key, _ in pairs]
        marked.repeated = sorted({key for key in keys if keys.count(key) > 1})
        return marked

    def walk(value: Any, path: str) -> None:
        if isinstance(value, _Repeating):
            found.extend(f"{path}.{key}".lstrip(".") for key in value.repeated)
        if isinstance(value, dict):
            for key, item in value.items():
                walk(item, f"{path}.{key}")
        elif isinstance(value, list):
            for index, item in enumerate(value):
                walk(item, f"{path}[{index}]")

    walk(json.loads(body, object_pairs_hook=build), "")
    return found


def warning_header(message: str) -> str:
    """A warning as the HTTP header's value carries it, in one line whatever the message says."""
    escaped = re.sub(r'(["\\])', r"\\\1", re.sub(r"[\x00-\x1f\x7f]", " ", message))
    return f'299 - "{escaped}"'
