"""The conditions of a CustomResourceDefinition. Mirrors apiextensions-apiserver's pkg/apihelpers."""

from __future__ import annotations

from datetime import datetime

from bayplan.core.api.times import rfc3339
from bayplan_devcluster.apiserver.schema import Object


def find_condition(definition: Object, kind: str) -> Object | None:
    """The condition of a type, None if there is none."""
    conditions = definition.get("status", {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == kind), None)


def is_true(definition: Object, kind: str) -> bool:
    """Whether a condition exists and is true."""
    found = find_condition(definition, kind)
    return found is not None and found["status"] == "True"


def set_condition(definition: Object, now: datetime, kind: str, status: bool, reason: str, message: str) -> None:
    """Sets a condition. Its last transition time changes only when its status does."""
    conditions = definition["status"].setdefault("conditions", [])
    if conditions is None:
        conditions = definition["status"]["conditions"] = []
    new = {"type": kind, "status": str(status), "lastTransitionTime": rfc3339(now)}
    new |= {"reason": reason, "message": message}
    for index, old in enumerate(conditions):
        if old["type"] == kind:
            if old["status"] == new["status"]:
                new["lastTransitionTime"] = old["lastTransitionTime"]
            conditions[index] = new
            return
    conditions.append(new)
