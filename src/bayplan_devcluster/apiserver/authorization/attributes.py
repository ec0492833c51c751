"""The attributes of a request that authorization depends on, and the error for a rejected one.

Mirrors apiserver's pkg/authorization/authorizer and pkg/endpoints/handlers/responsewriters/errors.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bayplan.core.api.field_errors import quoted
from bayplan.core.api.status import StatusError
from bayplan_devcluster.apiserver.authorization.users import User
from bayplan_devcluster.apiserver.http.request_info import RequestInfo

_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_SELECTS_NAME = ("metadata.name==", "metadata.name=")


@dataclass(frozen=True, slots=True)
class Attributes:
    """A verb on a resource, or on a path if `resource` is ""."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def combined(self) -> str:
        """The resource as in rules: `pods`, `pods/binding`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a request is allowed, with the reason or the errors of the authorizer."""

    allowed: bool
    reason: str = ""


def attributes_of(info: RequestInfo, parameters: Mapping[str, str]) -> Attributes:
    """The attributes of a request.

    The namespace of a Namespace is its own name. A list or watch with a field selector for one name has that name.
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
    """The only name that a field selector matches, "" if it may match several."""
    for term in selector.split(","):
        for prefix in _SELECTS_NAME:
            if term.startswith(prefix):
                name = term.removeprefix(prefix)
                return "" if name in {".", ".."} or "/" in name or "%" in name else name
    return ""


def forbidden_request(user: User, attributes: Attributes, reason: str) -> StatusError:
    """The 403 error for a user who is not authorized."""
    message = f"User {quoted(user.name)} cannot {attributes.verb} "
    if not attributes.resource:
        message += f"path {quoted(attributes.path)}"
    else:
        message += f"resource {quoted(attributes.combined)} in API group {quoted(attributes.group)} "
        message += (
            f"in the namespace {quoted(attributes.namespace)}" if attributes.namespace else "at the cluster scope"
        )
    message = message.translate(_HTML) + (f": {reason}" if reason else "")
    if not attributes.resource:
        return StatusError(403, "Forbidden", f"forbidden: {message}", {})
    qualified = f"{attributes.resource}.{attributes.group}" if attributes.group else attributes.resource
    subject = f"{qualified} {quoted(attributes.name)}" if attributes.name else qualified
    details: dict[str, Any] = {"name": attributes.name, "group": attributes.group, "kind": attributes.resource}
    details = {key: value for key, value in details.items() if value}
    return StatusError(403, "Forbidden", f"{subject} is forbidden: {message}", details)
