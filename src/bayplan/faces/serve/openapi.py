"""The OpenAPI document of the server, made from its operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

from msgspec.structs import fields

from bayplan.answers.insight.question_parameters import Question
from bayplan.faces.asking.replies import JSON, LINES, TEXT
from bayplan.faces.asking.schemas import schemas_of
from bayplan.faces.serve.operations import HttpOperation

VERSION = "3.1.0"
_SCHEMAS = "#/components/schemas/"
_ERROR = {
    "type": "object",
    "properties": {"error": {"type": "string", "description": "What is wrong, in one line."}},
    "required": ["error"],
    "additionalProperties": False,
}
_LINE = {
    "description": "One line of the stream: progress, and at the end the answer or an error with its status.",
    "type": "object",
    "properties": {
        "progress": {"type": "string"},
        "answer": {},
        "error": {"type": "string"},
        "status": {"type": "integer"},
    },
}
_EVERYWHERE = {
    HTTPStatus.UNAUTHORIZED: "The token is missing or wrong.",
    HTTPStatus.FORBIDDEN: "The Host header is not an address of this server, or a page of another site asks.",
    HTTPStatus.INTERNAL_SERVER_ERROR: "A fault of the server, or of a plugin. The server's log says more.",
}
_WITH_BODY = {
    HTTPStatus.BAD_REQUEST: "The body is not valid JSON, or not as the schema says.",
    HTTPStatus.REQUEST_TIMEOUT: "The body has not arrived in time.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is too large.",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The body is not application/json, or in an unknown encoding.",
}


def document(operations: Iterable[HttpOperation]) -> dict[str, Any]:
    """Return the OpenAPI document of these operations."""
    operations = list(operations)
    bodies = [operation.body for operation in operations if operation.body is not None]
    schemas = schemas_of(bodies, f"{_SCHEMAS}{{name}}")
    paths: dict[str, Any] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": VERSION,
        "info": {
            "title": "Bayplan",
            "version": version("bayplan"),
            "description": "Questions about scheduling on a cluster, which is only read. See docs/serve.md.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Error": _ERROR, "Line": _LINE, **schemas},
        },
    }


def _operation(operation: HttpOperation) -> dict[str, Any]:
    statuses: dict[HTTPStatus, str] = {
        **_EVERYWHERE,
        **(_WITH_BODY if operation.body is not None else {}),
        **operation.statuses,
    }
    done: dict[str, Any] = {"description": operation.title}
    if operation.reply is not None:
        done["content"] = {JSON: {"schema": operation.reply}}
        if operation.streams:
            done["content"][TEXT] = {"schema": {"type": "string", "description": "What the command prints."}}
            done["content"][LINES] = {"schema": {"$ref": f"{_SCHEMAS}Line"}}
    found: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "responses": {
            str(int(operation.status)): done,
            **{str(int(status)): _error(text) for status, text in sorted(statuses.items())},
        },
    }
    if operation.variables:
        found["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
            for name in operation.variables
        ]
    if operation.body is not None:
        content: dict[str, Any] = {"schema": {"$ref": f"{_SCHEMAS}{operation.body.__name__}"}}
        if issubclass(operation.body, Question):
            content["example"] = operation.body.example
        required = any(each.required for each in fields(operation.body))
        found["requestBody"] = {"required": required, "content": {JSON: content}}
    return found


def _error(text: str) -> Mapping[str, Any]:
    return {"description": text, "content": {JSON: {"schema": {"$ref": f"{_SCHEMAS}Error"}}}}
