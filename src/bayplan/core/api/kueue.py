"""The kinds of Kueue (kueue.x-k8s.io) that say why a workload isn't admitted.

Objects of v1beta1 and v1beta2 are kept in their form, in one store; what differs is read where it is needed.
"""

from __future__ import annotations

from dataclasses import replace

from bayplan.core.api.kinds import Kind, custom_kind

GROUP = "kueue.x-k8s.io"
ADMISSION_GATE = f"{GROUP}/admission"
"""The scheduling gate of pods that wait for Kueue."""
WORKLOAD_ANNOTATION = f"{GROUP}/workload"
QUEUE_LABEL = f"{GROUP}/queue-name"
PRIORITY_BOOST = f"{GROUP}/priority-boost"
"""An annotation of Workloads: what is added to the priority."""
VERSIONS = ("v1beta2", "v1beta1")
"""The versions that are read, the newest one first."""


def _kind(plural: str) -> Kind:
    return custom_kind(f"{plural}.{VERSIONS[0]}.{GROUP}")


WORKLOADS = _kind("workloads")
LOCAL_QUEUES = _kind("localqueues")
CLUSTER_QUEUES = _kind("clusterqueues")
RESOURCE_FLAVORS = _kind("resourceflavors")
COHORTS = _kind("cohorts")
ADMISSION_CHECKS = _kind("admissionchecks")

NAMES = {
    WORKLOADS: "Workload",
    LOCAL_QUEUES: "LocalQueue",
    CLUSTER_QUEUES: "ClusterQueue",
    RESOURCE_FLAVORS: "ResourceFlavor",
    COHORTS: "Cohort",
    ADMISSION_CHECKS: "AdmissionCheck",
}
"""The `kind` of the objects of each kind."""

OLDER_KINDS = {kind: tuple(replace(kind, version=version) for version in VERSIONS[1:]) for kind in NAMES}
"""kind -> the same kind in older versions"""
