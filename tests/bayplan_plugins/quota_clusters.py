"""Clusters with ElasticQuotas."""

from bayplan.core.framework.profile import Point
from bayplan.plugin import ELASTIC_QUOTAS, CustomObject
from bayplan.testing import make_cluster, make_pod
from bayplan_plugins.capacity_scheduling.plugin import CapacityScheduling

GPU = "nvidia.com/gpu"
CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - plugins:
      multiPoint: {enabled: [{name: CapacityScheduling}]}
      postFilter: {enabled: [{name: CapacityScheduling}], disabled: [{name: "*"}]}
"""


def elastic_quota(namespace, name="quota", *, created="2026-01-01T00:00:00Z", **spec):
    return CustomObject(metadata={"namespace": namespace, "name": name, "creationTimestamp": created}, spec=spec)


def pod(name, namespace="ns1", amounts=(), *, priority=0, node="", **fields):
    """A pod. `amounts`: memory in bytes, cpu in millicores, GPUs, ephemeral storage."""
    return make_pod(name, namespace=namespace, priority=priority, node=node, requests=listed(amounts), **fields)


def listed(amounts):
    """A resource list of amounts; those of 0 are left out."""
    texts = (f"{amount}m" if name == "cpu" else str(amount) for name, amount in zip(NAMES, amounts, strict=False))
    return {name: text for name, text in zip(NAMES, texts, strict=False) if text not in {"0", "0m"}}


NAMES = ("memory", "cpu", GPU, "ephemeral-storage")


def quota_cluster(folder, *objects):
    """A cluster with quotas (CustomObjects) and other objects, in which CapacityScheduling decides and preempts."""
    path = folder / "scheduler.yaml"
    path.write_text(CONFIGURATION, encoding="utf-8")
    known = [(ELASTIC_QUOTAS, each) if isinstance(each, CustomObject) else each for each in objects]
    return make_cluster(*known, configuration=path)


def plugin_of(cluster):
    """The plugin that preempts there."""
    (plugin,) = cluster.profile.at(Point.POST_FILTER)
    assert plugin.name == CapacityScheduling.name
    return plugin
