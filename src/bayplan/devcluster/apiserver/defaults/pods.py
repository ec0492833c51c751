"""Defaults of pods and of the pod templates in other kinds. Mirrors Kubernetes' pkg/apis/core/v1/defaults.go."""

from __future__ import annotations

import re
from typing import Any

from bayplan.devcluster.apiserver.resource_lists import POD_LEVEL, ZERO, pod_total
from bayplan.devcluster.apiserver.schema import Object

SECRET_VOLUMES = {
    "secret": ("defaultMode", 420),
    "configMap": ("defaultMode", 420),
    "downwardAPI": ("defaultMode", 420),
    "projected": ("defaultMode", 420),
    "hostPath": ("type", ""),
}

_REPOSITORY = re.compile(r"([A-Za-z0-9.-]+(:[0-9]+)?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*")
"""The name of an image without its tag and digest."""


def default_pod(pod: Object) -> None:
    """The defaults of a pod's spec, and requests derived from limits."""
    spec = pod["spec"]
    default_pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    if spec.get("hostNetwork"):
        _default_host_ports(spec)
    for container in [*(spec.get("containers") or ()), *spec.get("initContainers", ())]:
        _default_requests(container["resources"])
    if "resources" in spec:
        _default_pod_requests(spec)


def default_template(template: Object) -> None:
    """The defaults of the pod template of a workload."""
    default_pod_spec(template["spec"])


def default_pod_spec(spec: Object) -> None:
    """The defaults that pods and pod templates share."""
    for container in spec.get("containers") or ():
        _default_container(container)
    for container in spec.get("initContainers", ()):
        _default_container(container)
    for container in spec.get("ephemeralContainers", ()):
        _default_container(container)
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    for volume in spec.get("volumes", ()):
        _default_volume(volume)
    if "serviceAccountName" in spec:
        spec["serviceAccount"] = spec["serviceAccountName"]
    elif "serviceAccount" in spec:
        spec["serviceAccountName"] = spec["serviceAccount"]


def _default_container(container: Object) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = _pull_policy(container.get("image", ""))
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
    for variable in container.get("env", ()):
        reference = variable.get("valueFrom", {}).get("fieldRef")
        if reference is not None:
            reference.setdefault("apiVersion", "v1")
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if probe in container:
            _default_probe(container[probe])
    for hook in container.get("lifecycle", {}).values():
        if isinstance(hook, dict) and "httpGet" in hook:
            _default_http_get(hook["httpGet"])


def _pull_policy(image: str) -> str:
    name, _, digest = image.partition("@")
    last = name.rpartition("/")[2]
    repository, _, tag = last.partition(":")
    if not _REPOSITORY.fullmatch(name.removesuffix(last) + repository):
        return "IfNotPresent"
    return "Always" if tag == "latest" or (not tag and not digest) else "IfNotPresent"


def _default_probe(probe: Object) -> None:
    probe.setdefault("timeoutSeconds", 1)
    probe.setdefault("periodSeconds", 10)
    probe.setdefault("successThreshold", 1)
    probe.setdefault("failureThreshold", 3)
    if "httpGet" in probe:
        _default_http_get(probe["httpGet"])
    if "grpc" in probe and probe["grpc"].get("service") is None:
        probe["grpc"]["service"] = ""


def _default_http_get(action: Object) -> None:
    action.setdefault("path", "/")
    action.setdefault("scheme", "HTTP")


def _default_host_ports(spec: Object) -> None:
    for container in [*(spec.get("containers") or ()), *spec.get("initContainers", ())]:
        for port in container.get("ports", ()):
            if not port.get("hostPort"):
                port["hostPort"] = port["containerPort"]


def _default_volume(volume: Object) -> None:
    sources = [source for source in volume if source != "name"]
    if not sources:
        volume["emptyDir"] = {}
    for source in sources:
        if source in SECRET_VOLUMES:
            field, value = SECRET_VOLUMES[source]
            volume[source].setdefault(field, value)
    for projection in volume.get("projected", {}).get("sources") or ():
        if "serviceAccountToken" in projection:
            projection["serviceAccountToken"].setdefault("expirationSeconds", 3600)
        for item in projection.get("downwardAPI", {}).get("items", ()):
            item.get("fieldRef", {}).setdefault("apiVersion", "v1")
    for item in volume.get("downwardAPI", {}).get("items", ()):
        item.get("fieldRef", {}).setdefault("apiVersion", "v1")
    claim = volume.get("ephemeral", {}).get("volumeClaimTemplate")
    if claim is not None:
        claim["spec"].setdefault("volumeMode", "Filesystem")


def _default_requests(resources: Object) -> None:
    """A missing request is equal to the limit."""
    limits = resources.get("limits")
    if limits:
        requests: dict[str, Any] = resources.setdefault("requests", {})
        for name, limit in limits.items():
            requests.setdefault(name, limit)


def _default_pod_requests(spec: Object) -> None:
    """Missing pod-level requests with pod-level limits: the sum of the containers' requests, or the limits."""
    resources = spec["resources"]
    limits = resources.get("limits")
    if not limits:
        return
    requests = resources.setdefault("requests", {})
    total = pod_total(spec, "requests", pod_level=False)
    for name in sorted(POD_LEVEL):
        if total.get(name, ZERO).nanos:
            requests.setdefault(name, str(total[name]))
    for name, limit in limits.items():
        requests.setdefault(name, limit)
