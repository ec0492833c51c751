"""The fields of pods, and of pod templates, that a redacted snapshot keeps."""

from __future__ import annotations

from typing import Any

from bayplan.answers.snapshots.redaction.names import Names
from bayplan.answers.snapshots.redaction.rules import (
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
    key,
    keyed,
    known_annotations,
    labels,
    name,
    profile_path,
    request,
    resource_name,
    verbatim,
    words,
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
    preferredDuringSchedulingIgnoredDuringExecution=each(fields("weight", podAffinityTerm=_TERM)),
)
NODE_AFFINITY = fields(
    requiredDuringSchedulingIgnoredDuringExecution=NODE_SELECTOR,
    preferredDuringSchedulingIgnoredDuringExecution=each(fields("weight", preference=NODE_TERM)),
)
_AFFINITY = fields(
    nodeAffinity=NODE_AFFINITY,
    podAffinity=_POD_AFFINITY,
    podAntiAffinity=_POD_AFFINITY,
)
_SPREAD = fields(
    "maxSkew minDomains whenUnsatisfiable nodeAffinityPolicy nodeTaintsPolicy",
    topologyKey=key,
    labelSelector=SELECTOR,
    matchLabelKeys=each(key),
)


def _security(value: Any, names: Names) -> Any:
    """The seccomp profile of a security context, if it is one of the cluster's own."""
    return _SECCOMP(value, names) or None


_SECCOMP = fields(seccompProfile=fields(type=words("Localhost"), localhostProfile=profile_path))
_CONTAINER = fields(
    "restartPolicy resizePolicy",
    securityContext=_security,
    name=name("container"),
    image=image,
    resources=RESOURCES,
    ports=each(fields("hostPort containerPort protocol", hostIP=host_ip)),
    restartPolicyRules=each(fields("action exitCodes")),
)
CLAIM_SPEC = fields(
    "accessModes volumeMode",
    resources=RESOURCES,
    storageClassName=name("storageclass"),
    volumeName=name("pv"),
    selector=SELECTOR,
)
PATH = fields("type", path=name("path"))
DISKS = {
    "gcePersistentDisk": fields("readOnly partition", pdName=disk),
    "awsElasticBlockStore": fields("readOnly partition", volumeID=disk),
    "azureDisk": fields("kind readOnly", diskName=disk, diskURI=disk),
    "azureFile": fields("readOnly", secretName=disk, shareName=disk),
    "cinder": fields("readOnly", volumeID=disk),
    "portworxVolume": fields("readOnly", volumeID=disk),
    "vsphereVolume": fields(volumePath=disk),
    "iscsi": fields("lun readOnly", iqn=disk, targetPortal=disk),
    "rbd": fields("readOnly", monitors=each(disk), image=disk, pool=disk),
    "hostPath": PATH,
    "nfs": fields("readOnly", server=disk, path=name("path")),
}
_VOLUME_FIELDS = fields(
    name=name("volume"),
    persistentVolumeClaim=fields("readOnly", claimName=claim_name),
    ephemeral=fields(volumeClaimTemplate=fields(metadata=fields(labels=labels), spec=CLAIM_SPEC)),
    image=fields("pullPolicy", reference=image),
    emptyDir=fields("medium sizeLimit"),
    csi=fields("readOnly", driver=verbatim),
    **DISKS,
)


def _volume(value: Any, names: Names) -> Any:
    if isinstance(value, dict) and value.get("ephemeral") is not None and isinstance(value.get("name"), str):
        names.ephemeral(value["name"])
    return _VOLUME_FIELDS(value, names)


CLAIM_REFERENCES = each(
    fields(
        name=name("podclaim"),
        resourceClaimName=name("resourceclaim"),
        resourceClaimTemplateName=name("resourceclaimtemplate"),
    )
)
"""`spec.resourceClaims` of pods and PodGroups."""

CLAIM_STATUSES = each(fields(name=name("podclaim"), resourceClaimName=name("resourceclaim")))
"""`status.resourceClaimStatuses` of pods and PodGroups."""

POD_SPEC = fields(
    "priority preemptionPolicy hostNetwork hostUsers restartPolicy terminationGracePeriodSeconds activeDeadlineSeconds",
    nodeName=name("node"),
    schedulerName=verbatim,
    priorityClassName=name("priorityclass"),
    nodeSelector=labels,
    affinity=_AFFINITY,
    tolerations=each(keyed),
    topologySpreadConstraints=each(_SPREAD),
    schedulingGates=each(fields(name=name("gate"))),
    schedulingGroup=fields(podGroupName=name("podgroup")),
    initContainers=each(_CONTAINER),
    containers=each(_CONTAINER),
    volumes=each(_volume),
    resourceClaims=CLAIM_REFERENCES,
    resources=RESOURCES,
    overhead=amounts,
    runtimeClassName=name("runtimeclass"),
    securityContext=_security,
    os=fields("name"),
)
_CONTAINER_STATUS = fields(
    "ready restartCount",
    name=name("container"),
    image=constant(""),
    imageID=constant(""),
    allocatedResources=amounts,
    resources=RESOURCES,
)
POD_STATUS = fields(
    "phase startTime qosClass resize",
    conditions=CONDITIONS,
    nominatedNodeName=name("node"),
    resources=RESOURCES,
    allocatedResources=amounts,
    containerStatuses=each(_CONTAINER_STATUS),
    initContainerStatuses=each(_CONTAINER_STATUS),
    resourceClaimStatuses=CLAIM_STATUSES,
    nodeAllocatableResourceClaimStatuses=each(
        fields(
            resourceClaimName=name("resourceclaim"),
            containers=each(name("container")),
            resources=amounts,
            mapping=each(fields("quantity", name=resource_name)),
            overhead=each(fields("perPod perContainer", name=resource_name)),
        )
    ),
    extendedResourceClaimStatus=fields(
        resourceClaimName=name("resourceclaim"),
        requestMappings=each(fields(containerName=name("container"), resourceName=resource_name, requestName=request)),
    ),
)
TEMPLATE = fields(metadata=fields(labels=labels, annotations=known_annotations), spec=POD_SPEC)
