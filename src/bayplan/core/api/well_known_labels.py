"""Labels and annotations that Kubernetes itself sets or reads, as its documentation lists them."""

from __future__ import annotations

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
POD_TEMPLATE_HASH = "pod-template-hash"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
REVISION = "deployment.kubernetes.io/revision"
"""Of a ReplicaSet, an annotation: the number of the rollout that it is of."""
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
DEFAULT_STORAGE_CLASS = "storageclass.kubernetes.io/is-default-class"
BETA_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"
"""Of a claim or a volume, an annotation: its class, in place of the field."""
