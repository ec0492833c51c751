"""The Kubernetes objects that run Bayplan in a cluster: service account, permissions, configuration and Deployment.

The manifests in `deploy/` are generated from them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Document = dict[str, Any]

STOCK_LEASE = ("kube-system", "kube-scheduler")
"""(namespace, name) of the stock scheduler's lease. The cluster role `system:kube-scheduler` allows renewing it."""
CONFIGURATION_FILE = "scheduler.yaml"
FOLDER = "/etc/bayplan"
"""Where the ConfigMap is mounted in the container."""
PORT = 10259
USER = 65532

_RBAC = "rbac.authorization.k8s.io"
_CLUSTER_ROLES = {
    "system:kube-scheduler": "What a scheduler reads and writes: the role that Kubernetes provides for it.",
    "system:volume-scheduler": "Persistent volumes and claims, which a scheduler binds.",
}
_READER = "extension-apiserver-authentication-reader"
_POD_GROUP_RULES = [
    {"apiGroups": ["scheduling.x-k8s.io"], "resources": ["podgroups"], "verbs": ["list", "watch"]},
    {"apiGroups": ["scheduling.x-k8s.io"], "resources": ["podgroups/status"], "verbs": ["patch"]},
]
"""What Coscheduling reads and writes. deploy/podgroup-crd.yaml has the same rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """The deployment: image, files and namespace."""

    image: str
    name: str = "bayplan-scheduler"
    namespace: str = "kube-system"
    replicas: int = 2
    lease: tuple[str, str] | None
    """(namespace, name) of the lease for leader election; None if there is only one replica."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The configuration and plugins, by file name."""
    arguments: tuple[str, ...] = ()
    """Arguments of `bayplan run` in addition to --config."""
    pod_groups: bool = False
    """Whether a profile enables Coscheduling."""

    @property
    def labels(self) -> dict[str, str]:
        """The labels of its objects, which also select its pods."""
        return {"app.kubernetes.io/name": "bayplan", "app.kubernetes.io/instance": self.name}


def documents(deployed: Deployed) -> Iterator[tuple[str, Document]]:
    """The objects in the order of their creation, each with a comment about its purpose, or ""."""
    yield "", _object("v1", "ServiceAccount", deployed) | {"automountServiceAccountToken": False}
    for role, purpose in _CLUSTER_ROLES.items():
        yield purpose, _bound(deployed, f"{deployed.name}:{role}", "ClusterRole", role)
    if deployed.pod_groups:
        role = f"{deployed.name}:podgroups"
        head = _object(f"{_RBAC}/v1", "ClusterRole", deployed, role, namespace="")
        yield "The pod groups that Coscheduling places together.", head | {"rules": _POD_GROUP_RULES}
        yield "", _bound(deployed, role, "ClusterRole", role)
    purpose = "The CAs that sign the client certificates which the endpoints accept."
    yield purpose, _bound(deployed, f"{deployed.name}:{_READER}", "Role", _READER, "kube-system")
    yield from _lease_permissions(deployed)
    yield "", _object("v1", "ConfigMap", deployed) | {"data": dict(deployed.files)}
    budget = {
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": deployed.labels},
    }
    yield "", _object("policy/v1", "PodDisruptionBudget", deployed) | {"spec": budget}
    yield "", _object("apps/v1", "Deployment", deployed) | {"spec": _deployment(deployed)}


def _object(api_version: str, kind: str, deployed: Deployed, name: str = "", namespace: str | None = None) -> Document:
    """An object with only its metadata. The default name is `deployed.name`; namespace "" means none."""
    metadata: Document = {"name": name or deployed.name}
    home = deployed.namespace if namespace is None else namespace
    if home:
        metadata["namespace"] = home
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata | {"labels": deployed.labels}}


def _bound(deployed: Deployed, name: str, kind: str, role: str, namespace: str = "") -> Document:
    binding = _object(f"{_RBAC}/v1", "RoleBinding" if namespace else "ClusterRoleBinding", deployed, name, namespace)
    subject = {"kind": "ServiceAccount", "name": deployed.name, "namespace": deployed.namespace}
    return binding | {"roleRef": {"apiGroup": _RBAC, "kind": kind, "name": role}, "subjects": [subject]}


def _lease_permissions(deployed: Deployed) -> Iterator[tuple[str, Document]]:
    """Permissions for its lease. `system:kube-scheduler` allows creating it, but not renewing it."""
    if deployed.lease is None or deployed.lease == STOCK_LEASE:
        return
    namespace, name = deployed.lease
    role = f"{deployed.name}:lease"
    rule = {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "resourceNames": [name],
        "verbs": ["get", "update"],
    }
    yield (
        "The lease for leader election among the replicas.",
        _object(f"{_RBAC}/v1", "Role", deployed, role, namespace) | {"rules": [rule]},
    )
    yield "", _bound(deployed, role, "Role", role, namespace)


def _deployment(deployed: Deployed) -> Document:
    checksum = hashlib.sha256("\0".join(f"{k}\0{v}" for k, v in sorted(deployed.files.items())).encode()).hexdigest()
    # Without leader election, a new pod must not start before the old one has terminated.
    strategy = {} if deployed.lease is not None else {"strategy": {"type": "Recreate"}}
    return {
        "replicas": deployed.replicas,
        **strategy,
        "selector": {"matchLabels": deployed.labels},
        "template": {
            "metadata": {
                "labels": deployed.labels,
                # A changed configuration replaces the pods.
                "annotations": {"checksum/configuration": checksum[:16]},
            },
            "spec": _pod(deployed),
        },
    }


def _pod(deployed: Deployed) -> Document:
    spread = [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": deployed.labels},
            "matchLabelKeys": ["pod-template-hash"],
        }
        for key in ("kubernetes.io/hostname", "topology.kubernetes.io/zone")
    ]
    return {
        "serviceAccountName": deployed.name,
        "automountServiceAccountToken": True,
        "priorityClassName": "system-cluster-critical",
        "topologySpreadConstraints": spread,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(deployed)],
        "volumes": [
            {"name": "configuration", "configMap": {"name": deployed.name}},
            # The only writable volume.
            {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "4Mi"}},
        ],
    }


def _container(deployed: Deployed) -> Document:
    return {
        "name": "scheduler",
        "image": deployed.image,
        "args": ["run", f"--config={FOLDER}/{CONFIGURATION_FILE}", *deployed.arguments, "--v=2"],
        "ports": [{"name": "https", "containerPort": PORT}],
        "startupProbe": _probe("/livez", periodSeconds=5, failureThreshold=24),
        "livenessProbe": _probe("/livez", periodSeconds=10, failureThreshold=6, timeoutSeconds=15),
        "readinessProbe": _probe("/readyz", periodSeconds=5, failureThreshold=3),
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "configuration", "mountPath": FOLDER, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - a path in the container
        ],
    }


def _probe(path: str, **limits: int) -> Document:
    return {"httpGet": {"path": path, "port": "https", "scheme": "HTTPS"}, **limits}
