"""The catalog of built-in resources: the facts about each kind that has rules, and the controllers of some kinds.

To serve one more kind, add it to `api/kinds.py`. If nothing here acts on it, add it to STORED. If it needs rules, add a
line to RESOURCES, and a strategy if the rules need code.
"""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.api import kinds
from bayplan.api.kinds import ALPHA_KINDS, KINDS, Kind
from bayplan.devcluster.apiserver.authorization.aggregation import aggregate
from bayplan.devcluster.apiserver.custom.definitions import finish_definition, follow_definition
from bayplan.devcluster.apiserver.kinds import strategies
from bayplan.devcluster.apiserver.kinds.api_services import update_api_services
from bayplan.devcluster.apiserver.kinds.autoscalers import AutoscalerSchema, validate_v1
from bayplan.devcluster.apiserver.kinds.events import EventSchema
from bayplan.devcluster.apiserver.kinds.stored import stored
from bayplan.devcluster.apiserver.storage.garbage_collector import Finalize
from bayplan.devcluster.apiserver.storage.resource import Resource
from bayplan.devcluster.apiserver.storage.rest_storage import Controller, RestStorage
from bayplan.devcluster.apiserver.storage.selectable_fields import (
    SelectableFields,
    boolean_fields,
    read_path,
    text_fields,
)
from bayplan.devcluster.apiserver.storage.store import Entry

_CORE_EVENT_FIELDS = SelectableFields(
    text_fields(
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "type",
    )
    | {"source": read_path("source", "component")}
)
_EVENT_FIELDS = SelectableFields(
    _CORE_EVENT_FIELDS.readers,
    renamed={
        **{
            name.replace("involvedObject", "regarding"): name for name in _CORE_EVENT_FIELDS.readers if name != "source"
        },
        "reportingController": "reportingComponent",
    },
)
_POD_FIELDS = SelectableFields(
    text_fields(
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    )
    | boolean_fields("spec.hostNetwork")
)
_REPLICAS = SelectableFields(text_fields("status.replicas"))

