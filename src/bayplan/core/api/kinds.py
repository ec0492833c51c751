"""The table of Kubernetes kinds: names, scope and typed model.

The client, the embedded API server and the command line all read this table. Mirrors the discovery documents of
kube-apiserver 1.36, and of 1.37 where they differ.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from bayplan.core.api.models import model_named
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.core.api import custom_objects


@dataclass(frozen=True, slots=True)
class Kind:
    """A resource of the API.

    `model` is the msgspec type, see `models.model_named`; "" for a custom resource.
    """

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    model: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    status: bool = False
    """Whether the kind has a `status` subresource."""

    def __hash__(self) -> int:
        return hash(self.plural)  # every decision looks kinds up, and hashing all fields takes ten times as long

    @property
    def api_version(self) -> str:
        """The `apiVersion` of its objects, such as `v1` or `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """The name in messages and RBAC rules, such as `pods` or `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The URL path of a collection, an object or a subresource. `namespace` is ignored for cluster-scoped kinds."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if self.namespaced and namespace is not None:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part is not None]
        return "/".join(parts)

    @property
    def type(self) -> type[Any]:
        """The type of the kind's objects."""
        if not self.model:
            return custom_objects.CustomObject
        found = model_named(self.model)
        assert found is not None, self.model
        return found


def _kind(
    api_version: str,
    kind: str,
    plural: str,
    *short_names: str,
    namespaced: bool = True,
    status: bool = False,
    category: str = "",
    singular: str | None = None,
    model: str | None = None,
) -> Kind:
    group, _, version = api_version.rpartition("/")
    module = f"{group.split('.')[0] or 'core'}_{version}"
    return Kind(
        group=group,
        version=version,
        kind=kind,
        plural=plural,
        singular=singular or kind.lower(),
        namespaced=namespaced,
        model=model or f"{module}.{kind}",
        short_names=short_names,
        categories=(category,) if category else (),
        status=status,
    )


