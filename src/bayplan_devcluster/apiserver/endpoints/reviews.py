"""Reviews: who a user is, and what they may do, in authentication.k8s.io and authorization.k8s.io.

Mirrors pkg/registry/authentication and pkg/registry/authorization.
"""

from __future__ import annotations

from typing import Any

from bayplan.core.api.field_errors import FieldError, invalid, quoted
from bayplan.core.api.status import StatusError, bad_request
from bayplan_devcluster.apiserver.authorization.attributes import Attributes
from bayplan_devcluster.apiserver.authorization.service_account_tokens import InvalidTokenError
from bayplan_devcluster.apiserver.authorization.users import User
from bayplan_devcluster.apiserver.endpoints.backend import Backend
from bayplan_devcluster.apiserver.http.request_info import RequestInfo
from bayplan_devcluster.apiserver.schema import Object


def review_access(backend: Backend, info: RequestInfo, _user: User, document: Object) -> Object:
    """Answers a SubjectAccessReview or LocalSubjectAccessReview: whether a user may do something."""
    spec = _spec(document)
    errors = _check_attributes(spec)
    name, groups = spec.get("user", ""), tuple(spec.get("groups") or ())
    if not name and not groups:
        errors.append(invalid("spec.user", "", "at least one of user or group must be specified"))
    if info.resource == "localsubjectaccessreviews":
        errors += _check_namespace(spec, info.namespace)
    _reject(info, errors)
    subject = User(name, groups, spec.get("uid", ""), spec.get("extra") or {})
    return _decide(backend, info, subject, spec)


def review_own_access(backend: Backend, info: RequestInfo, user: User, document: Object) -> Object:
    """Answers a SelfSubjectAccessReview: whether the caller may do something."""
    spec = _spec(document)
    _reject(info, _check_attributes(spec))
    return _decide(backend, info, user, spec)


def review_own_rules(backend: Backend, info: RequestInfo, user: User, document: Object) -> Object:
    """Answers a SelfSubjectRulesReview: what the caller may do in a namespace."""
    spec = _spec(document)
    if not spec.get("namespace"):
        raise bad_request("no namespace on request")
    rules, problem = backend.access.rules(user, spec["namespace"])
    status = {
        "resourceRules": [rule.as_resource_rule() for rule in rules if rule.resources],
        "nonResourceRules": [rule.as_path_rule() for rule in rules if rule.urls],
        "incomplete": False,
    }
    return _answer(info, spec, {**status, "evaluationError": problem} if problem else status)


def review_self(_backend: Backend, info: RequestInfo, user: User, _document: Object) -> Object:
    """Answers a SelfSubjectReview: who the caller is."""
    return _head(info) | {"status": {"userInfo": user.info()}}


def review_token(backend: Backend, info: RequestInfo, _user: User, document: Object) -> Object:
    """Answers a TokenReview: whose token it is."""
    spec = _spec(document)
    if not spec.get("token"):
        raise bad_request("token is required for TokenReview in authentication")
    try:
        owner, audiences = backend.access.user_of_token(spec["token"], spec.get("audiences") or ())
    except InvalidTokenError as error:
        return _answer(info, spec, {"user": {}, "error": str(error)})
    known = {"authenticated": True, "user": owner.info()}
    return _answer(info, spec, {**known, "audiences": audiences} if audiences else known)


_KINDS = {
    "subjectaccessreviews": "SubjectAccessReview",
    "localsubjectaccessreviews": "LocalSubjectAccessReview",
    "selfsubjectaccessreviews": "SelfSubjectAccessReview",
    "selfsubjectrulesreviews": "SelfSubjectRulesReview",
    "selfsubjectreviews": "SelfSubjectReview",
    "tokenreviews": "TokenReview",
}


def _check_attributes(spec: Object) -> list[FieldError]:
    of_resource, of_path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if of_resource is not None and of_path is not None:
        what = "cannot be specified in combination with resourceAttributes"
        return [invalid("spec.nonResourceAttributes", of_path, what)]
    if of_resource is None and of_path is None:
        what = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [invalid("spec.resourceAttributes", None, what)]
    return []


def _check_namespace(spec: Object, namespace: str) -> list[FieldError]:
    of_resource, of_path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if of_path is not None:
        return [invalid("spec.nonResourceAttributes", of_path, "disallowed on this kind of request")]
    wanted = (of_resource or {}).get("namespace", "")
    if wanted != namespace:
        return [invalid("spec.resourceAttributes.namespace", wanted, "must match metadata.namespace")]
    return []


def _reject(info: RequestInfo, errors: list[FieldError]) -> None:
    """Raises 422 if there are errors."""
    if not errors:
        return
    text = str(errors[0]) if len(errors) == 1 else f"[{', '.join(map(str, errors))}]"
    causes = [error.cause() for error in errors]
    details: dict[str, Any] = {"group": info.group, "kind": _KINDS[info.resource], "causes": causes}
    message = f"{_KINDS[info.resource]}.{info.group} {quoted('')} is invalid: {text}"
    raise StatusError(422, "Invalid", message, details)


def _decide(backend: Backend, info: RequestInfo, user: User, spec: Object) -> Object:
    of_resource = spec.get("resourceAttributes")
    if of_resource is not None:
        fields = ("verb", "group", "resource", "subresource", "namespace", "name")
        attributes = Attributes(*(of_resource.get(field) or "" for field in fields))
    else:
        path = spec["nonResourceAttributes"]
        attributes = Attributes(path.get("verb") or "", path=path.get("path") or "")
    verdict = backend.access.authorize(user, attributes)
    status: Object = {"allowed": verdict.allowed}
    return _answer(info, spec, status | ({"reason": verdict.reason} if verdict.reason else {}))


def _spec(document: Object) -> Object:
    spec: Object = document.get("spec") or {}
    return spec


def _head(info: RequestInfo) -> Object:
    return {"kind": _KINDS[info.resource], "apiVersion": f"{info.group}/{info.version}", "metadata": {}}


def _answer(info: RequestInfo, spec: Object, status: Object) -> Object:
    return {**_head(info), "spec": spec, "status": status}
