"""The fields that a redacted snapshot keeps, by kind, each with the rule that replaces the names in it.

They are the fields that scheduling depends on, and those that the questions about a cluster need.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayplan.answers.snapshots.redaction.devices import DEVICE_FIELDS
from bayplan.answers.snapshots.redaction.names import Names, Rule
from bayplan.answers.snapshots.redaction.plugin_kinds import OF_PLUGINS
from bayplan.answers.snapshots.redaction.pods import (
    CLAIM_REFERENCES,
    CLAIM_SPEC,
    CLAIM_STATUSES,
    DISKS,
    PATH,
    POD_SPEC,
    POD_STATUS,
    TEMPLATE,
)
from bayplan.answers.snapshots.redaction.provisioning_requests import PROVISIONING_REQUEST_FIELDS
from bayplan.answers.snapshots.redaction.rules import (
    CONDITIONS,
    KUEUE_POLICY,
    NODE_SELECTOR,
    SELECTOR,
    amounts,
    claim_name,
    claim_ref,
    constant,
    custom,
    disk,
    each,
    fields,
    key,
    keyed,
    labels,
    mapped,
    name,
    node_image,
    numbers,
    obj,
    quota,
    resource,
    resource_name,
    verbatim,
    verbatims,
)

_WORKLOAD_SPEC = fields(
    "replicas minReadySeconds paused suspend strategy updateStrategy podManagementPolicy ordinals "
    "parallelism completions completionMode backoffLimit",
    selector=SELECTOR,
    template=TEMPLATE,
    serviceName=name("service"),
    volumeClaimTemplates=each(fields(metadata=fields(name=name("volume"), labels=labels), spec=CLAIM_SPEC)),
)
_PV_SPEC = fields(
    "accessModes persistentVolumeReclaimPolicy volumeMode",
    capacity=amounts,
    storageClassName=name("storageclass"),
    claimRef=claim_ref,
    nodeAffinity=fields(required=NODE_SELECTOR),
    csi=fields("readOnly", driver=verbatim, volumeHandle=disk),
    local=PATH,
    **DISKS,
)
_TOPOLOGY_TERM = fields(matchLabelExpressions=each(keyed))


def _disrupted(value: Any, names: Names) -> Any:
    return {names.new("pod", pod): time for pod, time in value.items()} if isinstance(value, dict) else None


def _budget_status(value: Any, names: Names) -> Any:
    kept = numbers(value, names)
    return kept and kept | (fields(disruptedPods=_disrupted)(value, names) or {})


def _workload(domain: str) -> Rule:
    return obj(domain, spec=_WORKLOAD_SPEC, status=numbers)


_QUOTAS = each(
    fields(
        coveredResources=each(resource_name),
        flavors=each(
            fields(
                name=name("resourceflavor"),
                resources=each(fields("nominalQuota borrowingLimit lendingLimit", name=resource_name)),
            )
        ),
    )
)
_OF_GROUPS: Mapping[str, Rule] = {
    "schedulingConstraints": fields(topology=each(fields(key=key))),
    "priorityClassName": name("priorityclass"),
    "parentCompositePodGroupName": name("compositepodgroup"),
}

FIELDS: Mapping[tuple[str, str], Rule] = {
    ("", "pods"): obj("pod", spec=POD_SPEC, status=POD_STATUS),
    ("", "nodes"): obj(
        "node",
        spec=fields(
            "unschedulable",
            taints=each(keyed),
            podPreemptionPolicy=fields(disableResizePreemption=each(name("owner"))),
        ),
        status=fields(
            allocatable=amounts,
            capacity=amounts,
            conditions=CONDITIONS,
            declaredFeatures=verbatims,
            images=each(fields("sizeBytes", names=each(node_image))),
        ),
    ),
    ("", "namespaces"): obj("namespace", status=fields("phase")),
    ("", "persistentvolumes"): obj("pv", spec=_PV_SPEC, status=fields("phase")),
    ("", "persistentvolumeclaims"): obj(
        "claim", named=claim_name, spec=CLAIM_SPEC, status=fields("phase accessModes", capacity=amounts)
    ),
    ("", "services"): obj("service", spec=fields("type", selector=labels, clusterIP=constant("None"))),
    ("", "replicationcontrollers"): obj(
        "replicationcontroller", spec=fields("replicas", selector=labels, template=TEMPLATE), status=numbers
    ),
    ("", "limitranges"): obj(
        "limitrange",
        spec=fields(
            limits=each(
                fields(
                    "type",
                    max=amounts,
                    min=amounts,
                    default=amounts,
                    defaultRequest=amounts,
                    maxLimitRequestRatio=amounts,
                )
            )
        ),
    ),
    ("", "resourcequotas"): obj(
        "resourcequota",
        spec=fields(
            "scopes",
            hard=quota,
            scopeSelector=fields(
                matchExpressions=each(fields("scopeName operator", values=each(name("priorityclass"))))
            ),
        ),
        status=fields(hard=quota, used=quota),
    ),
    ("", "events"): obj("event", "type reason"),
    ("apps", "replicasets"): _workload("replicaset"),
    ("apps", "deployments"): _workload("deployment"),
    ("apps", "statefulsets"): _workload("statefulset"),
    ("apps", "daemonsets"): _workload("daemonset"),
    ("batch", "jobs"): _workload("job"),
    ("batch", "cronjobs"): obj("cronjob", spec=fields("suspend", jobTemplate=fields(spec=_WORKLOAD_SPEC))),
    ("policy", "poddisruptionbudgets"): obj(
        "poddisruptionbudget",
        spec=fields("minAvailable maxUnavailable unhealthyPodEvictionPolicy", selector=SELECTOR),
        status=_budget_status,
    ),
    ("scheduling.k8s.io", "priorityclasses"): obj("priorityclass", "value globalDefault preemptionPolicy"),
    ("node.k8s.io", "runtimeclasses"): obj(
        "runtimeclass",
        handler=constant("handler"),
        overhead=fields(podFixed=amounts),
        scheduling=fields(nodeSelector=labels, tolerations=each(keyed)),
    ),
    ("storage.k8s.io", "storageclasses"): obj(
        "storageclass",
        "volumeBindingMode reclaimPolicy allowVolumeExpansion",
        provisioner=verbatim,
        allowedTopologies=each(_TOPOLOGY_TERM),
    ),
    ("storage.k8s.io", "csinodes"): obj(
        "node",
        spec=fields(
            drivers=each(fields("allocatable", name=verbatim, nodeID=constant("node"), topologyKeys=each(key)))
        ),
    ),
    ("storage.k8s.io", "csidrivers"): obj(
        "csidriver",
        named=verbatim,
        spec=fields("attachRequired podInfoOnMount storageCapacity volumeLifecycleModes preventPodSchedulingIfMissing"),
    ),
    ("storage.k8s.io", "csistoragecapacities"): obj(
        "csistoragecapacity", "capacity maximumVolumeSize", nodeTopology=SELECTOR, storageClassName=name("storageclass")
    ),
    ("storage.k8s.io", "volumeattachments"): obj(
        "volumeattachment",
        spec=fields(attacher=verbatim, nodeName=name("node"), source=fields(persistentVolumeName=name("pv"))),
        status=fields("attached"),
    ),
    **DEVICE_FIELDS,
    ("coordination.k8s.io", "leases"): obj(
        "lease", spec=fields("leaseDurationSeconds renewTime", holderIdentity=name("holder"))
    ),
    ("scheduling.k8s.io", "podgroups"): custom(
        "podgroup",
        "PodGroup",
        spec=fields(
            "schedulingPolicy disruptionMode priority preemptionPolicy",
            **_OF_GROUPS,
            resourceClaims=CLAIM_REFERENCES,
        ),
        status=fields(conditions=CONDITIONS, resourceClaimStatuses=CLAIM_STATUSES),
    ),
    ("scheduling.k8s.io", "compositepodgroups"): custom(
        "compositepodgroup",
        "CompositePodGroup",
        spec=fields("schedulingPolicy disruptionMode priority preemptionPolicy", **_OF_GROUPS),
        status=fields(conditions=CONDITIONS),
    ),
    **OF_PLUGINS,
    ("kueue.x-k8s.io", "workloads"): custom(
        "workload",
        "Workload",
        spec=fields(
            "active priority",
            queueName=name("localqueue"),
            podSets=each(fields("count", name=name("podset"), template=TEMPLATE)),
        ),
        status=fields(
            conditions=CONDITIONS,
            admission=fields(
                clusterQueue=name("clusterqueue"),
                podSetAssignments=each(
                    fields(
                        "count",
                        name=name("podset"),
                        flavors=mapped(resource, name("resourceflavor")),
                        resourceUsage=amounts,
                    )
                ),
            ),
            admissionChecks=each(fields("state", name=name("admissioncheck"))),
        ),
    ),
    ("kueue.x-k8s.io", "localqueues"): custom(
        "localqueue",
        "LocalQueue",
        spec=fields("stopPolicy", clusterQueue=name("clusterqueue")),
    ),
    ("kueue.x-k8s.io", "clusterqueues"): custom(
        "clusterqueue",
        "ClusterQueue",
        spec=fields(
            "stopPolicy queueingStrategy",
            cohort=name("cohort"),
            cohortName=name("cohort"),
            resourceGroups=_QUOTAS,
            fairSharing=fields("weight"),
            preemption=fields(
                withinClusterQueue=KUEUE_POLICY,
                reclaimWithinCohort=KUEUE_POLICY,
                borrowWithinCohort=fields("maxPriorityThreshold", policy=KUEUE_POLICY),
            ),
            flavorFungibility=fields(whenCanBorrow=KUEUE_POLICY, whenCanPreempt=KUEUE_POLICY, preference=KUEUE_POLICY),
        ),
        status=fields(
            flavorsReservation=each(
                fields(name=name("resourceflavor"), resources=each(fields("total borrowed", name=resource_name)))
            ),
            conditions=CONDITIONS,
            fairSharing=fields("weightedShare"),
        ),
    ),
    ("kueue.x-k8s.io", "resourceflavors"): custom("resourceflavor", "ResourceFlavor", spec=fields(nodeLabels=labels)),
    ("kueue.x-k8s.io", "cohorts"): custom(
        "cohort",
        "Cohort",
        spec=fields(
            parent=name("cohort"),
            parentName=name("cohort"),
            resourceGroups=_QUOTAS,
            fairSharing=fields("weight"),
        ),
        status=fields(fairSharing=fields("weightedShare")),
    ),
    ("kueue.x-k8s.io", "admissionchecks"): custom(
        "admissioncheck", "AdmissionCheck", status=fields(conditions=CONDITIONS)
    ),
    ("", "podtemplates"): obj("podtemplate", template=TEMPLATE),
    ("autoscaling.x-k8s.io", "provisioningrequests"): PROVISIONING_REQUEST_FIELDS,
}
"""(group, plural) -> the rule for its objects"""
