"""The quota usage of an object, and the quotas that apply to it.

Mirrors Kubernetes' pkg/quota/v1/evaluator/core.
"""

from __future__ import annotations

from bayplan.core.api import quantity
from bayplan.core.api.kinds import PERSISTENT_VOLUME_CLAIM, POD, RESOURCE_CLAIM, SERVICE, Kind
from bayplan.core.api.resource_lists import ZERO, Amount, Amounts, pod_total, qos_class, read_amounts
from bayplan_devcluster.apiserver.schema import Object

ONE = Amount(quantity.NANO)
COUNTED_BY_NAME = frozenset({
    "configmaps", "persistentvolumeclaims", "replicationcontrollers", "resourcequotas", "secrets", "services",
})  # fmt: skip
"""The resources that quotas limit by their plain names too."""
CLASS_SUFFIX = ".storageclass.storage.k8s.io/"
DEVICES_SUFFIX = ".deviceclass.resource.k8s.io/devices"
_MOST_DEVICES = 32
"""The largest number of devices in a claim. A request for all devices counts as this many."""
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
REQUIRED = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})
"""The resources that each container must specify if a quota limits them."""


def usage(kind: Kind, obj: Object) -> Amounts:
    """Returns what an object uses: its count, and for some kinds more."""
    found: Amounts = {f"count/{kind.resource}": ONE}
    if kind.resource in COUNTED_BY_NAME:
        found[kind.resource] = ONE
    if kind == POD:
        found |= _pod_usage(obj)
    elif kind == SERVICE:
        found |= _service_usage(obj["spec"])
    elif kind == PERSISTENT_VOLUME_CLAIM:
        found |= _claim_usage(obj)
    elif kind == RESOURCE_CLAIM:
        found |= _device_usage(obj["spec"])
    return found


def _pod_usage(pod: Object) -> Amounts:
    if pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}:
        return {}
    requests = pod_total(pod["spec"], "requests", overhead=True)
    limits = pod_total(pod["spec"], "limits", overhead=True)
    return {"pods": ONE, **compute_usage(requests, limits)}


def compute_usage(requests: Amounts, limits: Amounts) -> Amounts:
    """Returns what requests and limits use, by the names that quotas have for it."""
    found: Amounts = {}
    for name, amount in requests.items():
        if name in _COMPUTE or name.startswith("hugepages-"):
            found[name] = amount
        if name in _COMPUTE or name.startswith("hugepages-") or "/" in name:
            found[f"requests.{name}"] = amount
    for name in _COMPUTE:
        if name in limits:
            found[f"limits.{name}"] = limits[name]
    return found


def _service_usage(spec: Object) -> Amounts:
    ports, kind = spec.get("ports") or (), spec["type"]
    if kind == "LoadBalancer" and not spec.get("allocateLoadBalancerNodePorts", True):
        ports = [port for port in ports if port.get("nodePort")]
    used = len(ports) if kind in {"NodePort", "LoadBalancer"} else 0
    balancers = ONE if kind == "LoadBalancer" else ZERO
    return {"services.nodeports": Amount(used * quantity.NANO), "services.loadbalancers": balancers}


def _claim_usage(claim: Object) -> Amounts:
    spec = claim["spec"]
    annotations = claim["metadata"].get("annotations") or {}
    storage_class = annotations.get("volume.beta.kubernetes.io/storage-class") or spec.get("storageClassName", "")
    found: Amounts = {"persistentvolumeclaims": ONE}
    if "storage" in (requests := read_amounts(spec.get("resources", {}).get("requests"))):
        allocated = read_amounts(claim.get("status", {}).get("allocatedResources")).get("storage", ZERO)
        wanted = max(requests["storage"], allocated, key=lambda amount: amount.nanos)
        found["requests.storage"] = Amount(quantity.value(wanted.nanos) * quantity.NANO, wanted.binary)
    if storage_class:
        found |= {f"{storage_class}{CLASS_SUFFIX}{name}": amount for name, amount in found.items()}
    return found


def _device_usage(spec: Object) -> Amounts:
    """The largest number of devices of each class that a claim may get; of alternatives, one is used."""
    found: dict[str, int] = {}
    for request in (spec.get("devices") or {}).get("requests") or ():
        most: dict[str, int] = {}
        for each in [request["exactly"]] if request.get("exactly") else request.get("firstAvailable") or ():
            name = f"{each.get('deviceClassName', '')}{DEVICES_SUFFIX}"
            number = _MOST_DEVICES if each.get("allocationMode") == "All" else each.get("count", 1)
            most[name] = max(number, most.get(name, 0))
        for name, number in most.items():
            found[name] = found.get(name, 0) + number
    return {name: Amount(number * quantity.NANO) for name, number in found.items()}


def missing_resources(spec: Object, limited: set[str]) -> str:
    """Returns the error for a pod whose containers don't specify what a quota limits, "" if they do."""
    if spec.get("resources"):
        return ""
    missing: dict[str, set[str]] = {}
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        resources = container.get("resources", {})
        found = compute_usage(read_amounts(resources.get("requests")), read_amounts(resources.get("limits")))
        for name in (limited & REQUIRED) - set(found):
            missing.setdefault(name, set()).add(container.get("name", ""))
    listed = [f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing)]
    return f"must specify {'; '.join(listed)}" if listed else ""


# Scopes


def in_scope(kind: Kind, spec: Object, obj: Object) -> bool:
    """Whether an object is in all scopes of a quota's spec."""
    selectors = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
    selectors += spec.get("scopeSelector", {}).get("matchExpressions") or []
    return all(_selects(kind, selector, obj) for selector in selectors)


def _selects(kind: Kind, selector: Object, obj: Object) -> bool:
    if kind == PERSISTENT_VOLUME_CLAIM and selector["scopeName"] == "VolumeAttributesClass":
        names = {
            obj["spec"].get("volumeAttributesClassName", ""),
            obj.get("status", {}).get("currentVolumeAttributesClassName", ""),
        } - {""}
        return any(_matches(selector, name) for name in names) if names else _matches(selector, "")
    return kind == POD and _selects_pod(selector, obj["spec"])


def _selects_pod(selector: Object, spec: Object) -> bool:
    match selector["scopeName"]:
        case "Terminating":
            return spec.get("activeDeadlineSeconds") is not None
        case "NotTerminating":
            return spec.get("activeDeadlineSeconds") is None
        case "BestEffort":
            return qos_class(spec) == "BestEffort"
        case "NotBestEffort":
            return qos_class(spec) != "BestEffort"
        case "PriorityClass":
            return _matches(selector, spec.get("priorityClassName", ""))
        case "CrossNamespacePodAffinity":
            return _crosses_namespaces(spec.get("affinity") or {})
        case _:
            return False


def _matches(selector: Object, name: str) -> bool:
    values = selector.get("values") or ()
    match selector["operator"]:
        case "In":
            return bool(name) and name in values
        case "NotIn":
            return name not in values
        case "Exists":
            return bool(name)
        case _:
            return not name


def _crosses_namespaces(affinity: Object) -> bool:
    for field in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(field) or {}
        terms = list(rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        preferred = rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [weighted.get("podAffinityTerm") or {} for weighted in preferred]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False
