"""Defaults of PodGroups. Mirrors pkg/apis/scheduling/v1alpha2 of Kubernetes."""

from __future__ import annotations

from bayplan.devcluster.apiserver.schema import Object


def default_pod_group(pod_group: Object) -> None:
    """Pods are disrupted individually."""
    pod_group["spec"].setdefault("disruptionMode", "Pod")
