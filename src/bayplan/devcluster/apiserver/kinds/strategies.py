"""The strategies of the built-in kinds, put together from their defaults, validation and admission."""

from __future__ import annotations

from collections.abc import Callable

from bayplan.devcluster.apiserver.custom import definitions
from bayplan.devcluster.apiserver.custom.validation import validate_definition, validate_definition_update
from bayplan.devcluster.apiserver.defaults import core as core_defaults
from bayplan.devcluster.apiserver.defaults import workloads as workload_defaults
from bayplan.devcluster.apiserver.defaults.pods import default_pod
from bayplan.devcluster.apiserver.defaults.rbac import default_binding
from bayplan.devcluster.apiserver.defaults.scheduling import default_pod_group
from bayplan.devcluster.apiserver.kinds import admission, pods
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.storage.strategy import Strategy
from bayplan.devcluster.apiserver.validation import (
    core,
    devices,
    events,
    pod_sets,
    quotas,
    rbac,
    scheduling,
    services,
    storage,
    workloads,
)
from bayplan.devcluster.apiserver.validation.pod_updates import validate_pod_update
from bayplan.devcluster.apiserver.validation.pods import validate_new_pod, validate_pod


def _workload(default: Callable[[Object], None]) -> Strategy:
    """The strategy of a Deployment or ReplicaSet."""
    return Strategy(
        default=default, validate=workloads.validate_workload, validate_update=workloads.validate_workload_update
    )


