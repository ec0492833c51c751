"""The rows of quotas, autoscalers, runtime classes, revisions, certificate requests and API services."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from bayplan.api import kinds
from bayplan.api.durations import human
from bayplan.devcluster.apiserver.autoscaler_conversion import to_v2
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.tables.columns import (
    AGE,
    NAME,
    Column,
    Table,
    age,
    condition,
    label_text,
    names_and_images,
)

METRICS_SHOWN = 2


def _quota(quota: Object, now: datetime) -> list[Any]:
    status = quota.get("status", {})
    hard, used = status.get("hard") or {}, status.get("used") or {}
    requests: list[str] = []
    limits: list[str] = []
    for name in sorted(hard):
        column = limits if name.startswith("limits.") else requests
        column.append(f"{name}: {used.get(name, '0')}/{hard[name]}")
    return [quota["metadata"]["name"], ", ".join(requests), ", ".join(limits), age(quota, now)]


def _autoscaler(autoscaler: Object, now: datetime) -> list[Any]:
    spec, status = autoscaler["spec"], autoscaler.get("status", {})
    target = spec["scaleTargetRef"]
    return [
        autoscaler["metadata"]["name"],
        f"{target['kind']}/{target['name']}",
        _metrics(spec.get("metrics") or [], status.get("currentMetrics") or []),
        str(spec.get("minReplicas", "<unset>")),
        spec["maxReplicas"],
        status.get("currentReplicas", 0),
        age(autoscaler, now),
    ]


def _autoscaler_v1(autoscaler: Object, now: datetime) -> list[Any]:
    return _autoscaler(to_v2(autoscaler), now)


def _metrics(specs: list[Object], statuses: list[Object]) -> str:
    shown = [_metric(spec, statuses[index] if index < len(statuses) else {}) for index, spec in enumerate(specs)]
    more = f" + {len(shown) - METRICS_SHOWN} more..." if len(shown) > METRICS_SHOWN else ""
    return f"{', '.join(shown[:METRICS_SHOWN])}{more}" or "<none>"


def _metric(spec: Object, status: Object) -> str:
    field = spec["type"][0].lower() + spec["type"][1:]
    source = spec.get(field)
    if source is None:
        return "<unknown type>"
    target, current = source["target"], status.get(field, {}).get("current", {})
    if field in {"resource", "containerResource"}:
        prefix = f"{source['name']}: "
        if "averageValue" in target:
            return f"{prefix}{current.get('averageValue', '<unknown>')}/{target['averageValue']}"
        wanted, found = (each.get("averageUtilization") for each in (target, current))
        shown = "<auto>" if wanted is None else f"{wanted}%"
        return f"{prefix}{'<unknown>' if found is None else f'{found}%'}/{shown}"
    if field == "pods" or "averageValue" not in target:
        key = "averageValue" if field == "pods" else "value"
        return f"{current.get(key, '<unknown>')}/{target.get(key, '')}"
    return f"{current.get('averageValue', '<unknown>')}/{target['averageValue']} (avg)"


def _runtime_class(runtime_class: Object, now: datetime) -> list[Any]:
    return [runtime_class["metadata"]["name"], runtime_class["handler"], age(runtime_class, now)]


def _revision(revision: Object, now: datetime) -> list[Any]:
    metadata = revision["metadata"]
    owner = next((one for one in metadata.get("ownerReferences") or () if one.get("controller")), None)
    controller = "<none>"
    if owner is not None:
        group = owner["apiVersion"].rpartition("/")[0]
        controller = f"{owner['kind'].lower()}{f'.{group}' if group else ''}/{owner['name']}"
    return [metadata["name"], controller, revision.get("revision", 0), age(revision, now)]


def _pod_template(pod_template: Object, _now: datetime) -> list[Any]:
    template = pod_template["template"]
    labels = label_text(template["metadata"].get("labels"))
    return [pod_template["metadata"]["name"], *names_and_images(template["spec"]), labels]


def _certificate_request(request: Object, now: datetime) -> list[Any]:
    spec, status = request["spec"], request.get("status", {})
    conditions = status.get("conditions") or ()
    decision = "Approved" if condition(conditions, "Approved") else "Pending"
    state = "Denied" if condition(conditions, "Denied") else decision
    state += ",Failed" if condition(conditions, "Failed") else ""
    state += ",Issued" if status.get("certificate") else ""
    seconds = spec.get("expirationSeconds")
    return [
        request["metadata"]["name"],
        age(request, now),
        spec.get("signerName") or "<none>",
        spec.get("username", ""),
        "<none>" if seconds is None else human(seconds),
        state,
    ]


def _api_service(service: Object, now: datetime) -> list[Any]:
    reference = service["spec"].get("service")
    target = "Local" if reference is None else f"{reference.get('namespace', '')}/{reference.get('name', '')}"
    available = condition(service.get("status", {}).get("conditions") or (), "Available") or {"status": "Unknown"}
    status, reason = available["status"], available.get("reason")
    shown = f"{status} ({reason})" if status != "True" and reason else status
    return [service["metadata"]["name"], target, shown, age(service, now)]


_AUTOSCALER_COLUMNS = (
    NAME,
    Column("Reference", "autoscaling_v2.HorizontalPodAutoscalerSpec.scaleTargetRef"),
    Column("Targets", "autoscaling_v2.HorizontalPodAutoscalerSpec.metrics"),
    Column("MinPods", "autoscaling_v2.HorizontalPodAutoscalerSpec.minReplicas"),
    Column("MaxPods", "autoscaling_v2.HorizontalPodAutoscalerSpec.maxReplicas"),
    Column("Replicas", "autoscaling_v2.HorizontalPodAutoscalerStatus.currentReplicas"),
    AGE,
)

TABLES: dict[kinds.Kind, Table] = {
    kinds.RESOURCE_QUOTA: (
        (
            NAME,
            Column("Request", "Request represents a minimum amount of cpu/memory that a container may consume."),
            Column(
                "Limit",
                "Limits control the maximum amount of cpu/memory that a container may use independent of contention on "
                "the node.",
            ),
            AGE,
        ),
        _quota,
    ),
    kinds.HORIZONTAL_POD_AUTOSCALER: (_AUTOSCALER_COLUMNS, _autoscaler),
    kinds.HORIZONTAL_POD_AUTOSCALER_V1: (_AUTOSCALER_COLUMNS, _autoscaler_v1),
    kinds.RUNTIME_CLASS: ((NAME, Column("Handler", "node_v1.RuntimeClass.handler"), AGE), _runtime_class),
    kinds.CONTROLLER_REVISION: (
        (
            NAME,
            Column("Controller", "Controller of the object"),
            Column("Revision", "apps_v1.ControllerRevision.revision"),
            AGE,
        ),
        _revision,
    ),
    kinds.POD_TEMPLATE: (
        (
            NAME,
            Column("Containers", "Names of each container in the template."),
            Column("Images", "Images referenced by each container in the template."),
            Column("Pod Labels", "The labels for the pod template."),
        ),
        _pod_template,
    ),
    kinds.CERTIFICATE_SIGNING_REQUEST: (
        (
            NAME,
            AGE,
            Column("SignerName", "certificates_v1.CertificateSigningRequestSpec.signerName"),
            Column("Requestor", "certificates_v1.CertificateSigningRequestSpec.request"),
            Column("RequestedDuration", "certificates_v1.CertificateSigningRequestSpec.expirationSeconds"),
            Column("Condition", "certificates_v1.CertificateSigningRequestStatus.conditions"),
        ),
        _certificate_request,
    ),
    kinds.API_SERVICE: (
        (
            NAME,
            Column("Service", "The reference to the service that hosts this API endpoint."),
            Column("Available", "Whether this service is available."),
            AGE,
        ),
        _api_service,
    ),
}
