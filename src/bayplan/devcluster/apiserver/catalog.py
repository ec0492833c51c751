"""Every resource that the server serves, with its rules."""

from __future__ import annotations

from dataclasses import replace

from bayplan.api import kinds
from bayplan.api.kinds import ALPHA_KINDS, KINDS, Kind
from bayplan.devcluster.apiserver import admission, events, pods
from bayplan.devcluster.apiserver.authorization.aggregation import aggregate
from bayplan.devcluster.apiserver.custom.definitions import DEFINITIONS
from bayplan.devcluster.apiserver.defaults import core as core_defaults
from bayplan.devcluster.apiserver.defaults import workloads as workload_defaults
from bayplan.devcluster.apiserver.defaults.pods import default_pod
from bayplan.devcluster.apiserver.defaults.rbac import default_binding
from bayplan.devcluster.apiserver.defaults.scheduling import default_pod_group
from bayplan.devcluster.apiserver.resources import Resource, boolean, path
from bayplan.devcluster.apiserver.subresources import SUBRESOURCES
from bayplan.devcluster.apiserver.validation import core, devices, rbac, scheduling, workloads
from bayplan.devcluster.apiserver.validation.pod_updates import validate_pod_update
from bayplan.devcluster.apiserver.validation.pods import validate_new_pod, validate_pod

EVENT_FIELDS = {
    "involvedObject.kind": path("involvedObject", "kind"),
    "involvedObject.namespace": path("involvedObject", "namespace"),
    "involvedObject.name": path("involvedObject", "name"),
    "involvedObject.uid": path("involvedObject", "uid"),
    "involvedObject.apiVersion": path("involvedObject", "apiVersion"),
    "involvedObject.resourceVersion": path("involvedObject", "resourceVersion"),
    "involvedObject.fieldPath": path("involvedObject", "fieldPath"),
    "reason": path("reason"),
    "reportingComponent": path("reportingComponent"),
    "source": path("source", "component"),
    "type": path("type"),
}
NEW_EVENT_FIELDS = {
    **{name.replace("involvedObject", "regarding"): name for name in EVENT_FIELDS if name != "source"},
    "reportingController": "reportingComponent",
}

