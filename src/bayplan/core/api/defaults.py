"""The values of missing fields. Mirrors defaults.go of Kubernetes' pkg/apis.

`defaults.json` has them by type. Functions here set those that depend on other fields.
"""

from __future__ import annotations

import base64
import copy
import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files

import msgspec

from bayplan.core.api.objects import Document
from bayplan.core.api.resource_lists import POD_LEVEL, ZERO, pod_total
from bayplan.core.api.type_table import fields_of, table

NAMESPACE_LABEL = "kubernetes.io/metadata.name"
_REPOSITORY = re.compile(r"([A-Za-z0-9.-]+(:[0-9]+)?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*")
"""The name of an image without its tag and digest."""


Fill = Callable[[Document], None]
"""Completes an object of a type, and all objects inside it, in place. Doing it again changes nothing."""


def set_defaults(kind: str, obj: Document) -> None:
    """Completes an object of a type, and all objects inside it, in place. Doing it again changes nothing."""
    _fill(kind)(obj)


@cache
def _defaults() -> dict[str, Document]:
    """The values of missing fields by type. Those of objects are merged into the ones that are there."""
    return msgspec.json.decode(files(__package__).joinpath("defaults.json").read_bytes(), type=dict[str, Document])


@cache
def _fill(kind: str) -> Fill:
    """The function that completes objects of a type, which is built at first use, because every write calls it."""
    compute, fixed = _COMPUTED.get(kind), _defaults().get(kind)
    inside = [
        (key, field.type[:2], _fill(_element(field.type)))
        for key, field in fields_of(kind).items()
        if _has_defaults(_element(field.type), {kind})
    ]

    def fill(obj: Document) -> None:
        if compute is not None:
            compute(obj)
        if fixed is not None:
            _merge(obj, fixed, kind)
        for key, shape, fill_inner in inside:
            value = obj.get(key)
            if value is None:
                continue
            if shape == "[]":
                for item in value:
                    fill_inner(item)
            elif shape == "{}":
                for item in value.values():
                    fill_inner(item)
            else:
                fill_inner(value)

    return fill


def _merge(obj: Document, fixed: Document, kind: str) -> None:
    for key, default in fixed.items():
        value = obj.get(key)
        if value is None or (not value and value in (0, "") and fields_of(kind)[key].empty == "zero"):
            obj[key] = copy.deepcopy(default) if isinstance(default, (dict, list)) else default
        elif default.__class__ is dict:
            _merge(value, default, fields_of(kind)[key].type)


def _has_defaults(kind: str, seen: set[str]) -> bool:
    """Whether objects of a type, or inside them, have defaults. `seen` are the types around them."""
    if kind in seen or kind not in table():
        return False
    inner = {_element(field.type) for field in fields_of(kind).values()}
    return kind in _COMPUTED or kind in _defaults() or any(_has_defaults(one, {*seen, kind}) for one in inner)


def _element(kind: str) -> str:
    return kind.lstrip("[]{}")


# Pods


def _pod(pod: Document) -> None:
    """Ports of the host, and requests, which are the limits if they are missing."""
    spec = pod["spec"]
    for container in [*(spec.get("containers") or ()), *spec.get("initContainers", ())]:
        for port in container.get("ports", ()) if spec.get("hostNetwork") else ():
            if not port.get("hostPort"):
                port["hostPort"] = port["containerPort"]
        _requests(container["resources"])
    resources = spec.get("resources", {})
    if resources.get("limits"):
        requests = resources.setdefault("requests", {})
        total = pod_total(spec, "requests", pod_level=False)
        for name in sorted(POD_LEVEL):
            if total.get(name, ZERO).nanos:
                requests.setdefault(name, str(total[name]))
        _requests(resources)


def _requests(resources: Document) -> None:
    """A missing request is equal to the limit."""
    for name, limit in resources.get("limits", {}).items():
        resources.setdefault("requests", {}).setdefault(name, limit)


def _pod_spec(spec: Document) -> None:
    if "serviceAccountName" in spec:
        spec["serviceAccount"] = spec["serviceAccountName"]
    elif "serviceAccount" in spec:
        spec["serviceAccountName"] = spec["serviceAccount"]


def _container(container: Document) -> None:
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = _pull_policy(container.get("image", ""))


def _pull_policy(image: str) -> str:
    name, _, digest = image.partition("@")
    last = name.rpartition("/")[2]
    repository, _, tag = last.partition(":")
    if not _REPOSITORY.fullmatch(name.removesuffix(last) + repository):
        return "IfNotPresent"
    return "Always" if tag == "latest" or (not tag and not digest) else "IfNotPresent"


def _volume(volume: Document) -> None:
    if all(source == "name" for source in volume):
        volume["emptyDir"] = {}


# Workloads


def _strategy(strategy: Document, max_unavailable: int | str, max_surge: int | str) -> None:
    if strategy.get("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", max_unavailable)
        rolling.setdefault("maxSurge", max_surge)


def _stateful_set_strategy(strategy: Document) -> None:
    if "type" not in strategy:
        strategy.setdefault("rollingUpdate", {})


