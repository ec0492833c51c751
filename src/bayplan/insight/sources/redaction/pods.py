"""The fields of pods, and of pod templates, that a redacted snapshot keeps."""

from __future__ import annotations

from typing import Any

from bayplan.insight.sources.redaction.names import Names
from bayplan.insight.sources.redaction.rules import (
    CONDITIONS,
    NODE_SELECTOR,
    NODE_TERM,
    SELECTOR,
    amounts,
    claim_name,
    constant,
    disk,
    each,
    fields,
    host_ip,
    image,
    keep,
    key,
    keyed,
    known_annotations,
    labels,
    name,
    request,
    resource_name,
    verbatim,
)

RESOURCES = fields(requests=amounts, limits=amounts, claims=each(fields(name=name("podclaim"), request=request)))
_TERM = fields(
    topologyKey=key,
    labelSelector=SELECTOR,
    namespaceSelector=SELECTOR,
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
        requiredDuringSchedulingIgnoredDuringExecution=NODE_SELECTOR,
        preferredDuringSchedulingIgnoredDuringExecution=each(fields(weight=keep, preference=NODE_TERM)),
    ),
    podAffinity=_POD_AFFINITY,
    podAntiAffinity=_POD_AFFINITY,
)
_SPREAD = fields(
    maxSkew=keep,
    minDomains=keep,
    topologyKey=key,
    whenUnsatisfiable=keep,
    labelSelector=SELECTOR,
    matchLabelKeys=each(key),
    nodeAffinityPolicy=keep,
    nodeTaintsPolicy=keep,
)
_CONTAINER = fields(
    name=name("container"),
    image=image,
    resources=RESOURCES,
    ports=each(fields(hostPort=keep, hostIP=host_ip, containerPort=keep, protocol=keep)),
    restartPolicy=keep,
    restartPolicyRules=each(fields(action=keep, exitCodes=keep)),
    resizePolicy=keep,
)
CLAIM_SPEC = fields(
    accessModes=keep,
    resources=RESOURCES,
    storageClassName=name("storageclass"),
    volumeName=name("pv"),
    volumeMode=keep,
    selector=SELECTOR,
)
PATH = fields(path=name("path"), type=keep)
DISKS = {
    "gcePersistentDisk": fields(pdName=disk, readOnly=keep, partition=keep),
    "awsElasticBlockStore": fields(volumeID=disk, readOnly=keep, partition=keep),
    "azureDisk": fields(diskName=disk, diskURI=disk, kind=keep, readOnly=keep),
    "azureFile": fields(secretName=disk, shareName=disk, readOnly=keep),
    "cinder": fields(volumeID=disk, readOnly=keep),
    "portworxVolume": fields(volumeID=disk, readOnly=keep),
    "vsphereVolume": fields(volumePath=disk),
    "iscsi": fields(iqn=disk, targetPortal=disk, lun=keep, readOnly=keep),
    "rbd": fields(monitors=each(disk), image=disk, pool=disk, readOnly=keep),
    "hostPath": PATH,
    "nfs": fields(server=disk, path=name("path"), readOnly=keep),
}
_VOLUME_FIELDS = fields(
    name=name("volume"),
    persistentVolumeClaim=fields(claimName=claim_name, readOnly=keep),
    ephemeral=fields(volumeClaimTemplate=fields(metadata=fields(labels=labels), spec=CLAIM_SPEC)),
    image=fields(reference=image, pullPolicy=keep),
    emptyDir=fields(medium=keep, sizeLimit=keep),
    csi=fields(driver=verbatim, readOnly=keep),
    **DISKS,
)


def _volume(value: Any, names: Names) -> Any:
    if isinstance(value, dict) and value.get("ephemeral") is not None and isinstance(value.get("name"), str):
        names.ephemeral(value["name"])
    return _VOLUME_FIELDS(value, names)


POD_SPEC = fields(
    nodeName=name("node"),
    schedulerName=verbatim,
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
    resources=RESOURCES,
    overhead=amounts,
    runtimeClassName=name("runtimeclass"),
    hostNetwork=keep,
    hostUsers=keep,
    os=fields(name=keep),
    restartPolicy=keep,
    terminationGracePeriodSeconds=keep,
)
_CONTAINER_STATUS = fields(
    name=name("container"),
    image=constant(""),
    imageID=constant(""),
    ready=keep,
    restartCount=keep,
    allocatedResources=amounts,
    resources=RESOURCES,
)
POD_STATUS = fields(
    phase=keep,
    conditions=CONDITIONS,
    nominatedNodeName=name("node"),
    startTime=keep,
    qosClass=keep,
    resize=keep,
    resources=RESOURCES,
    allocatedResources=amounts,
    containerStatuses=each(_CONTAINER_STATUS),
    initContainerStatuses=each(_CONTAINER_STATUS),
    resourceClaimStatuses=each(fields(name=name("podclaim"), resourceClaimName=name("resourceclaim"))),
    extendedResourceClaimStatus=fields(
        resourceClaimName=name("resourceclaim"),
        requestMappings=each(fields(containerName=name("container"), resourceName=resource_name, requestName=request)),
    ),
)
TEMPLATE = fields(metadata=fields(labels=labels, annotations=known_annotations), spec=POD_SPEC)
