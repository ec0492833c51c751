"""The verb, resource and object of a request, from its method and path.

Mirrors apiserver's pkg/endpoints/request/requestinfo.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote

VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """The names as in audit logs and RBAC rules.

    `resource` is "" for a non-resource path, and `verb` for a resource if the method has none, such as TRACE.
    """

    verb: str
    path: str
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    name: str = ""
    subresource: str = ""


def read_request_info(method: str, path: str, query: Mapping[str, str]) -> RequestInfo:
    """Parses the method and the path of a request; `query` distinguishes a list from a watch."""
    return _read(method, path, query.get("watch", "") in {"1", "true", "True"})


@lru_cache(maxsize=4096)
def _read(method: str, path: str, watch: bool) -> RequestInfo:
    parts = [part for part in path.split("/") if part]
    if "%" in path:
        parts = [unquote(part) for part in parts]
    if len(parts) >= 3 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return RequestInfo(verb=method.lower(), path=path)
    if rest[0] == "watch" and len(rest) > 1:
        rest, watch = rest[1:], True
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in {"status", "finalize"}:
        namespace, rest = rest[1], rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    verb = VERBS.get(method, "")
    if verb == "get":
        verb = "watch" if watch else "get" if name else "list"
    elif verb == "delete" and not name:
        verb = "deletecollection"
    return RequestInfo(
        verb=verb,
        path=path,
        group=group,
        version=version,
        namespace=namespace,
        resource=rest[0],
        name=name,
        subresource="/".join(rest[2:]),
    )
