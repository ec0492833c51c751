"""Defaults of the other kinds. Mirrors defaults.go of Kubernetes' pkg/apis/core, storage, scheduling and resource."""

from __future__ import annotations

from bayplan.devcluster.apiserver.schema import Object

NAMESPACE_LABEL = "kubernetes.io/metadata.name"


def default_namespace(namespace: Object) -> None:
    """Adds the namespace's name as a label."""
    metadata = namespace["metadata"]
    if metadata.get("name"):
        metadata["labels"] = {**metadata.get("labels", {}), NAMESPACE_LABEL: metadata["name"]}


def prepare_namespace(namespace: Object) -> None:
    """Adds the finalizer that keeps a deleted namespace until its contents are deleted."""
    namespace["status"] = {"phase": "Active"}
    finalizers = namespace.setdefault("spec", {}).setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")


def default_node(node: Object) -> None:
    """All capacity is allocatable, unless the node says otherwise."""
    spec, status = node["spec"], node.get("status", {})
    if "podCIDR" in spec:
        spec.setdefault("podCIDRs", [spec["podCIDR"]])
    if "capacity" in status:
        status.setdefault("allocatable", dict(status["capacity"]))


def default_service(service: Object) -> None:
    """A ClusterIP service with TCP ports."""
    spec = service["spec"]
    if spec.setdefault("sessionAffinity", "None") == "ClientIP":
        spec.setdefault("sessionAffinityConfig", {"clientIP": {"timeoutSeconds": 10800}})
    else:
        spec.pop("sessionAffinityConfig", None)
    kind = spec.setdefault("type", "ClusterIP")
    for port in spec.get("ports", ()):
        port.setdefault("protocol", "TCP")
        if not port.get("targetPort"):
            port["targetPort"] = port["port"]
    if kind in {"NodePort", "LoadBalancer"}:
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)


def default_limit_range(limit_range: Object) -> None:
    """Completes the limits of containers: defaults from the maximum, default requests from defaults and minimum."""
    for item in limit_range["spec"].get("limits") or ():
        if item["type"] == "Container":
            limits = item.setdefault("default", {})
            requests = item.setdefault("defaultRequest", {})
            for target, source in ((limits, "max"), (requests, "default"), (requests, "min")):
                for name, amount in item.get(source, {}).items():
                    target.setdefault(name, amount)
            for field in ("default", "defaultRequest"):
                if not item[field]:
                    del item[field]


def prepare_limit_range(limit_range: Object) -> None:
    """A new LimitRange without a name gets a unique one."""
    metadata = limit_range["metadata"]
    metadata.setdefault("name", metadata["uid"])


def default_volume(volume: Object) -> None:
    """A file system, which is retained."""
    volume["spec"].setdefault("persistentVolumeReclaimPolicy", "Retain")
    volume["spec"].setdefault("volumeMode", "Filesystem")
    if "hostPath" in volume["spec"]:
        volume["spec"]["hostPath"].setdefault("type", "")
    claim = volume["spec"].get("claimRef")
    if claim:
        claim.setdefault("kind", "PersistentVolumeClaim")
        claim.setdefault("apiVersion", "v1")


def prepare_volume(volume: Object) -> None:
    """Sets the phase of a new volume to Pending."""
    volume["status"] = {
        "phase": "Pending",
        "lastPhaseTransitionTime": volume["metadata"]["creationTimestamp"],
    }


def default_claim(claim: Object) -> None:
    """A file system."""
    claim["spec"].setdefault("volumeMode", "Filesystem")
    resources = claim["spec"]["resources"]
    for name, limit in resources.get("limits", {}).items():
        resources.setdefault("requests", {}).setdefault(name, limit)


def prepare_claim(claim: Object) -> None:
    """Sets the phase of a new claim to Pending."""
    claim["status"] = {"phase": "Pending"}
    source = claim["spec"].get("dataSource")
    if source:
        claim["spec"].setdefault("dataSourceRef", dict(source))


def default_storage_class(storage_class: Object) -> None:
    """Volumes are deleted with their claims and bound immediately."""
    storage_class.setdefault("reclaimPolicy", "Delete")
    storage_class.setdefault("volumeBindingMode", "Immediate")


def default_csi_driver(driver: Object) -> None:
    """A driver of persistent volumes that have to be attached."""
    spec = driver["spec"]
    spec.setdefault("attachRequired", True)
    spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
    spec.setdefault("volumeLifecycleModes", ["Persistent"])
    for field in ("podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"):
        spec.setdefault(field, False)


def default_priority_class(priority_class: Object) -> None:
    """Pods preempt those of lower priority. The default value is 0."""
    priority_class.setdefault("preemptionPolicy", "PreemptLowerPriority")
    priority_class.setdefault("value", 0)


def default_secret(secret: Object) -> None:
    """An opaque secret. Moves `stringData` to `data`."""
    import base64

    secret.setdefault("type", "Opaque")
    for key, text in secret.pop("stringData", {}).items():
        secret.setdefault("data", {})[key] = base64.b64encode(text.encode()).decode()


def default_claim_devices(claim_spec: Object) -> None:
    """A request is for one device."""
    for request in claim_spec.get("devices", {}).get("requests") or ():
        for exact in [request.get("exactly"), *request.get("firstAvailable", ())]:
            if exact is not None and exact.setdefault("allocationMode", "ExactCount") == "ExactCount":
                exact["count"] = exact.get("count") or 1


def default_resource_claim(claim: Object) -> None:
    """The defaults of its requests for devices."""
    default_claim_devices(claim["spec"])


def default_resource_claim_template(template: Object) -> None:
    """The defaults of its claims' requests for devices."""
    default_claim_devices(template["spec"].get("spec", {}))
