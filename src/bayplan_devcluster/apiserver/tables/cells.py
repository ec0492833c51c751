"""How cells of tables show values. `tables.json` and the types of printer columns name these functions.

Mirrors Kubernetes' pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from bayplan.core.api.durations import human
from bayplan_devcluster.apiserver.scalars import go_float
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.tables.pods import condition, pod_ready, pod_restarts, pod_status, since_text

Cell = Callable[[Any, datetime], Any]
"""(value, current time) -> the cell; None or "" to show what the column shows without a value."""

_SHOWN = 3
"""How many addresses, ports or hosts a cell lists."""
_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_ROLE_PREFIX, _ROLE_LABEL = "node-role.kubernetes.io/", "kubernetes.io/role"


def _json_text(value: Any, _now: datetime) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return go_float(value)
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _date(value: Any, now: datetime) -> Any:
    if not isinstance(value, str):
        return None
    try:
        return since_text(value, now)
    except (ValueError, TypeError):  # not a date, or one without a time zone
        return "<invalid>"


def _selector(value: Object, _now: datetime) -> str:
    terms = [f"{key}={value}" for key, value in sorted(value.get("matchLabels", {}).items())]
    for one in value.get("matchExpressions", ()):
        values = ",".join(one.get("values", ()))
        forms = {"In": f"{one['key']} in ({values})", "NotIn": f"{one['key']} notin ({values})", "Exists": one["key"]}
        terms.append(forms.get(one["operator"], f"!{one['key']}"))
    return ",".join(terms)


def _namespaced_name(value: Object, _now: datetime) -> str:
    return f"{value.get('namespace', '')}/{value.get('name', '')}"


def _typed_reference(value: Object, _now: datetime) -> str:
    group = f".{value['apiGroup']}" if value.get("apiGroup") else ""
    return f"{value['kind']}{group}/{value['name']}"


def _phase(obj: Object, _now: datetime) -> str:
    return "Terminating" if "deletionTimestamp" in obj["metadata"] else str(obj["status"].get("phase", ""))


def _marked_default(metadata: Object, annotation: str) -> str:
    default = metadata.get("annotations", {}).get(annotation) == "true"
    return f"{metadata['name']} (default)" if default else str(metadata["name"])


def _readiness_gates(pod: Object, _now: datetime) -> str:
    gates = [one["conditionType"] for one in pod["spec"].get("readinessGates", ())]
    conditions = pod["status"].get("conditions", ())
    met = [gate for gate in gates if condition(conditions, gate).get("status") == "True"]
    return f"{len(met)}/{len(gates)}" if gates else ""


def _job_state(job: Object, _now: datetime) -> str:
    conditions = job.get("status", {}).get("conditions", ())

    def has(kind: str) -> bool:
        return condition(conditions, kind).get("status") == "True"

    if has("Complete") or has("Failed"):
        return "Complete" if has("Complete") else "Failed"
    if "deletionTimestamp" in job["metadata"]:
        return "Terminating"
    return next((kind for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if has(kind)), "Running")


def _completions(job: Object, _now: datetime) -> str:
    wanted, parallel = job["spec"].get("completions"), job["spec"].get("parallelism", 0)
    done = f"{job.get('status', {}).get('succeeded', 0)}/{1 if wanted is None else wanted}"
    return f"{done} of {parallel}" if wanted is None and parallel > 1 else done


def _job_duration(status: Object, now: datetime) -> str:
    if "startTime" not in status:
        return ""
    end = datetime.fromisoformat(status["completionTime"]) if "completionTime" in status else now
    return since_text(status["startTime"], end)


def _controller(owner: Object, _now: datetime) -> str:
    group = owner["apiVersion"].rpartition("/")[0]
    return f"{owner['kind'].lower()}{f'.{group}' if group else ''}/{owner['name']}"


def _group_status(conditions: Sequence[Object], _now: datetime) -> str:
    if disrupted := condition(conditions, "DisruptionTarget"):
        return str(disrupted["reason"])
    scheduled = condition(conditions, "PodGroupInitiallyScheduled") or condition(conditions, "PodGroupScheduled")
    if not scheduled:
        return "Pending"
    return "Scheduled" if scheduled["status"] == "True" else "Unschedulable"


def _group_workload(spec: Object, _now: datetime) -> str:
    reference = spec.get("workloadRef") or (spec.get("podGroupTemplateRef") or {}).get("workload") or {}
    return str(reference.get("workloadName", ""))


def _node_status(node: Object, _now: datetime) -> str:
    ready = condition(node["status"].get("conditions", ()), "Ready")
    state = "Unknown" if not ready else "Ready" if ready["status"] == "True" else "NotReady"
    return f"{state},SchedulingDisabled" if node["spec"].get("unschedulable") else state


def _node_roles(labels: dict[str, str], _now: datetime) -> str:
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    return ",".join(sorted((roles | {labels.get(_ROLE_LABEL, "")}) - {""}))


def _kernel(info: Object, _now: datetime) -> str:
    version = info.get("kernelVersion") or "<unknown>"
    return f"{version} ({info['architecture']})" if info.get("architecture") else version


def _external_address(service: Object, _now: datetime) -> str:
    spec = service["spec"]
    addresses = list(spec.get("externalIPs", ()))
    if spec["type"] == "ExternalName":
        return str(spec.get("externalName", ""))
    if spec["type"] == "LoadBalancer":
        ingress = service["status"].get("loadBalancer", {}).get("ingress", ())
        addresses = [one.get("ip") or one.get("hostname", "") for one in ingress] + addresses
        return ",".join(addresses) or "<pending>"
    return ",".join(addresses)


def _first_seen(event: Object, now: datetime) -> str:
    return since_text(event.get("firstTimestamp") or event.get("eventTime"), now)


def _last_seen(event: Object, now: datetime) -> str:
    if "series" in event:
        return since_text(event["series"].get("lastObservedTime"), now)
    return since_text(event["lastTimestamp"], now) if event.get("lastTimestamp") else _first_seen(event, now)


def _about(reference: Object, _now: datetime) -> str:
    kind = reference.get("kind", "").lower()
    return f"{kind}/{reference['name']}" if reference.get("name") else kind


def _source(event: Object, _now: datetime) -> str:
    given = event.get("source", {})
    component = given.get("component") or event.get("reportingComponent", "")
    host = given.get("host") or event.get("reportingInstance", "")
    return f"{component}, {host}" if host else component


def _quota(status: Object, *, limits: bool) -> str:
    hard, used = status.get("hard") or {}, status.get("used") or {}
    listed = [name for name in sorted(hard) if name.startswith("limits.") is limits]
    return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in listed)


def _modes(given: Sequence[str], _now: datetime) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in given)


def _claim_state(claim: Object, _now: datetime) -> str:
    status = claim.get("status", {})
    states = ["deleted"] if "deletionTimestamp" in claim["metadata"] else []
    states.append("allocated" if "allocation" in status else "pending")
    return ",".join([*states, "reserved"] if status.get("reservedFor") else states)


def _listed(values: Sequence[Any], _now: datetime) -> str:
    more = f" + {len(values) - _SHOWN} more..." if len(values) > _SHOWN else ""
    return f"{','.join(map(str, values[:_SHOWN]))}{more}"


CELLS: dict[str, Cell] = {
    "": lambda value, _: value,
    "text": lambda value, _: str(value),
    "json_text": _json_text,
    "integer": lambda value, _: int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None,
    "number": lambda value, _: value if isinstance(value, (int, float)) and not isinstance(value, bool) else None,
    "boolean": lambda value, _: value if isinstance(value, bool) else None,
    "date": _date,
    "since": since_text,
    "seconds": lambda value, _: human(value),
    "count": lambda values, _: len(values),
    "joined": lambda values, _: ",".join(values),
    "all": lambda found, _: ",".join(map(str, found)),
    "listed": _listed,
    "stripped": lambda value, _: value.strip(),
    "labels": lambda value, _: ",".join(f"{key}={value}" for key, value in sorted(value.items())),
    "selector": _selector,
    "reference": lambda value, _: f"{value['kind']}/{value['name']}",
    "namespaced_name": _namespaced_name,
    "typed_reference": _typed_reference,
    "phase": _phase,
    "readiness_gates": _readiness_gates,
    "ready_replicas": lambda workload, _: (
        f"{workload.get('status', {}).get('readyReplicas', 0)}/{workload['spec'].get('replicas', 0)}"
    ),
    "job_state": _job_state,
    "completions": _completions,
    "job_duration": _job_duration,
    "controller": _controller,
    "group_policy": lambda policy, _: "Basic" if policy.get("gang") is None else "Gang",
    "group_status": _group_status,
    "group_workload": _group_workload,
    "node_status": _node_status,
    "node_roles": _node_roles,
    "kernel": _kernel,
    "service_ports": lambda ports, _: ",".join(
        f"{port['port']}{':' + str(port['nodePort']) if port.get('nodePort') else ''}/{port['protocol']}"
        for port in ports
    ),
    "external_address": _external_address,
    "first_seen": _first_seen,
    "last_seen": _last_seen,
    "event_count": lambda event, _: str(
        event["series"].get("count", 0) if "series" in event else event.get("count") or 1
    ),
    "about": _about,
    "source": _source,
    "config_entries": lambda config_map, _: len(config_map.get("data", {})) + len(config_map.get("binaryData", {})),
    "quota_requests": lambda status, _: _quota(status, limits=False),
    "quota_limits": lambda status, _: _quota(status, limits=True),
    "modes": _modes,
    "claim_capacity": lambda claim, _: (
        str(claim["status"].get("capacity", {}).get("storage", "0")) if claim["spec"].get("volumeName") else ""
    ),
    "claim_modes": lambda claim, now: (
        _modes(claim["status"].get("accessModes", ()), now) if claim["spec"].get("volumeName") else ""
    ),
    "storage_class_name": lambda metadata, _: _marked_default(metadata, "storageclass.kubernetes.io/is-default-class"),
    "claim_state": _claim_state,
    "slice_node": lambda spec, _: spec.get("nodeName") or ("<all>" if spec.get("allNodes") else ""),
    "users": lambda subjects, _: ", ".join(one["name"] for one in subjects if one["kind"] == "User"),
    "groups": lambda subjects, _: ", ".join(one["name"] for one in subjects if one["kind"] == "Group"),
    "service_accounts": lambda subjects, now: ", ".join(
        _namespaced_name(one, now) for one in subjects if one["kind"] == "ServiceAccount"
    ),
    "ingress_ports": lambda _tls, _: "80, 443",
    "ingress_class_name": lambda metadata, _: _marked_default(metadata, "ingressclass.kubernetes.io/is-default-class"),
    "pod_ready": pod_ready,
    "pod_restarts": pod_restarts,
    "pod_status": pod_status,
}
"""The functions by the names that columns have for them."""
