"""Who may do what, as far as an embedded server knows: whoever it knows may do everything, nobody else anything.

Mirrors the shape of Kubernetes' authentication.k8s.io and authorization.k8s.io reviews.
"""

from __future__ import annotations

from bayplan.devcluster.apiserver.registry import Registry
from bayplan.devcluster.apiserver.requests import RequestInfo
from bayplan.devcluster.apiserver.schema import Object

GROUPS = ["system:masters", "system:authenticated"]


def review_access(registry: Registry, info: RequestInfo, _user: str, document: Object) -> Object:
    """Answers a SubjectAccessReview or LocalSubjectAccessReview, whether somebody may do something."""
    spec = _spec(document)
    named = [spec.get("user", ""), *spec.get("groups", ())]
    allowed = not registry.users or any(name in registry.users or name == "system:masters" for name in named)
    return _answer(info, spec, {"allowed": allowed})


def review_own_access(_registry: Registry, info: RequestInfo, _user: str, document: Object) -> Object:
    """Answers a SelfSubjectAccessReview: whoever gets this far may do everything."""
    return _answer(info, _spec(document), {"allowed": True})


def review_own_rules(_registry: Registry, info: RequestInfo, _user: str, document: Object) -> Object:
    """Answers a SelfSubjectRulesReview, what the asker may do."""
    rules = {
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": False,
    }
    return _answer(info, _spec(document), rules)


def review_self(_registry: Registry, info: RequestInfo, user: str, _document: Object) -> Object:
    """Answers a SelfSubjectReview, who the asker is."""
    return _head(info) | {"status": {"userInfo": {"username": user, "groups": GROUPS}}}


def review_token(registry: Registry, info: RequestInfo, _user: str, document: Object) -> Object:
    """Answers a TokenReview, whose token it is."""
    spec = _spec(document)
    owner = registry.users_by_token.get(spec.get("token", ""))
    if owner is None:
        return _answer(info, spec, {"user": {}, "error": "invalid bearer token"})
    return _answer(info, spec, {"authenticated": True, "user": {"username": owner, "groups": GROUPS}})


_KINDS = {
    "subjectaccessreviews": "SubjectAccessReview",
    "localsubjectaccessreviews": "LocalSubjectAccessReview",
    "selfsubjectaccessreviews": "SelfSubjectAccessReview",
    "selfsubjectrulesreviews": "SelfSubjectRulesReview",
    "selfsubjectreviews": "SelfSubjectReview",
    "tokenreviews": "TokenReview",
}


def _spec(document: Object) -> Object:
    spec: Object = document.get("spec", {})
    return spec


def _head(info: RequestInfo) -> Object:
    return {"kind": _KINDS[info.resource], "apiVersion": f"{info.group}/{info.version}", "metadata": {}}


def _answer(info: RequestInfo, spec: Object, status: Object) -> Object:
    return {**_head(info), "spec": spec, "status": status}
