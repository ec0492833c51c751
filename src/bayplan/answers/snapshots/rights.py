"""The kinds that a snapshot of a cluster has, what a missing one costs, and the role that allows reading them.

Secrets and ConfigMaps aren't among them: no decision depends on their contents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bayplan.core.api import kinds, kueue
from bayplan.core.api.coscheduling import ELASTIC_QUOTAS
from bayplan.core.api.coscheduling import POD_GROUPS as COSCHEDULING_POD_GROUPS
from bayplan.core.api.kinds import Kind, custom_kind
from bayplan.core.api.pod_groups import COMPOSITES, POD_GROUPS
from bayplan.core.api.provisioning import PROVISIONING_REQUEST

ROLE = "bayplan-insight"
"""The name of the ClusterRole."""

REQUIRED = (kinds.NODE, kinds.POD)
"""The kinds without which there is no answer."""

_VOLUMES = "pods with persistent volume claims seem unschedulable"
_LIMITS = "the volume limits of nodes are unknown and count as none"
_SPREADING = "the default topology spreading of its pods is not considered"
_OWNER = "its pods can't be named by their owner, and questions about it have no answer"
_DEVICES = "pods with device claims seem unschedulable"
_HELD = "room that is held for provisioning requests seems free"
_ADMISSION = "why Kueue does not admit a workload is not known"
_GANGS = "the pods of gangs seem to wait for their group"

EFFECTS: Mapping[Kind, str] = {
    kinds.NAMESPACE: "namespace selectors in pod affinity match no namespace",
    kinds.PERSISTENT_VOLUME: _VOLUMES,
    kinds.PERSISTENT_VOLUME_CLAIM: _VOLUMES,
    kinds.STORAGE_CLASS: _VOLUMES,
    kinds.CSI_NODE: _LIMITS,
    kinds.CSI_DRIVER: "storage capacity is not considered",
    kinds.CSI_STORAGE_CAPACITY: "nodes seem to have no storage for volumes whose driver reports its capacity",
    kinds.VOLUME_ATTACHMENT: "volumes that are attached, but that no pod uses, do not count toward volume limits",
    kinds.POD_DISRUPTION_BUDGET: "preemption and drain do not consider disruption budgets",
    kinds.PRIORITY_CLASS: "pods of manifests that name a priority class have priority 0",
    kinds.LIMIT_RANGE: "pods of manifests do not get the default requests of their namespace",
    kinds.RESOURCE_QUOTA: "pods of manifests are not refused where a quota is used up",
    kinds.RUNTIME_CLASS: "pods of manifests do not get the overhead of their runtime class",
    kinds.SERVICE: _SPREADING,
    kinds.REPLICATION_CONTROLLER: _SPREADING,
    kinds.REPLICA_SET: f"{_SPREADING}, and {_OWNER}",
    kinds.STATEFUL_SET: f"{_SPREADING}, and {_OWNER}",
    kinds.DEPLOYMENT: _OWNER,
    kinds.DAEMON_SET: _OWNER,
    kinds.JOB: _OWNER,
    kinds.CRON_JOB: _OWNER,
    kinds.DEVICE_CLASS: _DEVICES,
    kinds.RESOURCE_CLAIM: f"{_DEVICES}, and devices that are in use count as free",
    kinds.RESOURCE_CLAIM_TEMPLATE: "claims of manifests that name a template can't be made",
    kinds.RESOURCE_SLICE: _DEVICES,
    kinds.DEVICE_TAINT_RULE: f"{_DEVICES}, and the taints of rules don't count",
    kinds.CORE_EVENT: "why controllers can't create pods is known from the conditions of ReplicaSets only, and who "
    "preempted a pod is unknown",
    kinds.LEASE: "whether a scheduler still runs is known from the conditions of pods only",
    PROVISIONING_REQUEST: _HELD,
    kinds.POD_TEMPLATE: _HELD,
    **dict.fromkeys(kueue.NAMES, _ADMISSION),
    custom_kind(POD_GROUPS): _GANGS,
    custom_kind(COMPOSITES): "the pods of groups in composite groups seem to wait for these",
    custom_kind(COSCHEDULING_POD_GROUPS): _GANGS,
    custom_kind(ELASTIC_QUOTAS): "pods that an elastic quota has no room for seem to fit",
}
"""What it costs if a kind can't be read. These are all kinds that a snapshot has, but for the required ones."""

FOLLOWED = (*REQUIRED, *(kind for kind in EFFECTS if kind is not kinds.LEASE))
"""The kinds that a snapshot has whose changes matter. Leases change every few seconds."""

CUSTOM_EFFECT = "the plugins that read it see no objects"


def reading(which: Iterable[Kind]) -> list[dict[str, Any]]:
    """The rules of a role that may list and watch exactly these kinds."""
    by_group: dict[str, set[str]] = {}
    for kind in which:
        by_group.setdefault(kind.group, set()).add(kind.plural)
    return [
        {"apiGroups": [group], "resources": sorted(plurals), "verbs": ["list", "watch"]}
        for group, plurals in sorted(by_group.items())
    ]


def cluster_role() -> dict[str, Any]:
    """The ClusterRole that `Snapshot.from_cluster` needs: to list exactly the kinds that it reads.

    `bayplan ui` watches them, too.
    """
    return {
        "apiVersion": kinds.CLUSTER_ROLE.api_version,
        "kind": kinds.CLUSTER_ROLE.kind,
        "metadata": {"name": ROLE},
        "rules": reading((*REQUIRED, *EFFECTS)),
    }