RESOURCES: tuple[Resource, ...] = (
    Resource(
        kinds.CUSTOM_RESOURCE_DEFINITION,
        strategies.DEFINITION,
        generation=True,
        allow_unconditional_update=False,
        server_writes_status=True,
    ),
    Resource(kinds.POD, strategies.POD, _POD_FIELDS, generation=True, return_deleted_object=True),
    Resource(kinds.NODE, strategies.NODE, SelectableFields(boolean_fields("spec.unschedulable")), keeps_status=True),
    Resource(
        kinds.NAMESPACE,
        strategies.NAMESPACE,
        SelectableFields(text_fields("status.phase")),
        name_rule="label",
        return_deleted_object=True,
    ),
    Resource(
        kinds.SERVICE,
        strategies.SERVICE,
        SelectableFields(text_fields("spec.clusterIP", "spec.type")),
        name_rule="label",
        return_deleted_object=True,
    ),
    Resource(
        kinds.CORE_EVENT,
        strategies.CORE_EVENT,
        _CORE_EVENT_FIELDS,
        name_rule="path",
        allow_create_on_update=True,
    ),
    Resource(
        kinds.EVENT,
        strategies.EVENT,
        _EVENT_FIELDS,
        allow_create_on_update=True,
        storage_kind=kinds.CORE_EVENT,
        own_schema=EventSchema(kinds.EVENT),
    ),
    Resource(kinds.CONFIG_MAP, strategies.CONFIG_MAP),
    Resource(kinds.SECRET, strategies.SECRET, SelectableFields(text_fields("type"))),
    Resource(kinds.LIMIT_RANGE, strategies.LIMIT_RANGE, allow_create_on_update=True),
    Resource(kinds.RESOURCE_QUOTA, strategies.RESOURCE_QUOTA, return_deleted_object=True),
    Resource(kinds.POD_TEMPLATE, strategies.POD_TEMPLATE, generation=True, return_deleted_object=True),
    Resource(kinds.SERVICE_ACCOUNT, return_deleted_object=True),
    Resource(kinds.ROLE, strategies.ROLE, name_rule="path", allow_create_on_update=True),
    Resource(kinds.CLUSTER_ROLE, strategies.CLUSTER_ROLE, name_rule="path", allow_create_on_update=True),
    Resource(kinds.ROLE_BINDING, strategies.ROLE_BINDING, name_rule="path", allow_create_on_update=True),
    Resource(
        kinds.CLUSTER_ROLE_BINDING, strategies.CLUSTER_ROLE_BINDING, name_rule="path", allow_create_on_update=True
    ),
    Resource(kinds.LEASE, strategies.LEASE, allow_create_on_update=True, allow_unconditional_update=False),
    Resource(
        kinds.PRIORITY_CLASS,
        strategies.PRIORITY_CLASS,
        SelectableFields(boolean_fields("globalDefault"), internal=frozenset({"globalDefault"})),
        generation=True,
    ),
    Resource(
        kinds.POD_DISRUPTION_BUDGET,
        strategies.POD_DISRUPTION_BUDGET,
        name_rule="path",
        generation=True,
        allow_unconditional_update=False,
    ),
    Resource(kinds.REPLICA_SET, strategies.REPLICA_SET, _REPLICAS, generation=True),
    Resource(
        kinds.REPLICATION_CONTROLLER,
        strategies.REPLICATION_CONTROLLER,
        _REPLICAS,
        generation=True,
        orphan_dependents=True,
    ),
    Resource(kinds.DEPLOYMENT, strategies.DEPLOYMENT, generation=True),
    Resource(kinds.STATEFUL_SET, strategies.STATEFUL_SET, name_rule="label", generation=True),
    Resource(kinds.DAEMON_SET, strategies.DAEMON_SET, generation=True),
    Resource(kinds.CONTROLLER_REVISION, strategies.CONTROLLER_REVISION),
    Resource(
        kinds.JOB,
        strategies.JOB,
        SelectableFields({"status.successful": read_path("status", "succeeded")}),
        generation=True,
        orphan_dependents=True,
    ),
    Resource(kinds.CRON_JOB, strategies.CRON_JOB, generation=True),
    Resource(kinds.PERSISTENT_VOLUME, strategies.PERSISTENT_VOLUME, return_deleted_object=True),
    Resource(kinds.PERSISTENT_VOLUME_CLAIM, strategies.PERSISTENT_VOLUME_CLAIM, return_deleted_object=True),
    Resource(
        kinds.RUNTIME_CLASS,
        strategies.RUNTIME_CLASS,
        allow_create_on_update=True,
        allow_unconditional_update=False,
    ),
    Resource(kinds.STORAGE_CLASS, strategies.STORAGE_CLASS, return_deleted_object=True),
    Resource(kinds.CSI_NODE, strategies.CSI_NODE, allow_unconditional_update=False, return_deleted_object=True),
    Resource(kinds.CSI_DRIVER, strategies.CSI_DRIVER, allow_unconditional_update=False, return_deleted_object=True),
    Resource(kinds.CSI_STORAGE_CAPACITY, strategies.CSI_STORAGE_CAPACITY, allow_unconditional_update=False),
    Resource(
        kinds.VOLUME_ATTACHMENT,
        strategies.VOLUME_ATTACHMENT,
        allow_unconditional_update=False,
        return_deleted_object=True,
    ),
    Resource(kinds.DEVICE_CLASS, strategies.DEVICE_CLASS, generation=True, return_deleted_object=True),
    Resource(kinds.RESOURCE_CLAIM, strategies.RESOURCE_CLAIM, return_deleted_object=True),
    Resource(kinds.RESOURCE_CLAIM_TEMPLATE, strategies.RESOURCE_CLAIM_TEMPLATE, return_deleted_object=True),
    Resource(
        kinds.RESOURCE_SLICE,
        strategies.RESOURCE_SLICE,
        SelectableFields(text_fields("spec.nodeName", "spec.driver")),
        generation=True,
        return_deleted_object=True,
    ),
)
"""The resources that need rules."""

