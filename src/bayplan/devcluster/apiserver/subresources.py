"""What can be done to an object besides reading and writing it, and the resources that are no more than a question.

Each is a function from a request to the object that answers it; the tables at the end say which there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bayplan.api.kinds import POD
from bayplan.devcluster.apiserver.binding import bind
from bayplan.devcluster.apiserver.registry import Registry
from bayplan.devcluster.apiserver.requests import RequestInfo
from bayplan.devcluster.apiserver.resources import Resource
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.status import bad_request

if TYPE_CHECKING:
    from bayplan.devcluster.apiserver.handler import Request

Verb = Callable[[Registry, Resource, "Request", Any], Object]
"""(registry, the resource, the request, its body or patch) -> the object that answers it. Raises StatusError."""


@dataclass(frozen=True, slots=True)
class Subresource:
    """A subresource's verbs, and what discovery says of it."""

    verbs: Mapping[str, Verb] = field(default_factory=dict)
    kind: str = ""
    group: str = ""
    version: str = ""


def _bind(registry: Registry, resource: Resource, request: Request, document: Any) -> Object:
    info = request.info
    return bind(registry, resource, info.namespace, info.name, document, dry_run="dryRun" in request.parameters)


SUBRESOURCES: dict[tuple[str, str], Subresource] = {
    ("pods", "binding"): Subresource({"create": _bind}, "Binding"),
}


def _bind_from_collection(registry: Registry, info: RequestInfo, document: Any) -> Object:
    pods = registry.resource("", "v1", POD.plural)
    name = (document or {}).get("metadata", {}).get("name", "") if isinstance(document, dict) else ""
    if pods is None or not name:
        raise bad_request("name is required in a Binding")
    return bind(registry, pods, info.namespace, name, document)


VIRTUAL: dict[tuple[str, str, str], Callable[[Registry, RequestInfo, Any], Object]] = {
    ("", "v1", "bindings"): _bind_from_collection,
}
