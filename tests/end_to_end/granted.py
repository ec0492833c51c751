"""The rights that the shipped manifests give, one by one: for what each is needed, or why it is there unused."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from clusters import Embedded
from errands import (
    Errand,
    allocate_devices,
    allocate_devices_as_resources,
    bind_a_volume,
    get_to_know_the_cluster,
    have_a_volume_made,
    lead,
    make_room,
    place_a_gang,
    place_a_gang_of_kubernetes_own,
    place_pods,
    serve_metrics,
)
from shipped import NAMESPACE, manifests

from bayplan.api.kinds import CLUSTER_ROLE, ROLE, Kind
from bayplan.devcluster.apiserver.authorization.bootstrap_policy import bootstrap_policy
from bayplan.devcluster.apiserver.authorization.rules import Rule

FILES = ("bayplan.yaml", "podgroup-crd.yaml")
"""Those of deploy/ that give rights."""
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
"""What the default plugins want to know."""

ERRANDS: Mapping[str, tuple[Errand, tuple[str, ...]]] = {
    "getting to know the cluster": (
        get_to_know_the_cluster,
        tuple(f"{verb} {resource}" for resource in READ for verb in ("list", "watch")),
    ),
    "placing pods": (
        place_pods,
        (
            "create pods/binding",
            "get pods",
            "patch pods/status",
            "create events.events.k8s.io",
            "patch events.events.k8s.io",
        ),
    ),
    "making room": (make_room, ("delete pods",)),
    "binding a volume": (bind_a_volume, ("patch persistentvolumes",)),
    "having a volume made": (have_a_volume_made, ("patch persistentvolumeclaims",)),
    "allocating devices": (
        allocate_devices,
        (
            "get resourceclaims.resource.k8s.io",
            "update resourceclaims.resource.k8s.io",
            "update resourceclaims/status.resource.k8s.io",
            "update resourceclaims/binding.resource.k8s.io",
        ),
    ),
    "allocating devices as resources": (
        allocate_devices_as_resources,
        ("create resourceclaims.resource.k8s.io", "delete resourceclaims.resource.k8s.io"),
    ),
    "electing a leader": (
        lead,
        (
            "create leases.coordination.k8s.io",
            "get leases.coordination.k8s.io bayplan-scheduler",
            "update leases.coordination.k8s.io bayplan-scheduler",
        ),
    ),
    "taking the lead from the stock scheduler": (
        partial(lead, lease="kube-scheduler"),
        ("get leases.coordination.k8s.io kube-scheduler", "update leases.coordination.k8s.io kube-scheduler"),
    ),
    "serving metrics": (
        serve_metrics,
        (
            "create tokenreviews.authentication.k8s.io",
            "create subjectaccessreviews.authorization.k8s.io",
            "get configmaps extension-apiserver-authentication",
            "list configmaps extension-apiserver-authentication",
            "watch configmaps extension-apiserver-authentication",
        ),
    ),
    "placing a gang": (
        place_a_gang,
        (
            "list podgroups.scheduling.x-k8s.io",
            "watch podgroups.scheduling.x-k8s.io",
            "patch podgroups/status.scheduling.x-k8s.io",
        ),
    ),
    "placing a gang of Kubernetes' own": (
        place_a_gang_of_kubernetes_own,
        (
            "list podgroups.scheduling.k8s.io",
            "watch podgroups.scheduling.k8s.io",
            "patch podgroups/status.scheduling.k8s.io",
        ),
    ),
}
"""What a scheduler does, and the rights that it takes beside those of the errands before."""

UNUSED: Mapping[str, tuple[str, ...]] = {
    "comes with the rights to list and watch, which are all that it takes": tuple(
        f"get {resource}"
        for resource in (*READ, "podgroups.scheduling.k8s.io")
        if resource not in {"pods", "resourceclaims.resource.k8s.io"}
    ),
    "is of the time when ReplicaSets were in another group": tuple(
        f"{verb} replicasets.extensions" for verb in ("get", "list", "watch")
    ),
    "is of the time when events were in another group": ("create events", "patch events", "update events"),
    "is of the time when bindings were no subresource": ("create bindings",),
    "is the other one of patch and update, of which one is enough": (
        "update events.events.k8s.io",
        "update persistentvolumeclaims",
        "update persistentvolumes",
        "update podgroups/status.scheduling.k8s.io",
        "update pods/status",
        "patch resourceclaims.resource.k8s.io",
        "patch resourceclaims/status.resource.k8s.io",
        "patch resourceclaims/binding.resource.k8s.io",
    ),
    "lets read what is read with the whole claim": tuple(
        f"{verb} resourceclaims/status.resource.k8s.io" for verb in ("get", "list", "watch")
    ),
    "is asked for where the admission plugin OwnerReferencesPermissionEnforcement is on": ("update pods/finalizers",),
    "lets watch a lease, which is looked at now and then": (
        "list leases.coordination.k8s.io kube-scheduler",
        "watch leases.coordination.k8s.io kube-scheduler",
    ),
    "lets take part in coordinated leader election, which Bayplan has not": tuple(
        f"{verb} leasecandidates.coordination.k8s.io"
        for verb in ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
    ),
}
"""What Kubernetes' roles give beside, by the reason why nobody asks for it: these roles are not Bayplan's to change."""


def bound_roles() -> dict[tuple[Kind, str], list[Rule]]:
    """The roles that the manifests bind, their rules broken down, on a server that has PodGroups of its own."""
    shipped = [manifest.document for file in FILES for manifest in manifests(file)]
    there = {(each["kind"], each["metadata"]["name"]): each for each in (*bootstrap_policy(alpha=True), *shipped)}
    kinds = {kind.kind: kind for kind in (CLUSTER_ROLE, ROLE)}
    refs = [each["roleRef"] for each in shipped if "roleRef" in each]
    return {
        (kinds[ref["kind"]], ref["name"]): [
            single for rule in there[ref["kind"], ref["name"]]["rules"] for single in Rule.of(rule).broken_down()
        ]
        for ref in refs
    }


def told(single: Rule) -> str:
    """A rule that was broken down as the right that it gives: `update leases.coordination.k8s.io kube-scheduler`."""
    (verb,), (group,), (resource,) = single.verbs, single.groups, single.resources
    return " ".join((verb, f"{resource}.{group}" if group else resource, *single.names))


GRANTED: Mapping[str, Rule] = {told(single): single for rules in bound_roles().values() for single in rules}


async def take_away(cluster: Embedded, right: str) -> None:
    """From all the roles that give it."""
    for (kind, name), rules in bound_roles().items():
        left: list[dict[str, Any]] = [single.as_resource_rule() for single in rules if told(single) != right]
        if len(left) < len(rules):
            await cluster.client.patch(kind, name, {"rules": left}, NAMESPACE if kind is ROLE else None)
