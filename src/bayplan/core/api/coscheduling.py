"""The custom resources of scheduler-plugins, and the labels with which pods name or define a group."""

POD_GROUPS = "podgroups.v1alpha1.scheduling.x-k8s.io"
ELASTIC_QUOTAS = "elasticquotas.v1alpha1.scheduling.x-k8s.io"
POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
LIGHTWEIGHT_PREFIX = "pod-group.scheduling.sigs.k8s.io"
LIGHTWEIGHT_LABEL = f"{LIGHTWEIGHT_PREFIX}/name"
MIN_AVAILABLE_LABEL = f"{LIGHTWEIGHT_PREFIX}/min-available"