def _stateful_set(stateful_set: Document) -> None:
    for claim in stateful_set["spec"].get("volumeClaimTemplates", ()):
        claim |= {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "status": {"phase": "Pending"}}


def _replication_controller(controller: Document) -> None:
    """The selector and the labels are those of the template."""
    labels = controller["spec"].get("template", {}).get("metadata", {}).get("labels")
    if labels:
        controller["spec"].setdefault("selector", labels)
        controller["metadata"].setdefault("labels", labels)


def _job(job: Document) -> None:
    spec = job["spec"]
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    if "backoffLimitPerIndex" in spec:
        spec.setdefault("backoffLimit", 2**31 - 1)
    if "podFailurePolicy" in spec:
        spec.setdefault("podReplacementPolicy", "Failed")
    labels = spec["template"]["metadata"].get("labels")
    if labels:
        job["metadata"].setdefault("labels", dict(labels))


# Other kinds


def _namespace(namespace: Document) -> None:
    metadata = namespace["metadata"]
    if metadata.get("name"):
        metadata["labels"] = {**metadata.get("labels", {}), NAMESPACE_LABEL: metadata["name"]}


def _node(node: Document) -> None:
    spec, status = node["spec"], node.get("status", {})
    if "podCIDR" in spec:
        spec.setdefault("podCIDRs", [spec["podCIDR"]])
    if "capacity" in status:
        status.setdefault("allocatable", dict(status["capacity"]))


def _service(spec: Document) -> None:
    if spec.get("sessionAffinity") == "ClientIP":
        spec.setdefault("sessionAffinityConfig", {"clientIP": {"timeoutSeconds": 10800}})
    else:
        spec.pop("sessionAffinityConfig", None)
    kind = spec.get("type", "ClusterIP")
    if kind in {"NodePort", "LoadBalancer"}:
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)


def _service_port(port: Document) -> None:
    if not port.get("targetPort"):
        port["targetPort"] = port["port"]


def _limit_range_item(item: Document) -> None:
    """The limits of containers: defaults from the maximum, default requests from defaults and minimum."""
    if item["type"] != "Container":
        return
    for field, source in (("default", "max"), ("defaultRequest", "default"), ("defaultRequest", "min")):
        for name, amount in item.get(source, {}).items():
            item.setdefault(field, {}).setdefault(name, amount)


def _persistent_volume(volume: Document) -> None:
    if claim := volume["spec"].get("claimRef"):
        claim.setdefault("kind", "PersistentVolumeClaim")
        claim.setdefault("apiVersion", "v1")


def _secret(secret: Document) -> None:
    """Moves `stringData` to `data`."""
    for key, text in secret.pop("stringData", {}).items():
        secret.setdefault("data", {})[key] = base64.b64encode(text.encode()).decode()


def _device_request(request: Document) -> None:
    """A request is for one device."""
    if request.setdefault("allocationMode", "ExactCount") == "ExactCount":
        request["count"] = request.get("count") or 1


def _subject(subject: Document) -> None:
    if subject.get("kind") in {"User", "Group"}:
        subject["apiGroup"] = subject.get("apiGroup") or "rbac.authorization.k8s.io"


def _network_policy(spec: Document) -> None:
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def _definition(definition: Document) -> None:
    definition["spec"].setdefault("conversion", {"strategy": "None"})
    names = definition["spec"]["names"]
    if names.get("kind"):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", f"{names['kind']}List")


def _pod_group(spec: Document) -> None:
    spec.setdefault("disruptionMode", {"single": {}})


_COMPUTED: Mapping[str, Fill] = {
    "apiextensions_v1.CustomResourceDefinition": _definition,
    "apps_v1.DaemonSetUpdateStrategy": lambda strategy: _strategy(strategy, 1, 0),
    "apps_v1.DeploymentStrategy": lambda strategy: _strategy(strategy, "25%", "25%"),
    "apps_v1.StatefulSet": _stateful_set,
    "apps_v1.StatefulSetUpdateStrategy": _stateful_set_strategy,
    "batch_v1.Job": _job,
    "core_v1.Container": _container,
    "core_v1.EphemeralContainer": _container,
    "core_v1.LimitRangeItem": _limit_range_item,
    "core_v1.Namespace": _namespace,
    "core_v1.Node": _node,
    "core_v1.PersistentVolume": _persistent_volume,
    "core_v1.PersistentVolumeClaim": lambda claim: _requests(claim["spec"]["resources"]),
    "core_v1.Pod": _pod,
    "core_v1.PodSpec": _pod_spec,
    "core_v1.ReplicationController": _replication_controller,
    "core_v1.Secret": _secret,
    "core_v1.ServicePort": _service_port,
    "core_v1.ServiceSpec": _service,
    "core_v1.Volume": _volume,
    "networking_v1.NetworkPolicySpec": _network_policy,
    "rbac_v1.Subject": _subject,
    "resource_v1.DeviceSubRequest": _device_request,
    "resource_v1.ExactDeviceRequest": _device_request,
    "scheduling_v1alpha3.CompositePodGroupSpec": _pod_group,
    "scheduling_v1beta1.PodGroupSpec": _pod_group,
}
"""type -> sets the defaults that depend on other fields, before those of `defaults.json`."""
