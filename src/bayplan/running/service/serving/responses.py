"""The forms of responses: text, JSON, and Kubernetes' Status for errors."""

from __future__ import annotations

import html
import json
from typing import Any

import msgspec
from aiohttp import web

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"


def respond(body: bytes | str, content_type: str = TEXT, status: int = 200) -> web.Response:
    """A response whose content type browsers must not guess."""
    headers = {"Content-Type": content_type, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache, private"}
    return web.Response(body=body.encode() if isinstance(body, str) else body, status=status, headers=headers)


def respond_json(document: Any) -> web.Response:
    """A JSON document."""
    return respond(msgspec.json.encode(document), JSON)


def failure(status: int, reason: str, message: str) -> web.Response:
    """A Status document for an error."""
    document: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        **({"details": {}} if reason == "Forbidden" else {}),
        "code": status,
    }
    return respond(msgspec.json.encode(document), JSON, status)


def forbidden(user: str, method: str, path: str, reason: str) -> web.Response:
    """A Status with the user, the denied access, and the reason if there is one. Mirrors ForbiddenStatusError."""
    denied = _escape(f"User {_quote(user)} cannot {method.lower()} path {_quote(path)}")
    return failure(403, "Forbidden", f"forbidden: {denied}{f': {reason}' if reason else ''}")


def internal_error(target: str, error: str) -> web.Response:
    """The text that kube-apiserver's filters return when authorization itself fails. Mirrors InternalError there."""
    return respond(_escape(f"Internal Server Error: {_quote(target)}: {error}\n"), status=500)


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _escape(text: str) -> str:
    return html.escape(text, quote=False)


def accepts_json(request: web.BaseRequest) -> bool:
    """Whether the client asks for JSON explicitly; `*/*` doesn't count."""
    return JSON in request.headers.get("Accept", "")
