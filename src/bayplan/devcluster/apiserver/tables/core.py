"""The rows of namespaces, services, events, leases and configuration."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from bayplan.api import kinds
from bayplan.devcluster.apiserver.event_conversion import to_core
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.tables.columns import AGE, NAME, Cells, Column, age, label_text, since


def _namespace(namespace: Object, now: datetime) -> list[Any]:
    return [namespace["metadata"]["name"], namespace["status"].get("phase", ""), age(namespace, now)]


def _service(service: Object, now: datetime) -> list[Any]:
    spec = service["spec"]
    ports = [
        f"{port['port']}{':' + str(port['nodePort']) if port.get('nodePort') else ''}/{port['protocol']}"
        for port in spec.get("ports", ())
    ]
    return [
        service["metadata"]["name"],
        spec["type"],
        spec.get("clusterIP") or "<none>",
        _external_address(service),
        ",".join(ports) or "<none>",
        age(service, now),
        label_text(spec.get("selector")),
    ]


def _external_address(service: Object) -> str:
    spec = service["spec"]
    addresses = list(spec.get("externalIPs", ()))
    if spec["type"] == "ExternalName":
        return str(spec.get("externalName", ""))
    if spec["type"] == "LoadBalancer":
        ingress = service["status"].get("loadBalancer", {}).get("ingress", ())
        addresses = [one.get("ip") or one.get("hostname", "") for one in ingress] + addresses
        return ",".join(addresses) or "<pending>"
    return ",".join(addresses) or "<none>"


def _event(event: Object, now: datetime) -> list[Any]:
    first = since(event.get("firstTimestamp") or event.get("eventTime"), now)
    last = since(event["lastTimestamp"], now) if event.get("lastTimestamp") else first
    count = event.get("count") or 1
    if "series" in event:
        last, count = since(event["series"].get("lastObservedTime"), now), event["series"].get("count", 0)
    about, source = event["involvedObject"], event.get("source", {})
    component = source.get("component") or event.get("reportingComponent", "")
    host = source.get("host") or event.get("reportingInstance", "")
    kind = about.get("kind", "").lower()
    return [
        last,
        event.get("type", ""),
        event.get("reason", ""),
        f"{kind}/{about['name']}" if about.get("name") else kind,
        about.get("fieldPath", ""),
        f"{component}, {host}" if host else component,
        event.get("message", "").strip(),
        first,
        str(count),
        event["metadata"]["name"],
    ]


def _lease(lease: Object, now: datetime) -> list[Any]:
    return [lease["metadata"]["name"], lease["spec"].get("holderIdentity", ""), age(lease, now)]


def _config_map(config_map: Object, now: datetime) -> list[Any]:
    entries = len(config_map.get("data", {})) + len(config_map.get("binaryData", {}))
    return [config_map["metadata"]["name"], entries, age(config_map, now)]


def _secret(secret: Object, now: datetime) -> list[Any]:
    return [secret["metadata"]["name"], secret.get("type", ""), len(secret.get("data", {})), age(secret, now)]


_EVENT_COLUMNS = (
    Column("Last Seen", "core_v1.Event.lastTimestamp"),
    Column("Type", "core_v1.Event.type"),
    Column("Reason", "core_v1.Event.reason"),
    Column("Object", "core_v1.Event.involvedObject"),
    Column("Subobject", "core_v1.ObjectReference.fieldPath", wide=True),
    Column("Source", "core_v1.Event.source", wide=True),
    Column("Message", "core_v1.Event.message"),
    Column("First Seen", "core_v1.Event.firstTimestamp", wide=True),
    Column("Count", "core_v1.Event.count", wide=True),
    Column("Name", "meta_v1.ObjectMeta.name", wide=True, format="name"),
)

TABLES: dict[kinds.Kind, tuple[tuple[Column, ...], Cells]] = {
    kinds.NAMESPACE: ((NAME, Column("Status", "The status of the namespace"), AGE), _namespace),
    kinds.SERVICE: (
        (
            NAME,
            Column("Type", "core_v1.ServiceSpec.type"),
            Column("Cluster-IP", "core_v1.ServiceSpec.clusterIP"),
            Column("External-IP", "core_v1.ServiceSpec.externalIPs"),
            Column("Port(s)", "core_v1.ServiceSpec.ports"),
            AGE,
            Column("Selector", "core_v1.ServiceSpec.selector", wide=True),
        ),
        _service,
    ),
    kinds.CORE_EVENT: (_EVENT_COLUMNS, _event),
    kinds.EVENT: (_EVENT_COLUMNS, lambda event, now: _event(to_core(event), now)),
    kinds.LEASE: ((NAME, Column("Holder", "coordination_v1.LeaseSpec.holderIdentity"), AGE), _lease),
    kinds.CONFIG_MAP: ((NAME, Column("Data", "core_v1.ConfigMap.data"), AGE), _config_map),
    kinds.SECRET: (
        (NAME, Column("Type", "core_v1.Secret.type"), Column("Data", "core_v1.Secret.data"), AGE),
        _secret,
    ),
}
