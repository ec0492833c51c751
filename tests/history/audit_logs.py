"""Audit logs for the tests: the same story as kube-apiserver logs it, at two levels and in every cloud's shape."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tests.history.small_histories import at, node, pod

Event = dict[str, Any]


def event(
    seconds: float,
    verb: str,
    resource: str,
    name: str = "",
    *,
    subresource: str = "",
    request: Any = None,
    response: Any = None,
    code: int = 200,
    group: str = "",
) -> Event:
    namespaced = resource not in {"nodes", "priorityclasses"}
    ref = {"resource": resource, "apiVersion": "v1", "name": name, "apiGroup": group, "subresource": subresource}
    if namespaced:
        ref["namespace"] = "default"
    found = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "RequestResponse" if response is not None else "Request",
        "auditID": f"{seconds}-{verb}-{resource}-{name}-{subresource}",
        "stage": "ResponseComplete",
        "requestURI": "/",
        "verb": verb,
        "objectRef": {key: value for key, value in ref.items() if value},
        "responseStatus": {"code": code},
        "requestReceivedTimestamp": at(seconds).isoformat(),
        "stageTimestamp": at(seconds).isoformat(),
    }
    if request is not None:
        found["requestObject"] = request
    if response is not None:
        found["responseObject"] = response
    return found


def whole(kind: str, obj: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, **obj}


def stored(name: str, created: float, **options: Any) -> dict[str, Any]:
    found = pod(name, **options)
    found["metadata"]["creationTimestamp"] = at(created).isoformat()
    return whole("Pod", found)


def binding(name: str, to: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": {"kind": "Node", "name": to}}


def story(*, responses: bool = True) -> list[Event]:
    """Node a; a pod that is created, bound, and succeeds; one that is bound and deleted with a grace period."""

    def answered(obj: Any) -> Any:
        return obj if responses else None

    sent = stored("done-abcde", 10)
    if not responses:
        sent["metadata"] = {"generateName": "done-", "labels": {"app": "web"}}
    return [
        event(1, "create", "nodes", "a", request=whole("Node", node("a")), response=answered(whole("Node", node("a")))),
        event(
            10,
            "create",
            "pods",
            "done-abcde" if responses else "",
            request=sent,
            response=answered(stored("done-abcde", 10)),
        ),
        event(
            11,
            "create",
            "pods",
            "done-abcde",
            subresource="binding",
            code=201,
            request=binding("done-abcde", "a"),
            response=answered({"kind": "Status", "metadata": {}, "status": "Success"}),
        ),
        event(12, "create", "pods", "gone", request=stored("gone", 12), response=answered(stored("gone", 12))),
        event(13, "create", "pods", "gone", subresource="binding", request=binding("gone", "a"), code=201),
        event(14, "create", "pods", "gone", subresource="binding", request=binding("gone", "b"), code=409),
        event(
            60,
            "patch",
            "pods",
            "done-abcde",
            subresource="status",
            request={"status": {"phase": "Succeeded"}},
            response=answered(stored("done-abcde", 10, on="a", phase="Succeeded")),
        ),
        event(
            70,
            "delete",
            "pods",
            "gone",
            request={"kind": "DeleteOptions"},
            response=answered(_terminating(stored("gone", 12, on="a", phase="Running"))),
        ),
        event(
            75,
            "delete",
            "pods",
            "gone",
            request={"kind": "DeleteOptions", "gracePeriodSeconds": 0},
            response=answered(stored("gone", 12, on="a", phase="Running")),
        ),
    ]


def _terminating(obj: dict[str, Any]) -> dict[str, Any]:
    obj["metadata"] |= {"deletionTimestamp": at(100).isoformat(), "deletionGracePeriodSeconds": 30}
    return obj


ROWS = [
    ("node_added", "a", 1, "", ""),
    ("pod_arrived", "done-abcde", 10, "", ""),
    ("pod_bound", "done-abcde", 11, "a", ""),
    ("pod_arrived", "gone", 12, "", ""),
    ("pod_bound", "gone", 13, "a", ""),
    ("pod_ended", "done-abcde", 60, "", "Succeeded"),
    ("pod_ended", "gone", 75, "", "Deleted"),
]
"""What the story is: event, name, seconds, node, reason."""


def lines(events: Sequence[Event]) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in events)


def _eks_s3(events: Sequence[Event]) -> bytes:
    return b"".join(b"2026-03-02T08:00:00.000Z " + json.dumps(each).encode() + b"\n" for each in events)


def _eks_filter_log_events(events: Sequence[Event]) -> bytes:
    found = [{"logStreamName": "kube-apiserver-audit-1", "timestamp": 1, "message": json.dumps(e)} for e in events]
    return json.dumps({"events": found, "searchedLogStreams": []}, indent=4).encode()


def _eks_subscription(events: Sequence[Event]) -> bytes:
    found = [{"id": "1", "timestamp": 1, "message": json.dumps(each)} for each in events]
    return json.dumps({"messageType": "DATA_MESSAGE", "logGroup": "/aws/eks/c/cluster", "logEvents": found}).encode()


def _eks_insights(events: Sequence[Event]) -> bytes:
    found = [
        [{"field": "@timestamp", "value": "2026-03-02"}, {"field": "@message", "value": json.dumps(each)}]
        for each in events
    ]
    return json.dumps({"results": found, "status": "Complete"}).encode()


def _aks_storage(events: Sequence[Event]) -> bytes:
    found = [
        {
            "time": "2026-03-02T08:00:00Z",
            "category": "kube-audit",
            "operationName": "Microsoft.ContainerService/managedClusters/diagnosticLogs/Read",
            "properties": {"log": json.dumps(each), "stream": "stdout", "pod": "kube-apiserver-1"},
        }
        for each in events
    ]
    return lines(found)


def _aks_event_hub(events: Sequence[Event]) -> bytes:
    return json.dumps({"records": [json.loads(line) for line in _aks_storage(events).splitlines()]}).encode()


def _aks_columns(events: Sequence[Event]) -> bytes:
    return lines(
        [
            {
                "TimeGenerated": each["stageTimestamp"],
                "AuditId": each["auditID"],
                "Stage": each["stage"],
                "Verb": each["verb"],
                "RequestUri": each["requestURI"],
                "ObjectRef": json.dumps(each["objectRef"]),
                "RequestObject": each.get("requestObject"),
                "ResponseObject": json.dumps(each["responseObject"]) if "responseObject" in each else None,
                "ResponseStatus": each["responseStatus"],
                "StageReceivedTime": each["stageTimestamp"],
            }
            for each in events
        ]
    )


def _gke_entries(events: Sequence[Event]) -> Iterator[Event]:
    for each in events:
        ref = each["objectRef"]
        namespace = f"namespaces/{ref['namespace']}/" if "namespace" in ref else ""
        sub = ref.get("subresource", "")
        path = "/".join(filter(None, (ref["resource"], ref.get("name"), sub)))
        method = ".".join(filter(None, ("io.k8s.core.v1", ref["resource"], sub, each["verb"])))
        payload = {
            "@type": "type.googleapis.com/google.cloud.audit.AuditLog",
            "methodName": method,
            "resourceName": f"core/v1/{namespace}{path}",
            "status": {} if each["responseStatus"]["code"] < 300 else {"code": 6, "message": "ALREADY_EXISTS"},
        }
        for field, source in (("request", "requestObject"), ("response", "responseObject")):
            if source in each:
                payload[field] = {"@type": "core.k8s.io/v1.Pod", **each[source]}
        yield {
            "insertId": each["auditID"],
            "timestamp": each["stageTimestamp"],
            "resource": {"type": "k8s_cluster"},
            "protoPayload": payload,
        }


def _gke_command(events: Sequence[Event]) -> bytes:
    """`gcloud logging read --format=json`, which begins with the newest entry."""
    return json.dumps(list(_gke_entries(events))[::-1], indent=2).encode()


SHAPES: dict[str, Callable[[Sequence[Event]], bytes]] = {
    "kube-apiserver": lines,
    "a webhook's list": lambda events: json.dumps({"kind": "EventList", "items": list(events)}).encode(),
    "EKS, exported to S3": _eks_s3,
    "EKS, filter-log-events": _eks_filter_log_events,
    "EKS, a subscription": _eks_subscription,
    "EKS, Logs Insights": _eks_insights,
    "AKS, a storage account": _aks_storage,
    "AKS, an event hub": _aks_event_hub,
    "AKS, the table AKSAudit": _aks_columns,
    "GKE, a bucket": lambda events: lines(list(_gke_entries(events))),
    "GKE, gcloud logging read": _gke_command,
    "a log shipper": lambda events: lines([{"log": json.dumps(each), "stream": "stdout"} for each in events]),
}