RULES: tuple[Resource, ...] = (
    DEFINITIONS,
    Resource(
        kinds.POD,
        default=default_pod,
        admit=admission.admit_pod,
        prepare=pods.prepare_pod,
        prepare_status=pods.prepare_pod_status,
        prepare_update=admission.readmit_pod,
        validate=validate_pod,
        validate_new=validate_new_pod,
        validate_update=validate_pod_update,
        grace=pods.grace,
        generation=True,
        returns_deleted=True,
        fields={
            "spec.nodeName": path("spec", "nodeName"),
            "spec.restartPolicy": path("spec", "restartPolicy"),
            "spec.schedulerName": path("spec", "schedulerName"),
            "spec.serviceAccountName": path("spec", "serviceAccountName"),
            "spec.hostNetwork": boolean("spec", "hostNetwork"),
            "status.phase": path("status", "phase"),
            "status.podIP": path("status", "podIP"),
            "status.nominatedNodeName": path("status", "nominatedNodeName"),
        },
    ),
    Resource(
        kinds.NODE,
        default=core_defaults.default_node,
        admit=admission.admit_node,
        validate=core.validate_node,
        validate_update=core.validate_node_update,
        keeps_status=True,
        fields={"spec.unschedulable": boolean("spec", "unschedulable")},
    ),
    Resource(
        kinds.NAMESPACE,
        default=core_defaults.default_namespace,
        prepare=core_defaults.prepare_namespace,
        name_rule="label",
        returns_deleted=True,
        fields={"status.phase": path("status", "phase")},
    ),
    Resource(
        kinds.SERVICE,
        default=core_defaults.default_service,
        admit=admission.admit_service,
        prepare_update=admission.keep_address,
        validate=core.validate_service,
        name_rule="label1035",
        returns_deleted=True,
        fields={"spec.clusterIP": path("spec", "clusterIP"), "spec.type": path("spec", "type")},
    ),
    Resource(
        kinds.CORE_EVENT,
        validate=events.validate_core_event,
        create_on_update=True,
        fields=EVENT_FIELDS,
    ),
    Resource(
        kinds.EVENT,
        validate_new=events.validate_event,
        validate_update=events.validate_event_update,
        create_on_update=True,
        fields=EVENT_FIELDS,
        field_names=NEW_EVENT_FIELDS,
        storage=kinds.CORE_EVENT,
        from_storage=events.from_core,
        to_storage=events.to_core,
    ),
    Resource(kinds.CONFIG_MAP, validate_update=core.validate_config_map_update),
    Resource(
        kinds.SECRET,
        default=core_defaults.default_secret,
        validate_update=core.validate_config_map_update,
        fields={"type": path("type")},
    ),
    Resource(kinds.SERVICE_ACCOUNT, returns_deleted=True),
    Resource(kinds.ROLE, validate=rbac.validate_role, name_rule="path", create_on_update=True),
    Resource(
        kinds.CLUSTER_ROLE,
        validate=rbac.validate_cluster_role,
        name_rule="path",
        create_on_update=True,
        follow=aggregate,
    ),
    *(
        Resource(
            kind,
            default=default_binding,
            validate=rbac.binding_rules(namespaced=kind.namespaced),
            validate_update=rbac.validate_binding_update,
            name_rule="path",
            create_on_update=True,
        )
        for kind in (kinds.ROLE_BINDING, kinds.CLUSTER_ROLE_BINDING)
    ),
    Resource(kinds.LEASE, validate=core.validate_lease, create_on_update=True, unconditional_update=False),
    Resource(
        kinds.PRIORITY_CLASS,
        default=core_defaults.default_priority_class,
        validate=core.validate_priority_class,
        validate_update=core.validate_priority_class_update,
        generation=True,
        fields={"globalDefault": boolean("globalDefault")},
        hidden_fields=frozenset({"globalDefault"}),
    ),
    Resource(
        kinds.POD_DISRUPTION_BUDGET,
        validate=workloads.validate_budget,
        generation=True,
        unconditional_update=False,
    ),
    Resource(
        kinds.REPLICA_SET,
        default=workload_defaults.default_replica_set,
        validate=workloads.validate_workload,
        validate_update=workloads.validate_workload_update,
        generation=True,
        fields={"status.replicas": path("status", "replicas")},
    ),
    Resource(
        kinds.REPLICATION_CONTROLLER,
        default=workload_defaults.default_replication_controller,
        generation=True,
        orphans=True,
        fields={"status.replicas": path("status", "replicas")},
    ),
    Resource(
        kinds.DEPLOYMENT,
        default=workload_defaults.default_deployment,
        validate=workloads.validate_workload,
        validate_update=workloads.validate_workload_update,
        generation=True,
    ),
    Resource(
        kinds.STATEFUL_SET,
        default=workload_defaults.default_stateful_set,
        validate=workloads.validate_workload,
        validate_update=workloads.validate_workload_update,
        generation=True,
    ),
    Resource(
        kinds.DAEMON_SET,
        default=workload_defaults.default_daemon_set,
        validate=workloads.validate_workload,
        validate_update=workloads.validate_workload_update,
        generation=True,
    ),
    Resource(
        kinds.JOB,
        default=workload_defaults.default_job,
        prepare=workload_defaults.prepare_job,
        validate=workloads.validate_job,
        validate_update=workloads.validate_job_update,
        generation=True,
        orphans=True,
        fields={"status.successful": path("status", "succeeded")},
    ),
    Resource(
        kinds.CRON_JOB,
        default=workload_defaults.default_cron_job,
        validate=workloads.validate_cron_job,
        generation=True,
    ),
    Resource(
        kinds.PERSISTENT_VOLUME,
        default=core_defaults.default_volume,
        admit=admission.admit_volume,
        prepare=core_defaults.prepare_volume,
        validate=core.validate_volume,
        returns_deleted=True,
    ),
    Resource(
        kinds.PERSISTENT_VOLUME_CLAIM,
        default=core_defaults.default_claim,
        admit=admission.admit_claim,
        prepare=core_defaults.prepare_claim,
        validate=core.validate_claim,
        validate_update=core.validate_claim_update,
        returns_deleted=True,
    ),
    Resource(
        kinds.STORAGE_CLASS,
        default=core_defaults.default_storage_class,
        validate=core.validate_storage_class,
        returns_deleted=True,
    ),
    Resource(kinds.CSI_NODE, unconditional_update=False, returns_deleted=True),
    Resource(
        kinds.CSI_DRIVER,
        default=core_defaults.default_csi_driver,
        unconditional_update=False,
        returns_deleted=True,
    ),
    Resource(kinds.CSI_STORAGE_CAPACITY, unconditional_update=False),
    Resource(kinds.VOLUME_ATTACHMENT, unconditional_update=False, returns_deleted=True),
    Resource(kinds.DEVICE_CLASS, validate=devices.validate_device_class, generation=True, returns_deleted=True),
    Resource(
        kinds.RESOURCE_CLAIM,
        default=core_defaults.default_resource_claim,
        prepare_status=devices.prepare_resource_claim_status,
        validate_new=devices.validate_new_resource_claim,
        validate_update=devices.validate_resource_claim_update,
        validate_status=devices.validate_resource_claim_status,
        returns_deleted=True,
    ),
    Resource(
        kinds.RESOURCE_CLAIM_TEMPLATE,
        default=core_defaults.default_resource_claim_template,
        validate=devices.validate_resource_claim_template,
        validate_update=devices.validate_resource_claim_update,
        returns_deleted=True,
    ),
    Resource(
        kinds.RESOURCE_SLICE,
        validate=devices.validate_resource_slice,
        validate_update=devices.validate_resource_slice_update,
        generation=True,
        returns_deleted=True,
        fields={"spec.nodeName": path("spec", "nodeName"), "spec.driver": path("spec", "driver")},
    ),
)

ALPHA_RULES: tuple[Resource, ...] = (
    Resource(
        kinds.WORKLOAD,
        validate=scheduling.validate_workload,
        validate_update=scheduling.validate_workload_update,
    ),
    Resource(
        kinds.POD_GROUP,
        default=default_pod_group,
        admit=admission.admit_pod_group,
        validate=scheduling.validate_pod_group,
        validate_update=scheduling.validate_pod_group_update,
        generation=True,
    ),
)


def catalog(*, alpha: bool = False) -> list[Resource]:
    """All built-in resources: every kind of the table of kinds, with its rules and subresources if it has any.

    `alpha`: those too that a server has by feature gates only.
    """
    served: dict[Kind, Resource] = {kind: Resource(kind) for kind in (*KINDS, *(ALPHA_KINDS if alpha else ()))}
    served |= {resource.kind: resource for resource in (*RULES, *(ALPHA_RULES if alpha else ()))}
    return [replace(one, subresources=SUBRESOURCES.get(kind.resource, {})) for kind, one in served.items()]
