"""Errors of requests: Kubernetes' Status, as an exception that any step of a request may raise.

Mirrors apimachinery's pkg/api/errors/errors.go.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bayplan.api.kinds import Kind


class StatusError(Exception):
    """A response with an HTTP status of 400 or more.

    The Status has no `details` if they are None, and no `reason` if it is "".
    """

    def __init__(self, code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details

    def body(self) -> dict[str, Any]:
        """Returns the Status."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status


@dataclass(frozen=True, slots=True)
class FieldError:
    """One field that is wrong. Mirrors apimachinery's pkg/util/validation/field/errors.go."""

    reason: str
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def required(field: str, detail: str = "") -> FieldError:
    """A field that has to be there is not."""
    return FieldError("FieldValueRequired", field, _with("Required value", detail))


def invalid_value(field: str, value: Any, detail: str) -> FieldError:
    """A value that breaks a rule."""
    return FieldError("FieldValueInvalid", field, f"Invalid value: {quoted(value)}: {detail}")


def not_supported(field: str, value: Any, supported: Sequence[str]) -> FieldError:
    """A value outside an enumeration."""
    names = ", ".join(quoted(name) for name in supported)
    return FieldError("FieldValueNotSupported", field, f"Unsupported value: {quoted(value)}: supported values: {names}")


def forbidden_field(field: str, detail: str) -> FieldError:
    """A field that may not be set, or not be changed."""
    return FieldError("FieldValueForbidden", field, f"Forbidden: {detail}")


def duplicate(field: str, value: Any) -> FieldError:
    """A value that must be unique in its list and is not."""
    return FieldError("FieldValueDuplicate", field, f"Duplicate value: {quoted(value)}")


def too_long(field: str, limit: int) -> FieldError:
    """A text longer than allowed."""
    return FieldError("FieldValueTooLong", field, f"Too long: may not be more than {limit} bytes")


def too_many(field: str, given: int, limit: int) -> FieldError:
    """More elements than allowed."""
    return FieldError("FieldValueTooMany", field, f"Too many: {given}: must have at most {limit} items")


def type_invalid(field: str, value: Any, detail: str) -> FieldError:
    """A value of a type that the field cannot have."""
    return FieldError("FieldValueTypeInvalid", field, f"Invalid value: {quoted(value)}: {detail}")


def not_found_value(field: str, value: Any) -> FieldError:
    """A reference to something that does not exist."""
    return FieldError("FieldValueNotFound", field, f"Not found: {quoted(value)}")


def quoted(value: Any) -> str:
    """Formats a value for a message: as compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _with(what: str, detail: str) -> str:
    return f"{what}: {detail}" if detail else what


def unreadable_patch(why: str) -> FieldError:
    """A patch whose result is not an object of the kind."""
    return FieldError("FieldValueInvalid", "patch", f"Invalid value: {why}")


def invalid(kind: Kind, name: str, errors: Sequence[FieldError]) -> StatusError:
    """422 for invalid fields. The message contains duplicates once, the causes contain them all."""
    group = (
        "" if kind.group == "events.k8s.io" else kind.group
    )  # upstream validates events in the form that it stores, core/v1
    qualified = f"{kind.kind}.{group}" if group else kind.kind
    messages = list(dict.fromkeys(str(error) for error in errors))
    text = messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"
    causes = [{"reason": error.reason, "message": error.message, "field": error.field} for error in errors]
    return StatusError(
        422,
        "Invalid",
        f'{qualified} "{name}" is invalid: {text}',
        {**_details(name, group, kind.kind), "causes": causes},
    )


def version_required(kind: Kind, name: str) -> StatusError:
    """422 for an update without the resource version that its kind requires."""
    error = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
    cause = {"reason": error.reason, "message": error.message, "field": error.field}
    details = {**_details(name, kind.group, kind.plural), "causes": [cause]}
    return StatusError(422, "Invalid", f'{kind.resource} "{name}" is invalid: {error}', details)


def not_found(kind: Kind, name: str) -> StatusError:
    """404 for an object that does not exist."""
    return StatusError(404, "NotFound", f'{kind.resource} "{name}" not found', _details(name, kind.group, kind.plural))


def already_exists(kind: Kind, name: str, *, being_deleted: bool = False) -> StatusError:
    """409 for a create of a name that already exists."""
    message = f'{"object is being deleted: " if being_deleted else ""}{kind.resource} "{name}" already exists'
    return StatusError(409, "AlreadyExists", message, _details(name, kind.group, kind.plural))


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(kind: Kind, name: str, why: str, subresource: str = "") -> StatusError:
    """409 for a write that conflicts with the stored object."""
    plural = f"{kind.plural}/{subresource}" if subresource else kind.plural
    resource = f"{plural}.{kind.group}" if kind.group else plural
    message = f'Operation cannot be fulfilled on {resource} "{name}": {why}'
    return StatusError(409, "Conflict", message, _details(name, kind.group, plural))


def forbidden(kind: Kind, name: str, why: str) -> StatusError:
    """403 from admission."""
    message = f'{kind.resource} "{name}" is forbidden: {why}'
    return StatusError(403, "Forbidden", message, _details(name, kind.group, kind.plural))


def bad_request(message: str) -> StatusError:
    """400 for a malformed request."""
    return StatusError(400, "BadRequest", message)


def cannot_be_handled(kind: Kind, given: str, version: str, why: str) -> StatusError:
    """400 for a body that is not an object of the kind."""
    return bad_request(f'{given} in version "{version}" cannot be handled as a {kind.kind}: {why}')


def internal(message: str) -> StatusError:
    """500 without a reason, as kube-apiserver returns for an error that is not a Status."""
    return StatusError(500, "", message)


def resource_not_found() -> StatusError:
    """404 for a resource that the server does not serve."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def method_not_allowed() -> StatusError:
    """405 for a verb that the resource does not have."""
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, {})


def unsupported_media_type() -> StatusError:
    """415 for a body in an unsupported format."""
    return StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


def not_acceptable() -> StatusError:
    """406 for an Accept header without a supported format."""
    forms = (
        "application/json, application/yaml, application/vnd.kubernetes.protobuf, application/json;stream=watch, "
        "application/vnd.kubernetes.protobuf;stream=watch"
    )
    return StatusError(406, "NotAcceptable", f"406: Not Acceptable\n\nAvailable representations: {forms}", {})


def unauthorized() -> StatusError:
    """401 for a request without valid credentials."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def too_large() -> StatusError:
    """413 for a body that exceeds the limit."""
    return StatusError(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728")


def expired(message: str) -> StatusError:
    """410 for a resource version that is no longer in the history."""
    return StatusError(410, "Expired", message)


def future_version(wanted: int, current: int) -> StatusError:
    """504 for a resource version that does not exist yet."""
    return StatusError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {wanted}, current: {current}",
        {
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
    )


def _details(name: str, group: str, kind: str) -> dict[str, Any]:
    details: dict[str, Any] = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    details["kind"] = kind
    return details
