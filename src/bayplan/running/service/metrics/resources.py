"""Requests and limits of each pod. Mirrors pkg/scheduler/metrics/resources/resources.go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from lightkube.models.core_v1 import Pod
from prometheus_client.core import GaugeMetricFamily, Metric

from bayplan.core.api import requests
from bayplan.core.api.quantity import InvalidQuantity
from bayplan.core.cluster.pod_info import PodInfo

_LABELS = ("namespace", "pod", "node", "scheduler", "priority", "resource", "unit")
_NANO = 10**9


class PodResourcesCollector:
    """kube_pod_resource_request and kube_pod_resource_limit. `pods` returns all that have not terminated."""

    def __init__(self, pods: Callable[[], Sequence[PodInfo]]) -> None:
        self._pods = pods

    def collect(self) -> Iterator[Metric]:
        """One sample for each pod and resource whose amount is not zero."""
        requested = GaugeMetricFamily(
            "kube_pod_resource_request",
            "Resources that the pod requests, as the scheduler counts them.",
            labels=_LABELS,
        )
        limited = GaugeMetricFamily("kube_pod_resource_limit", "Resource limits of the pod.", labels=_LABELS)
        for info in self._pods():
            pod = info.object
            priority = pod.spec.priority if pod.spec is not None else None
            head = (
                info.namespace,
                info.name,
                info.node_name,
                info.scheduler_name,
                "" if priority is None else str(priority),
            )
            for family, amounts in ((requested, requests.pod_requests(pod)), (limited, _limits(pod))):
                for name, nanos in amounts.items():
                    if nanos:
                        family.add_metric((*head, name, _unit(name)), nanos / _NANO)
        yield requested
        yield limited


def _limits(pod: Pod) -> requests.Amounts:
    try:
        return requests.pod_limits(pod)
    except InvalidQuantity:  # decisions use only requests, so limits have not been validated
        return {}


def _unit(resource: str) -> str:
    if resource == requests.CPU:
        return "cores"
    if resource in {requests.MEMORY, "storage", requests.EPHEMERAL_STORAGE} or resource.startswith("hugepages-"):
        return "bytes"
    return "integer" if resource.startswith("attachable-volumes-") else ""