_NO_WEBHOOK, _NO_POLICY = "webhooks are not called", "admission policies are not evaluated"
_NO_PROXY, _NO_SCALING = "no proxy reads it", "nothing is scaled by it"
_NO_LIMIT, _NO_ALLOCATION = "requests are not queued or limited by it", "addresses are not allocated by it"

STORED: tuple[Resource, ...] = (
    stored(kinds.VALIDATING_WEBHOOK_CONFIGURATION, _NO_WEBHOOK, generation=True),
    stored(kinds.MUTATING_WEBHOOK_CONFIGURATION, _NO_WEBHOOK, generation=True),
    stored(kinds.VALIDATING_ADMISSION_POLICY, _NO_POLICY, generation=True),
    stored(kinds.VALIDATING_ADMISSION_POLICY_BINDING, _NO_POLICY, generation=True),
    stored(kinds.MUTATING_ADMISSION_POLICY, _NO_POLICY, generation=True),
    stored(kinds.MUTATING_ADMISSION_POLICY_BINDING, _NO_POLICY, generation=True),
    stored(kinds.FLOW_SCHEMA, _NO_LIMIT, generation=True),
    stored(kinds.PRIORITY_LEVEL_CONFIGURATION, _NO_LIMIT, generation=True),
    stored(kinds.API_SERVICE, "requests are not passed on to its service", name_rule="path", keeps_status=True),
    stored(
        kinds.CERTIFICATE_SIGNING_REQUEST,
        "nothing signs it",
        name_rule="path",
        fields=SelectableFields(text_fields("spec.signerName")),
    ),
    stored(kinds.ENDPOINTS, _NO_PROXY, allow_create_on_update=True),
    stored(kinds.ENDPOINT_SLICE, _NO_PROXY, generation=True),
    stored(kinds.INGRESS, "nothing routes requests by it", generation=True),
    stored(kinds.INGRESS_CLASS, "nothing routes requests by it", generation=True),
    stored(kinds.NETWORK_POLICY, "traffic is not filtered", generation=True),
    stored(kinds.IP_ADDRESS, _NO_ALLOCATION, name_rule="path"),
    stored(kinds.SERVICE_CIDR, _NO_ALLOCATION),
    stored(kinds.HORIZONTAL_POD_AUTOSCALER, _NO_SCALING),
    stored(
        kinds.HORIZONTAL_POD_AUTOSCALER_V1,
        _NO_SCALING,
        validate=validate_v1,
        storage_kind=kinds.HORIZONTAL_POD_AUTOSCALER,
        own_schema=AutoscalerSchema(kinds.HORIZONTAL_POD_AUTOSCALER_V1),
    ),
    stored(kinds.VOLUME_ATTRIBUTES_CLASS, "volumes are not modified"),
)
"""The resources that nothing in the embedded cluster acts on."""

ALPHA_RESOURCES: tuple[Resource, ...] = (
    Resource(kinds.WORKLOAD, strategies.WORKLOAD),
    Resource(kinds.POD_GROUP, strategies.POD_GROUP, generation=True),
)
"""The same for kinds that kube-apiserver serves only with a feature gate."""


def _follow_definition(storage: RestStorage, resource: Resource, entry: Entry) -> None:
    revision = storage.served.revision
    follow_definition(storage, resource, entry)
    if storage.served.revision != revision:
        update_api_services(storage)


CONTROLLERS: Mapping[str, Controller] = {
    kinds.CUSTOM_RESOURCE_DEFINITION.resource: _follow_definition,
    kinds.CLUSTER_ROLE.resource: aggregate,
}
"""By collection: called after every write and removal."""

FINALIZE: Mapping[str, Finalize] = {kinds.CUSTOM_RESOURCE_DEFINITION.resource: finish_definition}
"""By collection: called while an object is being deleted."""


def catalog(*, alpha: bool = False) -> list[Resource]:
    """All built-in resources: every kind in the table of kinds, with `alpha` also those behind feature gates."""
    served: dict[Kind, Resource] = {kind: Resource(kind) for kind in (*KINDS, *(ALPHA_KINDS if alpha else ()))}
    served |= {resource.kind: resource for resource in (*RESOURCES, *STORED, *(ALPHA_RESOURCES if alpha else ()))}
    return list(served.values())
