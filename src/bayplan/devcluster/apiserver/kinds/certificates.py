"""Hooks of CertificateSigningRequests, and the changes that the subresource `approval` makes.

Mirrors Kubernetes' pkg/registry/certificates/certificates/strategy.go.
"""

from __future__ import annotations

from datetime import datetime

from bayplan.api.times import rfc3339
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.validation.certificates import DECISIONS

_USER_FIELDS = ("username", "uid", "groups", "extra")


def set_requester(request: Object, user: Object) -> None:
    """Sets the user fields of a new request, overriding the body."""
    for field in _USER_FIELDS:
        request["spec"].pop(field, None)
    request["spec"] |= user


def keep_spec(request: Object, old: Object) -> None:
    """Restores the spec, which is immutable."""
    request["spec"] = old["spec"]


def keep_decisions(request: Object, old: Object) -> None:
    """Restores the conditions that only the subresource `approval` may change."""
    was = {one["type"]: one for one in _conditions(old)}
    conditions = _conditions(request)
    for index, condition in enumerate(conditions):
        if condition["type"] in DECISIONS and condition["type"] in was:
            conditions[index] = was[condition["type"]]


def approved(request: Object, old: Object, now: datetime) -> Object:
    """Returns the old request with the conditions of the new one, which get their times."""
    conditions = _conditions(request)
    was = {(one["type"], one["status"]): one.get("lastTransitionTime") for one in _conditions(old)}
    for condition in conditions:
        if not condition.get("lastUpdateTime"):
            condition["lastUpdateTime"] = rfc3339(now)
        if not condition.get("lastTransitionTime"):
            previous = was.get((condition["type"], condition["status"]))
            condition["lastTransitionTime"] = previous or rfc3339(now)
    return {**old, "status": {**old.get("status", {}), "conditions": conditions}}


def _conditions(request: Object) -> list[Object]:
    found: list[Object] = (request.get("status") or {}).get("conditions") or []
    return found
