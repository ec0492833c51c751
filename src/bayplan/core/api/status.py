"""Errors of requests: Kubernetes' Status, as an exception that any step of a request may raise.

Mirrors apimachinery's pkg/api/errors/errors.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bayplan.core.api import field_errors
from bayplan.core.api.field_errors import FieldError
from bayplan.core.api.kinds import Kind


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


def unreadable_patch(why: str) -> FieldError:
    """A patch whose result is not an object of the kind."""
    return FieldError("patch", f"Invalid value: {why}")


def unreadable_strategic_patch(why: str) -> StatusError:
    """422 for a strategic merge patch with unknown fields, which upstream reports without the object."""
    error = unreadable_patch(why)
    return StatusError(422, "Invalid", f' "" is invalid: {error}', {"causes": [error.cause()]})


def invalid(kind: Kind, name: str, errors: Sequence[FieldError]) -> StatusError:
    """422 for invalid fields. The message contains duplicates once, the causes contain them all."""
    group = (
        "" if kind.group == "events.k8s.io" else kind.group
    )  # upstream validates events in the form that it stores, core/v1
    qualified = f"{kind.kind}.{group}" if group else kind.kind
    messages = list(dict.fromkeys(str(error) for error in errors))
    text = messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"
    return StatusError(
        422,
        "Invalid",
        f'{qualified} "{name}" is invalid: {text}',
        {**_details(name, group, kind.kind), "causes": [error.cause() for error in errors]},
    )


def version_required(kind: Kind, name: str) -> StatusError:
    """422 for an update without the resource version that its kind requires."""
    error = field_errors.invalid("metadata.resourceVersion", 0, "must be specified for an update")
    details = {**_details(name, kind.group, kind.plural), "causes": [error.cause()]}
    return StatusError(422, "Invalid", f'{kind.resource} "{name}" is invalid: {error}', details)


def not_found(kind: Kind, name: str) -> StatusError:
    """404 for an object that does not exist."""
    return StatusError(404, "NotFound", f'{kind.resource} "{name}" not found', _details(name, kind.group, kind.plural))


def already_exists(kind: Kind, name: str, *, being_deleted: bool = False) -> StatusError:
    """409 for a create of a name that already exists."""
    message = f'{"object is being deleted: " if being_deleted else ""}{kind.resource} "{name}" already exists'
    return StatusError(409, "AlreadyExists", message, _details(name, kind.group, kind.plural))


def name_not_generated(kind: Kind, name: str, *, being_deleted: bool = False) -> StatusError:
    """409 for a create with a prefix for generated names, whose name already exists."""
    group = "" if kind.group == "events.k8s.io" else kind.group  # upstream names the form that it stores
    qualified = f"{kind.plural}.{group}" if group else kind.plural
    why = "already exists, the server was not able to generate a unique name for the object"
    message = f'{"object is being deleted: " if being_deleted else ""}{qualified} "{name}" {why}'
    return StatusError(409, "AlreadyExists", message, {**_details(name, group, kind.plural), "retryAfterSeconds": 1})


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


def name_undeterminable(name: str) -> StatusError:
    """400 for an update whose body has no name. `name`: the one in the URL."""
    return bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")


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
