"""What a decision is about: who wants to do what, and how a refusal tells it.

Mirrors apiserver's pkg/authorization/authorizer and pkg/endpoints/handlers/responsewriters/errors.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bayplan.devcluster.apiserver.authorization.users import User
from bayplan.devcluster.apiserver.http.request_info import RequestInfo
from bayplan.devcluster.apiserver.status import StatusError, quoted

_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_SELECTS_NAME = ("metadata.name==", "metadata.name=")


@dataclass(frozen=True, slots=True)
class Attributes:
    """What somebody wants to do: a verb on a resource, or on a path if `resource` is ""."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def combined(self) -> str:
        """The resource as rules name it: `pods`, `pods/binding`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether it may be done, and why, or what kept the authorizer from knowing."""

    allowed: bool
    reason: str = ""


def attributes_of(info: RequestInfo, parameters: Mapping[str, str]) -> Attributes:
    """What a request wants to do.

    A namespace lies in itself, and a list or watch of one name (by a field selector) is of that name.
    """
    if not info.resource:
        return Attributes(info.verb, path=info.path)
    name = info.name
    if not name and info.verb in {"list", "watch"}:
        name = _selected_name(parameters.get("fieldSelector", ""))
    return Attributes(
        info.verb,
        info.group,
        info.resource,
        info.subresource.partition("/")[0],
        info.namespace or (info.name if info.resource == "namespaces" else ""),
        name,
    )


def _selected_name(selector: str) -> str:
    """The one name that a field selector lets through, "" if there may be others."""
    for term in selector.split(","):
        for prefix in _SELECTS_NAME:
            if term.startswith(prefix):
                name = term.removeprefix(prefix)
                return "" if name in {".", ".."} or "/" in name or "%" in name else name
    return ""


def forbidden_request(user: User, asked: Attributes, reason: str) -> StatusError:
    """403 for somebody who may not."""
    told = f"User {quoted(user.name)} cannot {asked.verb} "
    if not asked.resource:
        told += f"path {quoted(asked.path)}"
    else:
        told += f"resource {quoted(asked.combined)} in API group {quoted(asked.group)} "
        told += f"in the namespace {quoted(asked.namespace)}" if asked.namespace else "at the cluster scope"
    told = told.translate(_HTML) + (f": {reason}" if reason else "")
    if not asked.resource:
        return StatusError(403, "Forbidden", f"forbidden: {told}", {})
    qualified = f"{asked.resource}.{asked.group}" if asked.group else asked.resource
    subject = f"{qualified} {quoted(asked.name)}" if asked.name else qualified
    details: dict[str, Any] = {"name": asked.name, "group": asked.group, "kind": asked.resource}
    details = {key: value for key, value in details.items() if value}
    return StatusError(403, "Forbidden", f"{subject} is forbidden: {told}", details)
