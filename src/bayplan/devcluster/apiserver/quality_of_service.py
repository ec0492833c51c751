"""The quality of service class of a pod. Mirrors Kubernetes' pkg/apis/core/v1/helper/qos."""

from __future__ import annotations

from bayplan.devcluster.apiserver.schema import Object


def qos_class(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort, by a pod's requests and limits of cpu and memory."""
    if spec.get("resources"):
        return _qos_of([spec["resources"]])
    containers = [*(spec.get("containers") or ()), *spec.get("initContainers", ())]
    return _qos_of([container.get("resources", {}) for container in containers])


def _qos_of(resources: list[Object]) -> str:
    def counted(values: Object) -> dict[str, str]:
        return {name: values[name] for name in ("cpu", "memory") if values.get(name, "0") != "0"}

    requests = [counted(resource.get("requests", {})) for resource in resources]
    limits = [counted(resource.get("limits", {})) for resource in resources]
    if not any(requests) and not any(limits):
        return "BestEffort"
    guaranteed = all(len(limit) == 2 for limit in limits)
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"
