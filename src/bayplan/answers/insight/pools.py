"""The zone, the node pool and the instance type of a node, by its labels."""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.core.api.well_known_labels import ZONE

POOLS = (
    "karpenter.sh/nodepool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "alpha.eksctl.io/nodegroup-name",
    "kubernetes.azure.com/agentpool",
    "agentpool",
    "kops.k8s.io/instancegroup",
    "doks.digitalocean.com/node-pool",
    "oci.oraclecloud.com/node-pool-name",
    "ibm-cloud.kubernetes.io/worker-pool-name",
    "machine.openshift.io/machine-set",
    "node-pool",
    "nodepool",
    "pool",
)
"""Labels that name a node pool, of managed Kubernetes services and autoscalers first. A node's first one counts."""

INSTANCE_TYPES = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")


def zone_of(labels: Mapping[str, str]) -> str:
    """Return the zone; "" if the node has no label for it."""
    return labels.get(ZONE, "")


def pool_of(labels: Mapping[str, str]) -> str:
    """Return the node pool; "" if the node has none of the labels."""
    return next((labels[key] for key in POOLS if key in labels), "")


def type_of(labels: Mapping[str, str]) -> str:
    """Return the instance type of a node; "" if no label names it."""
    return next((labels[key] for key in INSTANCE_TYPES if key in labels), "")
