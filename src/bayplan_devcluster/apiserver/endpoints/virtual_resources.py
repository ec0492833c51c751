"""The resources without stored objects: reviews, and bindings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bayplan.core.api.kinds import POD, Kind
from bayplan.core.api.status import bad_request
from bayplan_devcluster.apiserver.authorization.users import User
from bayplan_devcluster.apiserver.endpoints import reviews
from bayplan_devcluster.apiserver.endpoints.backend import Backend
from bayplan_devcluster.apiserver.endpoints.binding import bind
from bayplan_devcluster.apiserver.http.request_info import RequestInfo
from bayplan_devcluster.apiserver.schema import Object


def _bind(backend: Backend, info: RequestInfo, _user: User, document: Object) -> Object:
    pods = backend.storage.served.find("", "v1", POD.plural)
    name = document["metadata"].get("name", "")
    if pods is None or not name:
        raise bad_request("name is required in a Binding")
    return bind(backend.storage, pods, info.namespace, name, document)


@dataclass(frozen=True, slots=True)
class VirtualResource:
    """A resource without stored objects, whose only verb is create."""

    kind: str
    create: Callable[[Backend, RequestInfo, User, Object], Object]
    """(backend, request, the user, the body) -> the object in the response. Raises StatusError."""
    namespaced: bool = False

    def kind_at(self, info: RequestInfo) -> Kind:
        """The kind of the body of a request."""
        module = f"{info.group.partition('.')[0] or 'core'}_{info.version}"
        model = f"{module}.{self.kind}"
        return Kind(info.group, info.version, self.kind, info.resource, "", namespaced=self.namespaced, model=model)


VIRTUAL: dict[tuple[str, str, str], VirtualResource] = {
    ("", "v1", "bindings"): VirtualResource("Binding", _bind, namespaced=True),
    ("authentication.k8s.io", "v1", "tokenreviews"): VirtualResource("TokenReview", reviews.review_token),
    ("authentication.k8s.io", "v1", "selfsubjectreviews"): VirtualResource("SelfSubjectReview", reviews.review_self),
    ("authorization.k8s.io", "v1", "subjectaccessreviews"): VirtualResource(
        "SubjectAccessReview", reviews.review_access
    ),
    ("authorization.k8s.io", "v1", "localsubjectaccessreviews"): VirtualResource(
        "LocalSubjectAccessReview", reviews.review_access, namespaced=True
    ),
    ("authorization.k8s.io", "v1", "selfsubjectaccessreviews"): VirtualResource(
        "SelfSubjectAccessReview", reviews.review_own_access
    ),
    ("authorization.k8s.io", "v1", "selfsubjectrulesreviews"): VirtualResource(
        "SelfSubjectRulesReview", reviews.review_own_rules
    ),
}
"""By group, version and plural."""
