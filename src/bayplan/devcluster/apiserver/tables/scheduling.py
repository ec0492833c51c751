"""The rows of PodGroups. Workloads have generic rows."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from bayplan.api import kinds
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.tables.columns import AGE, NAME, Column, Table, age, condition


def _pod_group(pod_group: Object, now: datetime) -> list[Any]:
    spec = pod_group["spec"]
    workload = (spec.get("podGroupTemplateRef") or {}).get("workload") or {}
    return [
        pod_group["metadata"]["name"],
        "Basic" if spec["schedulingPolicy"].get("gang") is None else "Gang",
        workload.get("workloadName", "<none>"),
        _status(pod_group.get("status", {}).get("conditions") or ()),
        age(pod_group, now),
    ]


def _status(conditions: Any) -> str:
    if disrupted := condition(conditions, "DisruptionTarget"):
        return str(disrupted["reason"])
    scheduled = condition(conditions, "PodGroupScheduled")
    if not scheduled:
        return "Pending"
    return "Scheduled" if scheduled["status"] == "True" else "Unschedulable"


TABLES: dict[kinds.Kind, Table] = {
    kinds.POD_GROUP: (
        (
            NAME,
            Column("Policy", "scheduling_v1alpha2.PodGroupSpec.schedulingPolicy"),
            Column("Workload", "Name of the referenced Workload object"),
            Column("Status", "Status of the PodGroup"),
            AGE,
        ),
        _pod_group,
    ),
}
