"""All permissions that the shipped manifests grant, with the task that needs each, or the reason why it is unused."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from clusters import Embedded
from scheduler_tasks import (
    Task,
    allocate_devices,
    allocate_devices_as_resources,
    bind_a_volume,
    lead,
    list_and_watch,
    place_a_gang,
    place_a_gang_of_kubernetes,
    place_pods,
    preempt,
    provision_a_volume,
    serve_metrics,
)
from shipped import NAMESPACE, manifests

from bayplan.core.api.kinds import CLUSTER_ROLE, ROLE, Kind
from bayplan_devcluster.apiserver.authorization.bootstrap_policy import bootstrap_policy
from bayplan_devcluster.apiserver.authorization.rules import Rule

FILES = ("bayplan.yaml", "podgroup-crd.yaml")
"""The files of deploy/ that grant permissions."""
READ = (
    "csidrivers.storage.k8s.io",
    "csinodes.storage.k8s.io",
    "csistoragecapacities.storage.k8s.io",
    "deviceclasses.resource.k8s.io",
    "namespaces",
    "nodes",
    "persistentvolumeclaims",
    "persistentvolumes",
    "poddisruptionbudgets.policy",
    "pods",
    "replicasets.apps",
    "replicationcontrollers",
    "resourceclaims.resource.k8s.io",
    "resourceslices.resource.k8s.io",
    "services",
    "statefulsets.apps",
    "storageclasses.storage.k8s.io",
    "volumeattachments.storage.k8s.io",
)
"""The resources that the default plugins read."""

READING = "list and watch"
TASKS: Mapping[str, tuple[Task, tuple[str, ...]]] = {
    READING: (list_and_watch, tuple(f"{verb} {resource}" for resource in READ for verb in ("list", "watch"))),
    "place pods": (
        place_pods,
        (
            "create pods/binding",
            "get pods",
            "patch pods/status",
            "create events.events.k8s.io",
            "patch events.events.k8s.io",
        ),
    ),
    "preempt": (preempt, ("delete pods",)),
    "bind a volume": (bind_a_volume, ("patch persistentvolumes",)),
    "provision a volume": (provision_a_volume, ("patch persistentvolumeclaims",)),
    "allocate devices": (
        allocate_devices,
        (
            "get resourceclaims.resource.k8s.io",
            "update resourceclaims.resource.k8s.io",
            "update resourceclaims/status.resource.k8s.io",
            "update resourceclaims/binding.resource.k8s.io",
        ),
    ),
    "allocate devices as resources": (
        allocate_devices_as_resources,
        ("create resourceclaims.resource.k8s.io", "delete resourceclaims.resource.k8s.io"),
    ),
    "elect a leader": (
        lead,
        (
            "create leases.coordination.k8s.io",
            "get leases.coordination.k8s.io bayplan-scheduler",
            "update leases.coordination.k8s.io bayplan-scheduler",
        ),
    ),
    "take the lease of kube-scheduler": (
        partial(lead, lease="kube-scheduler"),
        ("get leases.coordination.k8s.io kube-scheduler", "update leases.coordination.k8s.io kube-scheduler"),
    ),
    "serve metrics": (
        serve_metrics,
        (
            "create tokenreviews.authentication.k8s.io",
            "create subjectaccessreviews.authorization.k8s.io",
            "get configmaps extension-apiserver-authentication",
            "list configmaps extension-apiserver-authentication",
            "watch configmaps extension-apiserver-authentication",
        ),
    ),
    "place a gang": (
        place_a_gang,
        (
            "list podgroups.scheduling.x-k8s.io",
            "watch podgroups.scheduling.x-k8s.io",
            "patch podgroups/status.scheduling.x-k8s.io",
        ),
    ),
    "place a gang of Kubernetes": (
        place_a_gang_of_kubernetes,
        (
            "list podgroups.scheduling.k8s.io",
            "watch podgroups.scheduling.k8s.io",
            "patch podgroups/status.scheduling.k8s.io",
        ),
    ),
}
"""The tasks of a scheduler. Each lists the permissions that it needs and the tasks before it do not need."""

UNUSED: Mapping[str, tuple[str, ...]] = {
    "is granted together with list and watch, which are sufficient": tuple(
        f"get {resource}"
        for resource in (*READ, "podgroups.scheduling.k8s.io")
        if resource not in {"pods", "resourceclaims.resource.k8s.io"}
    ),
    "is for the former API group of ReplicaSets": tuple(
        f"{verb} replicasets.extensions" for verb in ("get", "list", "watch")
    ),
    "is for the former API group of events": ("create events", "patch events", "update events"),
    "is for bindings, which are a subresource now": ("create bindings",),
    "is one of patch and update, where the other is sufficient": (
        "update events.events.k8s.io",
        "update persistentvolumeclaims",
        "update persistentvolumes",
        "update podgroups/status.scheduling.k8s.io",
        "update pods/status",
        "patch resourceclaims.resource.k8s.io",
        "patch resourceclaims/status.resource.k8s.io",
        "patch resourceclaims/binding.resource.k8s.io",
    ),
    "allows reading the status, which is read with the claim": tuple(
        f"{verb} resourceclaims/status.resource.k8s.io" for verb in ("get", "list", "watch")
    ),
    "is needed with the admission plugin OwnerReferencesPermissionEnforcement": ("update pods/finalizers",),
    "allows watching a lease, which is polled": (
        "list leases.coordination.k8s.io kube-scheduler",
        "watch leases.coordination.k8s.io kube-scheduler",
    ),
    "is for coordinated leader election, which Bayplan does not support": tuple(
        f"{verb} leasecandidates.coordination.k8s.io"
        for verb in ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
    ),
}
"""Unused permissions by reason. They are part of roles of Kubernetes, which Bayplan does not change."""


def bound_roles() -> dict[tuple[Kind, str], list[Rule]]:
    """The roles that the manifests bind, as rules of one verb and resource each, on a server that has PodGroups."""
    shipped = [manifest.document for file in FILES for manifest in manifests(file)]
    roles = {(each["kind"], each["metadata"]["name"]): each for each in (*bootstrap_policy(alpha=True), *shipped)}
    kinds = {kind.kind: kind for kind in (CLUSTER_ROLE, ROLE)}
    refs = [each["roleRef"] for each in shipped if "roleRef" in each]
    return {
        (kinds[ref["kind"]], ref["name"]): [
            single for rule in roles[ref["kind"], ref["name"]]["rules"] for single in Rule.of(rule).breakdown()
        ]
        for ref in refs
    }


def permission_of(single: Rule) -> str:
    """The permission of a single rule: `update leases.coordination.k8s.io kube-scheduler`."""
    (verb,), (group,), (resource,) = single.verbs, single.groups, single.resources
    return " ".join((verb, f"{resource}.{group}" if group else resource, *single.names))


GRANTED: Mapping[str, Rule] = {permission_of(single): single for rules in bound_roles().values() for single in rules}


async def revoke(cluster: Embedded, *permissions: str) -> None:
    """Removes permissions from all shipped roles that grant them. Earlier calls for the same role have no effect."""
    for (kind, name), rules in bound_roles().items():
        remaining: list[dict[str, Any]] = [
            single.as_resource_rule() for single in rules if permission_of(single) not in permissions
        ]
        if len(remaining) < len(rules):
            await cluster.client.patch(kind, name, {"rules": remaining}, NAMESPACE if kind is ROLE else None)