POD = _kind("v1", "Pod", "pods", "po", status=True, category="all")
NODE = _kind("v1", "Node", "nodes", "no", namespaced=False, status=True)
NAMESPACE = _kind("v1", "Namespace", "namespaces", "ns", namespaced=False, status=True)
SERVICE = _kind("v1", "Service", "services", "svc", status=True, category="all")
REPLICATION_CONTROLLER = _kind(
    "v1", "ReplicationController", "replicationcontrollers", "rc", status=True, category="all"
)
EVENT = _kind("events.k8s.io/v1", "Event", "events", "ev")
CORE_EVENT = _kind("v1", "Event", "events", "ev")
CONFIG_MAP = _kind("v1", "ConfigMap", "configmaps", "cm")
SECRET = _kind("v1", "Secret", "secrets")
LIMIT_RANGE = _kind("v1", "LimitRange", "limitranges", "limits")
RESOURCE_QUOTA = _kind("v1", "ResourceQuota", "resourcequotas", "quota", status=True)
ENDPOINTS = _kind("v1", "Endpoints", "endpoints", "ep", singular="endpoints")
POD_TEMPLATE = _kind("v1", "PodTemplate", "podtemplates")
SERVICE_ACCOUNT = _kind("v1", "ServiceAccount", "serviceaccounts", "sa")
ROLE = _kind("rbac.authorization.k8s.io/v1", "Role", "roles")
ROLE_BINDING = _kind("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings")
CLUSTER_ROLE = _kind("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", namespaced=False)
CLUSTER_ROLE_BINDING = _kind(
    "rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False
)
CUSTOM_RESOURCE_DEFINITION = _kind(
    "apiextensions.k8s.io/v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    "crd",
    "crds",
    namespaced=False,
    status=True,
    category="api-extensions",
)
LEASE = _kind("coordination.k8s.io/v1", "Lease", "leases")
PRIORITY_CLASS = _kind("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", "pc", namespaced=False)
POD_DISRUPTION_BUDGET = _kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", "pdb", status=True)
REPLICA_SET = _kind("apps/v1", "ReplicaSet", "replicasets", "rs", status=True, category="all")
DEPLOYMENT = _kind("apps/v1", "Deployment", "deployments", "deploy", status=True, category="all")
STATEFUL_SET = _kind("apps/v1", "StatefulSet", "statefulsets", "sts", status=True, category="all")
DAEMON_SET = _kind("apps/v1", "DaemonSet", "daemonsets", "ds", status=True, category="all")
CONTROLLER_REVISION = _kind("apps/v1", "ControllerRevision", "controllerrevisions")
JOB = _kind("batch/v1", "Job", "jobs", status=True, category="all")
CRON_JOB = _kind("batch/v1", "CronJob", "cronjobs", "cj", status=True, category="all")
PERSISTENT_VOLUME = _kind("v1", "PersistentVolume", "persistentvolumes", "pv", namespaced=False, status=True)
PERSISTENT_VOLUME_CLAIM = _kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims", "pvc", status=True)
ENDPOINT_SLICE = _kind("discovery.k8s.io/v1", "EndpointSlice", "endpointslices")
INGRESS = _kind("networking.k8s.io/v1", "Ingress", "ingresses", "ing", status=True)
INGRESS_CLASS = _kind("networking.k8s.io/v1", "IngressClass", "ingressclasses", namespaced=False)
NETWORK_POLICY = _kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", "netpol")
HORIZONTAL_POD_AUTOSCALER = _kind(
    "autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "hpa", status=True, category="all"
)
RUNTIME_CLASS = _kind("node.k8s.io/v1", "RuntimeClass", "runtimeclasses", namespaced=False)
CERTIFICATE_SIGNING_REQUEST = _kind(
    "certificates.k8s.io/v1",
    "CertificateSigningRequest",
    "certificatesigningrequests",
    "csr",
    namespaced=False,
    status=True,
)
(
    VALIDATING_WEBHOOK_CONFIGURATION,
    MUTATING_WEBHOOK_CONFIGURATION,
    VALIDATING_ADMISSION_POLICY,
    VALIDATING_ADMISSION_POLICY_BINDING,
    MUTATING_ADMISSION_POLICY,
    MUTATING_ADMISSION_POLICY_BINDING,
) = (
    _kind(
        "admissionregistration.k8s.io/v1",
        name,
        plural,
        namespaced=False,
        status=name == "ValidatingAdmissionPolicy",
        category="api-extensions",
    )
    for name, plural in (
        ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
        ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
        ("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
        ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
        ("MutatingAdmissionPolicy", "mutatingadmissionpolicies"),
        ("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings"),
    )
)
FLOW_SCHEMA = _kind("flowcontrol.apiserver.k8s.io/v1", "FlowSchema", "flowschemas", namespaced=False, status=True)
PRIORITY_LEVEL_CONFIGURATION = _kind(
    "flowcontrol.apiserver.k8s.io/v1",
    "PriorityLevelConfiguration",
    "prioritylevelconfigurations",
    namespaced=False,
    status=True,
)
IP_ADDRESS = _kind("networking.k8s.io/v1", "IPAddress", "ipaddresses", "ip", namespaced=False)
SERVICE_CIDR = _kind("networking.k8s.io/v1", "ServiceCIDR", "servicecidrs", namespaced=False, status=True)
API_SERVICE = _kind(
    "apiregistration.k8s.io/v1", "APIService", "apiservices", namespaced=False, status=True, category="api-extensions"
)
STORAGE_CLASS = _kind("storage.k8s.io/v1", "StorageClass", "storageclasses", "sc", namespaced=False)
CSI_NODE = _kind("storage.k8s.io/v1", "CSINode", "csinodes", namespaced=False)
CSI_DRIVER = _kind("storage.k8s.io/v1", "CSIDriver", "csidrivers", namespaced=False)
CSI_STORAGE_CAPACITY = _kind("storage.k8s.io/v1", "CSIStorageCapacity", "csistoragecapacities")
VOLUME_ATTRIBUTES_CLASS = _kind(
    "storage.k8s.io/v1", "VolumeAttributesClass", "volumeattributesclasses", "vac", namespaced=False
)
VOLUME_ATTACHMENT = _kind("storage.k8s.io/v1", "VolumeAttachment", "volumeattachments", namespaced=False, status=True)
DEVICE_CLASS = _kind("resource.k8s.io/v1", "DeviceClass", "deviceclasses", namespaced=False)
RESOURCE_CLAIM = _kind("resource.k8s.io/v1", "ResourceClaim", "resourceclaims", status=True)
RESOURCE_CLAIM_TEMPLATE = _kind("resource.k8s.io/v1", "ResourceClaimTemplate", "resourceclaimtemplates")
RESOURCE_SLICE = _kind("resource.k8s.io/v1", "ResourceSlice", "resourceslices", namespaced=False)

KINDS: tuple[Kind, ...] = tuple(value for value in globals().values() if isinstance(value, Kind))
"""All kinds above, in the order of the table."""

DEVICE_TAINT_RULE = _kind("resource.k8s.io/v1", "DeviceTaintRule", "devicetaintrules", namespaced=False, status=True)
DEVICE_TAINT_RULE_V1BETA2 = replace(DEVICE_TAINT_RULE, version="v1beta2")

TYPED_KINDS = (*KINDS, DEVICE_TAINT_RULE)
"""The kinds whose objects the scheduler reads as typed values: those that servers of some versions lack, too."""

WORKLOAD = _kind("scheduling.k8s.io/v1beta1", "Workload", "workloads")
POD_GROUP = _kind("scheduling.k8s.io/v1beta1", "PodGroup", "podgroups", status=True)
COMPOSITE_POD_GROUP = _kind("scheduling.k8s.io/v1alpha3", "CompositePodGroup", "compositepodgroups", status=True)
WORKLOAD_V1ALPHA2 = _kind("scheduling.k8s.io/v1alpha2", "Workload", "workloads")
POD_GROUP_V1ALPHA2 = _kind("scheduling.k8s.io/v1alpha2", "PodGroup", "podgroups", status=True)

ADDED_KINDS: Mapping[str, tuple[Kind, ...]] = {"1.36": (), "1.37": (DEVICE_TAINT_RULE,)}
"""Kinds that kube-apiserver serves in addition to KINDS, by its version."""

GATED_KINDS: Mapping[str, tuple[Kind, ...]] = {
    "1.36": (WORKLOAD_V1ALPHA2, POD_GROUP_V1ALPHA2),
    "1.37": (WORKLOAD, POD_GROUP, COMPOSITE_POD_GROUP),
}
"""Kinds that kube-apiserver serves only with a feature gate, by its version: GenericWorkload, CompositePodGroup."""

ALPHA_KINDS: tuple[Kind, ...] = tuple(kind for kinds in GATED_KINDS.values() for kind in kinds)
"""The gated kinds of all versions."""

VERSIONED_KINDS: tuple[Kind, ...] = (*(kind for kinds in ADDED_KINDS.values() for kind in kinds), *ALPHA_KINDS)
"""The kinds that not all versions serve."""

_NAMES = {(kind.api_version, kind.plural): kind.kind for kind in ALPHA_KINDS}

_REFERENCE = re.compile(r"(?P<plural>[a-z0-9-]+)\.(?P<version>v[0-9]+[a-z0-9]*)\.(?P<group>[a-z0-9.-]+)")


def taint_rule_kind(version: str) -> Kind:
    """The DeviceTaintRules that kube-apiserver of a version serves, in 1.36 only with the gate DRADeviceTaintRules."""
    return DEVICE_TAINT_RULE if DEVICE_TAINT_RULE in ADDED_KINDS[version] else DEVICE_TAINT_RULE_V1BETA2


def kind_of(reference: str) -> Kind:
    """The kind for a name such as `Pod` or a reference `plural.version.group`. Raises ValueError."""
    for kind in TYPED_KINDS:
        if kind.kind == reference:
            return kind
    return custom_kind(reference)


def name_of(kind: Kind) -> str:
    """The `kind` field of a kind's objects. A custom kind doesn't have it, but for those that kube-apiserver serves."""
    return _NAMES.get((kind.api_version, kind.plural), kind.kind)


def custom_kind(reference: str, *, namespaced: bool = True) -> Kind:
    """The custom kind for `plural.version.group`, such as `podgroups.v1alpha1.scheduling.x-k8s.io`.

    Its objects are `CustomObject`s. Raises ValueError for a malformed reference.
    """
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        raise ValueError(
            f"{reference!r} is not a kind: expected a built-in kind such as Pod, or plural.version.group such as "
            "podgroups.v1alpha1.scheduling.x-k8s.io"
        )
    return Kind(
        group=match["group"],
        version=match["version"],
        kind=reference,  # only the server knows the kind's own name
        plural=match["plural"],
        singular=match["plural"],
        namespaced=namespaced,
        model="",
    )
