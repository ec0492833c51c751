"""The row of a node."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.tables.columns import AGE, NAME, Column, age, condition

NODE_COLUMNS = (
    NAME,
    Column("Status", "The status of the node"),
    Column("Roles", "The roles of the node"),
    AGE,
    Column("Version", "core_v1.NodeSystemInfo.kubeletVersion"),
    Column("Internal-IP", "core_v1.NodeStatus.addresses", wide=True),
    Column("External-IP", "core_v1.NodeStatus.addresses", wide=True),
    Column("OS-Image", "core_v1.NodeSystemInfo.osImage", wide=True),
    Column("Kernel-Version", "core_v1.NodeSystemInfo.kernelVersion", wide=True),
    Column("Container-Runtime", "core_v1.NodeSystemInfo.containerRuntimeVersion", wide=True),
)

ROLE_PREFIX, ROLE_LABEL = "node-role.kubernetes.io/", "kubernetes.io/role"


def node_cells(node: Object, now: datetime) -> list[Any]:
    """The row of a node."""
    status = node["status"]
    info = status.get("nodeInfo", {})
    ready = condition(status.get("conditions", ()), "Ready")
    states = ["Unknown" if not ready else "Ready" if ready["status"] == "True" else "NotReady"]
    if node["spec"].get("unschedulable"):
        states.append("SchedulingDisabled")
    kernel = info.get("kernelVersion") or "<unknown>"
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        node["metadata"]["name"],
        ",".join(states),
        ",".join(_roles(node["metadata"].get("labels", {}))) or "<none>",
        age(node, now),
        info.get("kubeletVersion", ""),
        _address(status, "InternalIP"),
        _address(status, "ExternalIP"),
        info.get("osImage") or "<unknown>",
        kernel,
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


def _roles(labels: dict[str, str]) -> list[str]:
    roles = {key.removeprefix(ROLE_PREFIX) for key in labels if key.startswith(ROLE_PREFIX)}
    return sorted((roles | {labels.get(ROLE_LABEL, "")}) - {""})


def _address(status: Object, kind: str) -> str:
    return next((one["address"] for one in status.get("addresses", ()) if one["type"] == kind), "<none>")