DEFINITION = Strategy(
    default=definitions.default_definition,
    prepare_for_create=definitions.prepare_definition,
    prepare_for_update=definitions.prepare_definition_update,
    prepare_for_delete=definitions.mark_definition_deleted,
    warn=definitions.definition_warnings,
    validate_create=validate_definition,
    validate_update=validate_definition_update,
)
POD = Strategy(
    default=default_pod,
    prepare_for_create=pods.prepare_pod,
    prepare_for_update=admission.readmit_pod,
    prepare_for_status_update=pods.prepare_pod_status,
    validate=validate_pod,
    validate_create=validate_new_pod,
    validate_update=validate_pod_update,
    grace_period=pods.grace_period,
)
NODE = Strategy(
    default=core_defaults.default_node,
    validate=core.validate_node,
    validate_update=core.validate_node_update,
)
NAMESPACE = Strategy(default=core_defaults.default_namespace, prepare_for_create=core_defaults.prepare_namespace)
SERVICE = Strategy(
    default=core_defaults.default_service,
    prepare_for_update=admission.keep_address,
    validate=services.validate_service,
)
CORE_EVENT = Strategy(validate=events.validate_core_event)
EVENT = Strategy(validate_create=events.validate_event, validate_update=events.validate_event_update)
CONFIG_MAP = Strategy(validate=core.validate_config_map, validate_update=core.validate_config_map_update)
SECRET = Strategy(
    default=core_defaults.default_secret,
    validate=core.validate_config_map,
    validate_update=core.validate_config_map_update,
)
ROLE = Strategy(validate=rbac.validate_role)
CLUSTER_ROLE = Strategy(validate=rbac.validate_cluster_role)
ROLE_BINDING, CLUSTER_ROLE_BINDING = (
    Strategy(
        default=default_binding,
        validate=rbac.binding_rules(namespaced=namespaced),
        validate_update=rbac.validate_binding_update,
    )
    for namespaced in (True, False)
)
LEASE = Strategy(validate=core.validate_lease)
PRIORITY_CLASS = Strategy(
    default=core_defaults.default_priority_class,
    validate=core.validate_priority_class,
    validate_update=core.validate_priority_class_update,
)
LIMIT_RANGE = Strategy(
    default=core_defaults.default_limit_range,
    prepare_for_create=core_defaults.prepare_limit_range,
    validate=quotas.validate_limit_range,
)
RESOURCE_QUOTA = Strategy(
    validate=quotas.validate_quota,
    validate_update=quotas.validate_quota_update,
    validate_status_update=quotas.validate_quota_status,
)
RUNTIME_CLASS = Strategy(validate=core.validate_runtime_class, validate_update=core.validate_runtime_class_update)
POD_TEMPLATE = Strategy(default=workload_defaults.default_pod_template, validate=workloads.validate_pod_template)
POD_DISRUPTION_BUDGET = Strategy(validate=workloads.validate_budget)
REPLICATION_CONTROLLER = Strategy(
    default=workload_defaults.default_replication_controller, validate=workloads.validate_replication_controller
)
REPLICA_SET = _workload(workload_defaults.default_replica_set)
DEPLOYMENT = _workload(workload_defaults.default_deployment)
STATEFUL_SET = Strategy(
    default=workload_defaults.default_stateful_set,
    validate=pod_sets.validate_stateful_set,
    validate_create=pod_sets.validate_new_stateful_set,
    validate_update=pod_sets.validate_stateful_set_update,
)
DAEMON_SET = Strategy(
    default=workload_defaults.default_daemon_set,
    prepare_for_create=workload_defaults.prepare_daemon_set,
    prepare_for_update=workload_defaults.prepare_daemon_set_update,
    validate=pod_sets.validate_daemon_set,
    validate_update=pod_sets.validate_daemon_set_update,
)
CONTROLLER_REVISION = Strategy(
    validate=pod_sets.validate_revision,
    validate_create=pod_sets.validate_new_revision,
    validate_update=pod_sets.validate_revision_update,
)
JOB = Strategy(
    default=workload_defaults.default_job,
    prepare_for_create=workload_defaults.prepare_job,
    validate=workloads.validate_job,
    validate_update=workloads.validate_job_update,
)
CRON_JOB = Strategy(default=workload_defaults.default_cron_job, validate=workloads.validate_cron_job)
PERSISTENT_VOLUME = Strategy(
    default=core_defaults.default_volume,
    prepare_for_create=core_defaults.prepare_volume,
    validate=core.validate_volume,
    validate_update=core.validate_volume_update,
)
PERSISTENT_VOLUME_CLAIM = Strategy(
    default=core_defaults.default_claim,
    prepare_for_create=core_defaults.prepare_claim,
    validate=core.validate_claim,
    validate_update=core.validate_claim_update,
)
STORAGE_CLASS = Strategy(
    default=core_defaults.default_storage_class,
    validate=storage.validate_storage_class,
    validate_update=storage.validate_storage_class_update,
)
CSI_NODE = Strategy(validate=storage.validate_csi_node, validate_update=storage.validate_csi_node_update)
CSI_DRIVER = Strategy(
    default=core_defaults.default_csi_driver,
    validate=storage.validate_csi_driver,
    validate_update=storage.validate_csi_driver_update,
)
CSI_STORAGE_CAPACITY = Strategy(
    validate=storage.validate_storage_capacity, validate_update=storage.validate_storage_capacity_update
)
VOLUME_ATTACHMENT = Strategy(
    validate=storage.validate_volume_attachment, validate_update=storage.validate_volume_attachment_update
)
DEVICE_CLASS = Strategy(validate=devices.validate_device_class)
RESOURCE_CLAIM = Strategy(
    default=core_defaults.default_resource_claim,
    prepare_for_status_update=devices.prepare_resource_claim_status,
    validate_create=devices.validate_new_resource_claim,
    validate_update=devices.validate_resource_claim_update,
    validate_status_update=devices.validate_resource_claim_status,
)
RESOURCE_CLAIM_TEMPLATE = Strategy(
    default=core_defaults.default_resource_claim_template,
    validate=devices.validate_resource_claim_template,
    validate_update=devices.validate_resource_claim_update,
)
RESOURCE_SLICE = Strategy(
    validate=devices.validate_resource_slice,
    validate_update=devices.validate_resource_slice_update,
)
WORKLOAD = Strategy(validate=scheduling.validate_workload, validate_update=scheduling.validate_workload_update)
POD_GROUP = Strategy(
    default=default_pod_group,
    validate=scheduling.validate_pod_group,
    validate_update=scheduling.validate_pod_group_update,
)
