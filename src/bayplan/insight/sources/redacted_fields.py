"""The fields that a redacted snapshot keeps, by kind, each with the rule that replaces the names in it.

They are the fields that scheduling depends on, and those that the questions about a cluster need.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from bayplan.api import volumes
from bayplan.devices.extended_claims import ANNOTATION as EXTENDED_CLAIM
from bayplan.insight.sources.new_names import Names, Rule


def keep(value: Any, _: Names) -> Any:
    """The value itself."""
    return value


def constant(text: str) -> Rule:
    """A rule for required fields whose values are private."""
    return lambda _, __: text


def numbers(value: Any, _: Names) -> Any:
    """The numbers of a status."""
    return {field: each for field, each in value.items() if isinstance(each, int)} if isinstance(value, dict) else None


def name(domain: str) -> Rule:
    """A rule for names."""
    return lambda value, names: names.new(domain, value) if isinstance(value, str) else None


def fields(**rules: Rule) -> Rule:
    """A rule for an object: only these fields are kept."""

    def apply(value: Any, names: Names) -> Any:
        if not isinstance(value, dict):
            return None
        kept = {}
        for field, rule in rules.items():
            if field in value and (new := rule(value[field], names)) is not None:
                kept[field] = new
        return kept

    return apply


def each(rule: Rule) -> Rule:
    """A rule for the items of a list."""

    def apply(value: Any, names: Names) -> Any:
        if not isinstance(value, list):
            return None
        return [new for item in value if (new := rule(item, names)) is not None]

    return apply


def key(value: Any, names: Names) -> Any:
    """The key of a label or a taint."""
    return names.key(value) if isinstance(value, str) else None


def labels(value: Any, names: Names) -> Any:
    """Labels, or a selector that has the form of labels."""
    if not isinstance(value, dict):
        return None
    return {names.key(label): names.value(label, text) for label, text in value.items()}


def keyed(value: Any, names: Names) -> Any:
    """A requirement, a taint or a toleration: a key with a value or with values."""
    if not isinstance(value, dict):
        return None
    about = str(value.get("key") or "")
    kept = {field: value[field] for field in _OF_KEYED if field in value}
    if "key" in value:
        kept["key"] = names.key(about) if about else ""
    if isinstance(value.get("value"), str):
        kept["value"] = names.value(about, value["value"])
    if isinstance(value.get("values"), list):
        kept["values"] = [names.value(about, text) for text in value["values"]]
    return kept


_OF_KEYED = ("operator", "effect", "tolerationSeconds", "timeAdded")

_SELECTOR = fields(matchLabels=labels, matchExpressions=each(keyed))
_NODE_TERM = fields(matchExpressions=each(keyed), matchFields=each(keyed))
_NODE_SELECTOR = fields(nodeSelectorTerms=each(_NODE_TERM))
_CONDITIONS = each(
    fields(type=keep, status=keep, reason=keep, lastTransitionTime=keep, lastProbeTime=keep, observedGeneration=keep)
)


def _annotations(value: Any, names: Names) -> Any:
    if not isinstance(value, dict):
        return None
    return {field: rule(value[field], names) for field, rule in _ANNOTATIONS.items() if field in value} or None


_ANNOTATIONS: Mapping[str, Rule] = {
    volumes.BIND_COMPLETED: keep,
    volumes.BOUND_BY_CONTROLLER: keep,
    volumes.MIGRATED_PLUGINS: keep,
    volumes.SELECTED_NODE: name("node"),
    "volume.beta.kubernetes.io/storage-class": name("storageclass"),
    "storageclass.kubernetes.io/is-default-class": keep,
    EXTENDED_CLAIM: keep,
    "kubernetes.io/config.mirror": constant("mirror"),
    "cluster-autoscaler.kubernetes.io/safe-to-evict": keep,
}
"""Annotations that decisions or questions depend on."""


def _owner(value: Any, names: Names) -> Any:
    if not isinstance(value, dict):
        return None
    domain = str(value.get("kind") or "").lower()
    kept = {field: value[field] for field in ("apiVersion", "kind", "uid", "controller") if field in value}
    return kept | {"name": names.new(_OWNER_DOMAINS.get(domain, domain), str(value.get("name") or ""))}


_OWNER_DOMAINS = {"persistentvolumeclaim": "claim"}


def _metadata(named: Rule) -> Rule:
    return fields(
        name=named,
        namespace=name("namespace"),
        uid=keep,
        resourceVersion=keep,
        generation=keep,
        creationTimestamp=keep,
        deletionTimestamp=keep,
        deletionGracePeriodSeconds=keep,
        labels=labels,
        annotations=_annotations,
        ownerReferences=each(_owner),
    )


def _object(domain: str, /, named: Rule | None = None, **rules: Rule) -> Rule:
    return fields(metadata=_metadata(named or name(domain)), **rules)


def _claim_name(value: Any, names: Names) -> Any:
    return names.claim(names.namespace, value) if isinstance(value, str) else None


def _claim_ref(value: Any, names: Names) -> Any:
    if not isinstance(value, dict):
        return None
    namespace, claim = str(value.get("namespace") or ""), str(value.get("name") or "")
    kept = {field: value[field] for field in ("apiVersion", "kind", "uid", "resourceVersion") if field in value}
    return kept | {"namespace": names.new("namespace", namespace), "name": names.claim(namespace, claim)}


def _image(value: Any, names: Names) -> Any:
    """A pod's image, whose tag is `latest` if it has none. A node's images are compared with the complete name."""
    if not isinstance(value, str) or not value:
        return value
    return f"{names.new('image', value if value.rfind(':') > value.rfind('/') else f'{value}:latest')}:1"


def _node_image(value: Any, names: Names) -> Any:
    return f"{names.new('image', value)}:1" if isinstance(value, str) else None


def _disk(value: Any, names: Names) -> Any:
    """The id of a disk. An EBS volume may also be named by a URL, `aws://zone/vol-1`."""
    if not isinstance(value, str):
        return None
    if value.startswith("aws://"):
        disk = re.fullmatch(r"aws://[^/]*/+(vol-[^/]*)/*", value)
        return f"aws:///{_disk(disk[1], names)}" if disk else "aws://malformed"
    return names.new("vol" if value.startswith("vol-") else "disk", value)


_RESOURCES = fields(requests=keep, limits=keep, claims=each(fields(name=name("podclaim"), request=keep)))
_TERM = fields(
    topologyKey=key,
    labelSelector=_SELECTOR,
    namespaceSelector=_SELECTOR,
    namespaces=each(name("namespace")),
    matchLabelKeys=each(key),
    mismatchLabelKeys=each(key),
)
_POD_AFFINITY = fields(
    requiredDuringSchedulingIgnoredDuringExecution=each(_TERM),
    preferredDuringSchedulingIgnoredDuringExecution=each(fields(weight=keep, podAffinityTerm=_TERM)),
)
_AFFINITY = fields(
    nodeAffinity=fields(
        requiredDuringSchedulingIgnoredDuringExecution=_NODE_SELECTOR,
        preferredDuringSchedulingIgnoredDuringExecution=each(fields(weight=keep, preference=_NODE_TERM)),
    ),
    podAffinity=_POD_AFFINITY,
    podAntiAffinity=_POD_AFFINITY,
)
_SPREAD = fields(
    maxSkew=keep,
    minDomains=keep,
    topologyKey=key,
    whenUnsatisfiable=keep,
    labelSelector=_SELECTOR,
    matchLabelKeys=each(key),
    nodeAffinityPolicy=keep,
    nodeTaintsPolicy=keep,
)
_CONTAINER = fields(
    name=name("container"),
    image=_image,
    resources=_RESOURCES,
    ports=each(fields(hostPort=keep, hostIP=keep, containerPort=keep, protocol=keep)),
    restartPolicy=keep,
    restartPolicyRules=each(fields(action=keep, exitCodes=keep)),
    resizePolicy=keep,
)
_CLAIM_SPEC = fields(
    accessModes=keep,
    resources=_RESOURCES,
    storageClassName=name("storageclass"),
    volumeName=name("pv"),
    volumeMode=keep,
    selector=_SELECTOR,
)
_PATH = fields(path=name("path"), type=keep)
_DISKS = {
    "gcePersistentDisk": fields(pdName=_disk, readOnly=keep, partition=keep),
    "awsElasticBlockStore": fields(volumeID=_disk, readOnly=keep, partition=keep),
    "azureDisk": fields(diskName=_disk, diskURI=_disk, kind=keep, readOnly=keep),
    "azureFile": fields(secretName=_disk, shareName=_disk, readOnly=keep),
    "cinder": fields(volumeID=_disk, readOnly=keep),
    "portworxVolume": fields(volumeID=_disk, readOnly=keep),
    "vsphereVolume": fields(volumePath=_disk),
    "iscsi": fields(iqn=_disk, targetPortal=_disk, lun=keep, readOnly=keep),
    "rbd": fields(monitors=each(_disk), image=_disk, pool=_disk, readOnly=keep),
    "hostPath": _PATH,
    "nfs": fields(server=_disk, path=name("path"), readOnly=keep),
}
_VOLUME_FIELDS = fields(
    name=name("volume"),
    persistentVolumeClaim=fields(claimName=_claim_name, readOnly=keep),
    ephemeral=fields(volumeClaimTemplate=fields(metadata=fields(labels=labels), spec=_CLAIM_SPEC)),
    image=fields(reference=_image, pullPolicy=keep),
    emptyDir=fields(medium=keep, sizeLimit=keep),
    csi=fields(driver=keep, readOnly=keep),
    **_DISKS,
)


def _volume(value: Any, names: Names) -> Any:
    if isinstance(value, dict) and value.get("ephemeral") is not None and isinstance(value.get("name"), str):
        names.ephemeral(value["name"])
    return _VOLUME_FIELDS(value, names)


_POD_SPEC = fields(
    nodeName=name("node"),
    schedulerName=keep,
    priority=keep,
    priorityClassName=name("priorityclass"),
    preemptionPolicy=keep,
    nodeSelector=labels,
    affinity=_AFFINITY,
    tolerations=each(keyed),
    topologySpreadConstraints=each(_SPREAD),
    schedulingGates=each(fields(name=name("gate"))),
    schedulingGroup=fields(podGroupName=name("podgroup")),
    initContainers=each(_CONTAINER),
    containers=each(_CONTAINER),
    volumes=each(_volume),
    resourceClaims=each(
        fields(
            name=name("podclaim"),
            resourceClaimName=name("resourceclaim"),
            resourceClaimTemplateName=name("resourceclaimtemplate"),
        )
    ),
    resources=_RESOURCES,
    overhead=keep,
    runtimeClassName=name("runtimeclass"),
    hostNetwork=keep,
    hostUsers=keep,
    os=keep,
    restartPolicy=keep,
    terminationGracePeriodSeconds=keep,
)
_CONTAINER_STATUS = fields(
    name=name("container"),
    image=constant(""),
    imageID=constant(""),
    ready=keep,
    restartCount=keep,
    allocatedResources=keep,
    resources=_RESOURCES,
)
_POD_STATUS = fields(
    phase=keep,
    conditions=_CONDITIONS,
    nominatedNodeName=name("node"),
    startTime=keep,
    qosClass=keep,
    resize=keep,
    resources=_RESOURCES,
    allocatedResources=keep,
    containerStatuses=each(_CONTAINER_STATUS),
    initContainerStatuses=each(_CONTAINER_STATUS),
    resourceClaimStatuses=each(fields(name=name("podclaim"), resourceClaimName=name("resourceclaim"))),
    extendedResourceClaimStatus=fields(
        resourceClaimName=name("resourceclaim"),
        requestMappings=each(fields(containerName=name("container"), resourceName=keep, requestName=keep)),
    ),
)
_TEMPLATE = fields(metadata=fields(labels=labels, annotations=_annotations), spec=_POD_SPEC)
_WORKLOAD_SPEC = fields(
    replicas=keep,
    selector=_SELECTOR,
    template=_TEMPLATE,
    minReadySeconds=keep,
    paused=keep,
    suspend=keep,
    strategy=keep,
    updateStrategy=keep,
    podManagementPolicy=keep,
    serviceName=name("service"),
    ordinals=keep,
    volumeClaimTemplates=each(fields(metadata=fields(name=name("volume"), labels=labels), spec=_CLAIM_SPEC)),
    parallelism=keep,
    completions=keep,
    completionMode=keep,
    backoffLimit=keep,
)
_PV_SPEC = fields(
    capacity=keep,
    accessModes=keep,
    storageClassName=name("storageclass"),
    claimRef=_claim_ref,
    nodeAffinity=fields(required=_NODE_SELECTOR),
    persistentVolumeReclaimPolicy=keep,
    volumeMode=keep,
    csi=fields(driver=keep, volumeHandle=_disk, readOnly=keep),
    local=_PATH,
    **_DISKS,
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
    nodeSelector=_NODE_SELECTOR,
    allocationTimestamp=keep,
)
_DEVICE = fields(
    name=keep,
    attributes=keep,
    capacity=keep,
    consumesCounters=keep,
    taints=keep,
    nodeName=name("node"),
    nodeSelector=_NODE_SELECTOR,
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
    return _object(domain, spec=_WORKLOAD_SPEC, status=numbers)


FIELDS: Mapping[tuple[str, str], Rule] = {
    ("", "pods"): _object("pod", spec=_POD_SPEC, status=_POD_STATUS),
    ("", "nodes"): _object(
        "node",
        spec=fields(unschedulable=keep, taints=each(keyed)),
        status=fields(
            allocatable=keep,
            capacity=keep,
            conditions=_CONDITIONS,
            declaredFeatures=keep,
            images=each(fields(names=each(_node_image), sizeBytes=keep)),
        ),
    ),
    ("", "namespaces"): _object("namespace", status=fields(phase=keep)),
    ("", "persistentvolumes"): _object("pv", spec=_PV_SPEC, status=fields(phase=keep)),
    ("", "persistentvolumeclaims"): _object(
        "claim", _claim_name, spec=_CLAIM_SPEC, status=fields(phase=keep, capacity=keep, accessModes=keep)
    ),
    ("", "services"): _object("service", spec=fields(selector=labels, type=keep, clusterIP=constant("None"))),
    ("", "replicationcontrollers"): _object(
        "replicationcontroller", spec=fields(replicas=keep, selector=labels, template=_TEMPLATE), status=numbers
    ),
    ("", "limitranges"): _object("limitrange", spec=keep),
    ("apps", "replicasets"): _workload("replicaset"),
    ("apps", "deployments"): _workload("deployment"),
    ("apps", "statefulsets"): _workload("statefulset"),
    ("apps", "daemonsets"): _workload("daemonset"),
    ("batch", "jobs"): _workload("job"),
    ("policy", "poddisruptionbudgets"): _object(
        "poddisruptionbudget",
        spec=fields(minAvailable=keep, maxUnavailable=keep, selector=_SELECTOR, unhealthyPodEvictionPolicy=keep),
        status=_budget_status,
    ),
    ("scheduling.k8s.io", "priorityclasses"): _object(
        "priorityclass", value=keep, globalDefault=keep, preemptionPolicy=keep
    ),
    ("node.k8s.io", "runtimeclasses"): _object(
        "runtimeclass",
        handler=constant("handler"),
        overhead=keep,
        scheduling=fields(nodeSelector=labels, tolerations=each(keyed)),
    ),
    ("storage.k8s.io", "storageclasses"): _object(
        "storageclass",
        provisioner=keep,
        volumeBindingMode=keep,
        reclaimPolicy=keep,
        allowVolumeExpansion=keep,
        allowedTopologies=each(_TOPOLOGY_TERM),
    ),
    ("storage.k8s.io", "csinodes"): _object(
        "node",
        spec=fields(drivers=each(fields(name=keep, nodeID=constant("node"), topologyKeys=each(key), allocatable=keep))),
    ),
    ("storage.k8s.io", "csidrivers"): _object(
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
    ("storage.k8s.io", "csistoragecapacities"): _object(
        "csistoragecapacity",
        nodeTopology=_SELECTOR,
        storageClassName=name("storageclass"),
        capacity=keep,
        maximumVolumeSize=keep,
    ),
    ("storage.k8s.io", "volumeattachments"): _object(
        "volumeattachment",
        spec=fields(attacher=keep, nodeName=name("node"), source=fields(persistentVolumeName=name("pv"))),
        status=fields(attached=keep),
    ),
    ("resource.k8s.io", "deviceclasses"): _object(
        "deviceclass", keep, spec=fields(selectors=keep, extendedResourceName=keep)
    ),
    ("resource.k8s.io", "resourceclaims"): _object(
        "resourceclaim",
        spec=_DEVICE_CLAIM,
        status=fields(
            allocation=_ALLOCATION,
            reservedFor=each(fields(apiGroup=keep, resource=keep, name=name("pod"), uid=keep)),
            devices=each(fields(driver=keep, pool=_POOL, device=keep, shareID=keep, conditions=_CONDITIONS)),
        ),
    ),
    ("resource.k8s.io", "resourceclaimtemplates"): _object(
        "resourceclaimtemplate", spec=fields(metadata=fields(labels=labels), spec=_DEVICE_CLAIM)
    ),
    ("resource.k8s.io", "resourceslices"): _object(
        "resourceslice",
        spec=fields(
            driver=keep,
            pool=fields(name=_POOL, generation=keep, resourceSliceCount=keep),
            nodeName=name("node"),
            nodeSelector=_NODE_SELECTOR,
            allNodes=keep,
            perDeviceNodeSelection=keep,
            sharedCounters=keep,
            devices=each(_DEVICE),
        ),
    ),
    ("scheduling.k8s.io", "podgroups"): _object(
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
        status=fields(conditions=_CONDITIONS),
    ),
    ("scheduling.x-k8s.io", "podgroups"): _object(
        "podgroup",
        apiVersion=keep,
        kind=keep,
        spec=fields(minMember=keep, minResources=keep, scheduleTimeoutSeconds=keep),
        status=fields(phase=keep, scheduled=keep, running=keep, succeeded=keep, failed=keep),
    ),
}
"""By group and plural."""
