"""The forms of answers: Kubernetes' Status for refusals, and what clients are given in text or in JSON."""

from __future__ import annotations

import html
import json
from typing import Any

import msgspec
from aiohttp import web

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"


def answer(body: bytes | str, content_type: str = TEXT, status: int = 200) -> web.Response:
    """An answer that no browser takes for anything else."""
    headers = {"Content-Type": content_type, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache, private"}
    return web.Response(body=body.encode() if isinstance(body, str) else body, status=status, headers=headers)


def json_answer(document: Any) -> web.Response:
    """A document as JSON."""
    return answer(msgspec.json.encode(document), JSON)


def refusal(status: int, reason: str, message: str) -> web.Response:
    """A Status that says why not."""
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
    return answer(msgspec.json.encode(document), JSON, status)


def forbidden(user: str, method: str, path: str, reason: str) -> web.Response:
    """A Status that says who may not do what, and why, if that is known. Mirrors ForbiddenStatusError."""
    said = _harmless(f"User {_quoted(user)} cannot {method.lower()} path {_quoted(path)}")
    return refusal(403, "Forbidden", f"forbidden: {said}{f': {reason}' if reason else ''}")


def internal_error(target: str, error: str) -> web.Response:
    """What kube-apiserver's filters say when they cannot tell whether somebody may. Mirrors InternalError there."""
    return answer(_harmless(f"Internal Server Error: {_quoted(target)}: {error}\n"), status=500)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _harmless(text: str) -> str:
    """A text that no browser takes for HTML."""
    return html.escape(text, quote=False)


def wants_json(request: web.BaseRequest) -> bool:
    """Whether a client asks for JSON, and not for anything."""
    return JSON in request.headers.get("Accept", "")
