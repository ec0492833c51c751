"""The APIServices of the served groups, which the server writes. Those of clients are only stored.

Mirrors the autoregistration of Kubernetes' pkg/controlplane/apiserver/aggregator.go.
"""

from __future__ import annotations

from bayplan.api.kinds import API_SERVICE
from bayplan.api.times import rfc3339
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.storage.rest_storage import RestStorage

AUTOMANAGED = "kube-aggregator.kubernetes.io/automanaged"
"""The label of the APIServices that the server writes."""
_VIRTUAL = (("authentication.k8s.io", "v1"), ("authorization.k8s.io", "v1"))
"""The groups without stored objects."""
_PRIORITIES = {
    "": 18000, "apps": 17800, "events.k8s.io": 17750, "authentication.k8s.io": 17700, "authorization.k8s.io": 17600,
    "autoscaling": 17500, "batch": 17400, "certificates.k8s.io": 17300, "networking.k8s.io": 17200, "policy": 17100,
    "rbac.authorization.k8s.io": 17000, "storage.k8s.io": 16800, "apiextensions.k8s.io": 16700,
    "admissionregistration.k8s.io": 16700, "scheduling.k8s.io": 16600, "coordination.k8s.io": 16500,
    "node.k8s.io": 16300, "discovery.k8s.io": 16200, "flowcontrol.apiserver.k8s.io": 16100, "resource.k8s.io": 15900,
}  # fmt: skip
"""The priorities of the built-in groups; those of custom resources have the priority 1000."""


def update_api_services(storage: RestStorage) -> None:
    """Creates the missing APIServices, and removes those of groups and versions that are no longer served."""
    resource = storage.served.find(API_SERVICE.group, API_SERVICE.version, API_SERVICE.plural)
    if resource is None:
        return
    versions = {(one.kind.group, one.kind.version) for one in storage.served} | set(_VIRTUAL)
    served = versions - {(API_SERVICE.group, API_SERVICE.version)}
    wanted = {f"{version}.{group}": (group, version) for group, version in served}
    existing = dict(storage.collection(resource).objects)
    for name, entry in existing.items():
        if name not in wanted and AUTOMANAGED in entry.labels:
            storage.remove(resource, entry.load())
    for name in sorted(set(wanted) - set(existing)):
        storage.create(resource, "", _api_service(name, *wanted[name], rfc3339(storage.clock.now())))


def _api_service(name: str, group: str, version: str, now: str) -> Object:
    built_in = group in _PRIORITIES
    condition = {
        "type": "Available",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "Local",
        "message": "Local APIServices are always available",
    }
    return {
        "metadata": {"name": name, "labels": {AUTOMANAGED: "onstart" if built_in else "true"}},
        "spec": {
            **({"group": group} if group else {}),
            "version": version,
            "groupPriorityMinimum": _PRIORITIES.get(group, 1000),
            "versionPriority": (1 if not group else 15) if built_in else 100,
        },
        "status": {"conditions": [condition]},
    }
