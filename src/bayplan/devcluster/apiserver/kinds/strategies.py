"""The strategies of the built-in kinds, put together from their validation and admission."""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.api import kinds
from bayplan.api.kinds import Kind
from bayplan.devcluster.apiserver.custom import definitions
from bayplan.devcluster.apiserver.custom.validation import validate_definition, validate_definition_update
from bayplan.devcluster.apiserver.kinds import admission, pods, preparation
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

STRATEGIES: Mapping[Kind, Strategy] = {
    kinds.CUSTOM_RESOURCE_DEFINITION: Strategy(
        prepare_for_create=definitions.prepare_definition,
        prepare_for_update=definitions.prepare_definition_update,
        prepare_for_delete=definitions.mark_definition_deleted,
        warn=definitions.definition_warnings,
        validate_create=validate_definition,
        validate_update=validate_definition_update,
    ),
    kinds.POD: Strategy(
        prepare_for_create=pods.prepare_pod,
        prepare_for_update=admission.readmit_pod,
        prepare_for_status_update=pods.prepare_pod_status,
        validate=validate_pod,
        validate_create=validate_new_pod,
        validate_update=validate_pod_update,
        grace_period=pods.grace_period,
    ),
    kinds.NODE: Strategy(validate=core.validate_node, validate_update=core.validate_node_update),
    kinds.NAMESPACE: Strategy(prepare_for_create=preparation.prepare_namespace),
    kinds.SERVICE: Strategy(prepare_for_update=admission.keep_address, validate=services.validate_service),
    kinds.CORE_EVENT: Strategy(validate=events.validate_core_event),
    kinds.EVENT: Strategy(validate_create=events.validate_event, validate_update=events.validate_event_update),
    kinds.CONFIG_MAP: Strategy(validate=core.validate_config_map, validate_update=core.validate_config_map_update),
    kinds.SECRET: Strategy(validate=core.validate_config_map, validate_update=core.validate_config_map_update),
    kinds.ROLE: Strategy(validate=rbac.validate_role),
    kinds.CLUSTER_ROLE: Strategy(validate=rbac.validate_cluster_role),
    kinds.ROLE_BINDING: Strategy(
        validate=rbac.binding_rules(namespaced=True), validate_update=rbac.validate_binding_update
    ),
    kinds.CLUSTER_ROLE_BINDING: Strategy(
        validate=rbac.binding_rules(namespaced=False), validate_update=rbac.validate_binding_update
    ),
    kinds.LEASE: Strategy(validate=core.validate_lease),
    kinds.PRIORITY_CLASS: Strategy(
        validate=core.validate_priority_class, validate_update=core.validate_priority_class_update
    ),
    kinds.LIMIT_RANGE: Strategy(
        prepare_for_create=preparation.prepare_limit_range, validate=quotas.validate_limit_range
    ),
    kinds.RESOURCE_QUOTA: Strategy(
        validate=quotas.validate_quota,
        validate_update=quotas.validate_quota_update,
        validate_status_update=quotas.validate_quota_status,
    ),
    kinds.RUNTIME_CLASS: Strategy(
        validate=core.validate_runtime_class, validate_update=core.validate_runtime_class_update
    ),
    kinds.POD_TEMPLATE: Strategy(validate=workloads.validate_pod_template),
    kinds.POD_DISRUPTION_BUDGET: Strategy(validate=workloads.validate_budget),
    kinds.REPLICATION_CONTROLLER: Strategy(validate=workloads.validate_replication_controller),
    kinds.REPLICA_SET: Strategy(
        validate=workloads.validate_workload, validate_update=workloads.validate_workload_update
    ),
    kinds.DEPLOYMENT: Strategy(
        validate=workloads.validate_workload, validate_update=workloads.validate_workload_update
    ),
    kinds.STATEFUL_SET: Strategy(
        validate=pod_sets.validate_stateful_set,
        validate_create=pod_sets.validate_new_stateful_set,
        validate_update=pod_sets.validate_stateful_set_update,
    ),
    kinds.DAEMON_SET: Strategy(
        prepare_for_create=preparation.prepare_daemon_set,
        prepare_for_update=preparation.prepare_daemon_set_update,
        validate=pod_sets.validate_daemon_set,
        validate_update=pod_sets.validate_daemon_set_update,
    ),
    kinds.CONTROLLER_REVISION: Strategy(
        validate=pod_sets.validate_revision,
        validate_create=pod_sets.validate_new_revision,
        validate_update=pod_sets.validate_revision_update,
    ),
    kinds.JOB: Strategy(
        prepare_for_create=preparation.prepare_job,
        validate=workloads.validate_job,
        validate_update=workloads.validate_job_update,
    ),
    kinds.CRON_JOB: Strategy(validate=workloads.validate_cron_job),
    kinds.PERSISTENT_VOLUME: Strategy(
        prepare_for_create=preparation.prepare_volume,
        validate=core.validate_volume,
        validate_update=core.validate_volume_update,
    ),
    kinds.PERSISTENT_VOLUME_CLAIM: Strategy(
        prepare_for_create=preparation.prepare_claim,
        validate=core.validate_claim,
        validate_update=core.validate_claim_update,
    ),
    kinds.STORAGE_CLASS: Strategy(
        validate=storage.validate_storage_class, validate_update=storage.validate_storage_class_update
    ),
    kinds.CSI_NODE: Strategy(validate=storage.validate_csi_node, validate_update=storage.validate_csi_node_update),
    kinds.CSI_DRIVER: Strategy(
        validate=storage.validate_csi_driver, validate_update=storage.validate_csi_driver_update
    ),
    kinds.CSI_STORAGE_CAPACITY: Strategy(
        validate=storage.validate_storage_capacity, validate_update=storage.validate_storage_capacity_update
    ),
    kinds.VOLUME_ATTACHMENT: Strategy(
        validate=storage.validate_volume_attachment, validate_update=storage.validate_volume_attachment_update
    ),
    kinds.DEVICE_CLASS: Strategy(validate=devices.validate_device_class),
    kinds.RESOURCE_CLAIM: Strategy(
        prepare_for_status_update=devices.prepare_resource_claim_status,
        validate_create=devices.validate_new_resource_claim,
        validate_update=devices.validate_resource_claim_update,
        validate_status_update=devices.validate_resource_claim_status,
    ),
    kinds.RESOURCE_CLAIM_TEMPLATE: Strategy(
        validate=devices.validate_resource_claim_template, validate_update=devices.validate_resource_claim_update
    ),
    kinds.RESOURCE_SLICE: Strategy(
        validate=devices.validate_resource_slice, validate_update=devices.validate_resource_slice_update
    ),
    kinds.WORKLOAD: Strategy(
        validate=scheduling.validate_workload, validate_update=scheduling.validate_workload_update
    ),
    kinds.POD_GROUP: Strategy(
        validate=scheduling.validate_pod_group, validate_update=scheduling.validate_pod_group_update
    ),
}
"""The strategies of the kinds whose rules need code."""
