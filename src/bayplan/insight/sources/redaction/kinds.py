"""The fields that a redacted snapshot keeps, by kind, each with the rule that replaces the names in it.

They are the fields that scheduling depends on, and those that the questions about a cluster need.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayplan.insight.sources.redaction.names import Names, Rule
from bayplan.insight.sources.redaction.pods import (
    CLAIM_SPEC,
    DISKS,
    PATH,
    POD_SPEC,
    POD_STATUS,
    TEMPLATE,
)
from bayplan.insight.sources.redaction.rules import (
    CONDITIONS,
    NODE_SELECTOR,
    SELECTOR,
    claim_name,
    claim_ref,
    constant,
    disk,
    each,
    fields,
    keep,
    key,
    keyed,
    labels,
    name,
    node_image,
    numbers,
    obj,
)

_WORKLOAD_SPEC = fields(
    replicas=keep,
    selector=SELECTOR,
    template=TEMPLATE,
    minReadySeconds=keep,
    paused=keep,
    suspend=keep,
    strategy=keep,
    updateStrategy=keep,
    podManagementPolicy=keep,
    serviceName=name("service"),
    ordinals=keep,
    volumeClaimTemplates=each(fields(metadata=fields(name=name("volume"), labels=labels), spec=CLAIM_SPEC)),
    parallelism=keep,
    completions=keep,
    completionMode=keep,
    backoffLimit=keep,
)
_PV_SPEC = fields(
    capacity=keep,
    accessModes=keep,
    storageClassName=name("storageclass"),
    claimRef=claim_ref,
    nodeAffinity=fields(required=NODE_SELECTOR),
    persistentVolumeReclaimPolicy=keep,
    volumeMode=keep,
    csi=fields(driver=keep, volumeHandle=disk, readOnly=keep),
    local=PATH,
    **DISKS,
)
_TOPOLOGY_TERM = fields(matchLabelExpressions=each(keyed))
_DEVICE_CLAIM = fields(devices=fields(requests=keep, constraints=keep))
_POOL = name("pool")
_ALLOCATION = fields(
    devices=fields(
        results=each(
            fields(
                request=keep,
                driver=keep,
                pool=_POOL,
                device=keep,
                adminAccess=keep,
                consumedCapacity=keep,
                shareID=keep,
                tolerations=keep,
                bindingConditions=keep,
                bindingFailureConditions=keep,
            )
        )
    ),
    nodeSelector=NODE_SELECTOR,
    allocationTimestamp=keep,
)
_DEVICE = fields(
    name=keep,
    attributes=keep,
    capacity=keep,
    consumesCounters=keep,
    taints=keep,
    nodeName=name("node"),
    nodeSelector=NODE_SELECTOR,
    allNodes=keep,
    allowMultipleAllocations=keep,
    bindsToNode=keep,
    bindingConditions=keep,
    bindingFailureConditions=keep,
    nodeAllocatableResourceMappings=keep,
)


def _disrupted(value: Any, names: Names) -> Any:
    return {names.new("pod", pod): time for pod, time in value.items()} if isinstance(value, dict) else None


def _budget_status(value: Any, names: Names) -> Any:
    kept = numbers(value, names)
    return kept and kept | (fields(disruptedPods=_disrupted)(value, names) or {})


def _workload(domain: str) -> Rule:
    return obj(domain, spec=_WORKLOAD_SPEC, status=numbers)


FIELDS: Mapping[tuple[str, str], Rule] = {
    ("", "pods"): obj("pod", spec=POD_SPEC, status=POD_STATUS),
    ("", "nodes"): obj(
        "node",
        spec=fields(unschedulable=keep, taints=each(keyed)),
        status=fields(
            allocatable=keep,
            capacity=keep,
            conditions=CONDITIONS,
            declaredFeatures=keep,
            images=each(fields(names=each(node_image), sizeBytes=keep)),
        ),
    ),
    ("", "namespaces"): obj("namespace", status=fields(phase=keep)),
    ("", "persistentvolumes"): obj("pv", spec=_PV_SPEC, status=fields(phase=keep)),
    ("", "persistentvolumeclaims"): obj(
        "claim", claim_name, spec=CLAIM_SPEC, status=fields(phase=keep, capacity=keep, accessModes=keep)
    ),
    ("", "services"): obj("service", spec=fields(selector=labels, type=keep, clusterIP=constant("None"))),
    ("", "replicationcontrollers"): obj(
        "replicationcontroller", spec=fields(replicas=keep, selector=labels, template=TEMPLATE), status=numbers
    ),
    ("", "limitranges"): obj("limitrange", spec=keep),
    ("apps", "replicasets"): _workload("replicaset"),
    ("apps", "deployments"): _workload("deployment"),
    ("apps", "statefulsets"): _workload("statefulset"),
    ("apps", "daemonsets"): _workload("daemonset"),
    ("batch", "jobs"): _workload("job"),
    ("policy", "poddisruptionbudgets"): obj(
        "poddisruptionbudget",
        spec=fields(minAvailable=keep, maxUnavailable=keep, selector=SELECTOR, unhealthyPodEvictionPolicy=keep),
        status=_budget_status,
    ),
    ("scheduling.k8s.io", "priorityclasses"): obj(
        "priorityclass", value=keep, globalDefault=keep, preemptionPolicy=keep
    ),
    ("node.k8s.io", "runtimeclasses"): obj(
        "runtimeclass",
        handler=constant("handler"),
        overhead=keep,
        scheduling=fields(nodeSelector=labels, tolerations=each(keyed)),
    ),
    ("storage.k8s.io", "storageclasses"): obj(
        "storageclass",
        provisioner=keep,
        volumeBindingMode=keep,
        reclaimPolicy=keep,
        allowVolumeExpansion=keep,
        allowedTopologies=each(_TOPOLOGY_TERM),
    ),
    ("storage.k8s.io", "csinodes"): obj(
        "node",
        spec=fields(drivers=each(fields(name=keep, nodeID=constant("node"), topologyKeys=each(key), allocatable=keep))),
    ),
    ("storage.k8s.io", "csidrivers"): obj(
        "csidriver",
        keep,
        spec=fields(
            attachRequired=keep,
            podInfoOnMount=keep,
            storageCapacity=keep,
            volumeLifecycleModes=keep,
            preventPodSchedulingIfMissing=keep,
        ),
    ),
    ("storage.k8s.io", "csistoragecapacities"): obj(
        "csistoragecapacity",
        nodeTopology=SELECTOR,
        storageClassName=name("storageclass"),
        capacity=keep,
        maximumVolumeSize=keep,
    ),
    ("storage.k8s.io", "volumeattachments"): obj(
        "volumeattachment",
        spec=fields(attacher=keep, nodeName=name("node"), source=fields(persistentVolumeName=name("pv"))),
        status=fields(attached=keep),
    ),
    ("resource.k8s.io", "deviceclasses"): obj(
        "deviceclass", keep, spec=fields(selectors=keep, extendedResourceName=keep)
    ),
    ("resource.k8s.io", "resourceclaims"): obj(
        "resourceclaim",
        spec=_DEVICE_CLAIM,
        status=fields(
            allocation=_ALLOCATION,
            reservedFor=each(fields(apiGroup=keep, resource=keep, name=name("pod"), uid=keep)),
            devices=each(fields(driver=keep, pool=_POOL, device=keep, shareID=keep, conditions=CONDITIONS)),
        ),
    ),
    ("resource.k8s.io", "resourceclaimtemplates"): obj(
        "resourceclaimtemplate", spec=fields(metadata=fields(labels=labels), spec=_DEVICE_CLAIM)
    ),
    ("resource.k8s.io", "resourceslices"): obj(
        "resourceslice",
        spec=fields(
            driver=keep,
            pool=fields(name=_POOL, generation=keep, resourceSliceCount=keep),
            nodeName=name("node"),
            nodeSelector=NODE_SELECTOR,
            allNodes=keep,
            perDeviceNodeSelection=keep,
            sharedCounters=keep,
            devices=each(_DEVICE),
        ),
    ),
    ("scheduling.k8s.io", "podgroups"): obj(
        "podgroup",
        apiVersion=keep,
        kind=keep,
        spec=fields(
            schedulingPolicy=keep,
            schedulingConstraints=fields(topology=each(fields(key=key))),
            disruptionMode=keep,
            priority=keep,
            priorityClassName=name("priorityclass"),
        ),
        status=fields(conditions=CONDITIONS),
    ),
    ("scheduling.x-k8s.io", "podgroups"): obj(
        "podgroup",
        apiVersion=keep,
        kind=keep,
        spec=fields(minMember=keep, minResources=keep, scheduleTimeoutSeconds=keep),
        status=fields(phase=keep, scheduled=keep, running=keep, succeeded=keep, failed=keep),
    ),
}
"""By group and plural."""
