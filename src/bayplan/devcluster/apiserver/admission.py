"""What admission adds to new objects, or has against them. Mirrors the default plugins of kube-apiserver: Priority,
DefaultTolerationSeconds, TaintNodesByCondition, PodGroupWorkloadExists, DefaultStorageClass,
StorageObjectInUseProtection; and the cluster addresses of services, which are no plugin's.
"""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.api.kinds import POD, POD_GROUP, PRIORITY_CLASS, STORAGE_CLASS, WORKLOAD, Kind
from bayplan.devcluster.apiserver.registry import Registry
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.status import forbidden

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
TOLERATED_SECONDS = 300
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
DEFAULT_CLASS_MARKS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def admit_pod(registry: Registry, pod: Object) -> None:
    """Resolves the priority class and tolerates nodes that fail for five minutes."""
    _admit_priority(registry, pod)
    _add_tolerations(pod["spec"])


def readmit_pod(pod: Object, old: Object) -> None:
    """What admission adds, an update does not take away."""
    for field in ("priority", "preemptionPolicy"):
        if field in old["spec"]:
            pod["spec"].setdefault(field, old["spec"][field])
    _add_tolerations(pod["spec"])


def _admit_priority(registry: Registry, pod: Object) -> None:
    spec, name = pod["spec"], pod["metadata"].get("name", "")
    found = _class_of(registry, POD, name, spec)
    priority = found.get("value", 0)
    if spec.setdefault("priority", priority) != priority:
        why = (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; priority admission "
            f"controller computed {priority} from the given PriorityClass name"
        )
        raise forbidden(POD, name, why)
    policy = found.get("preemptionPolicy", "PreemptLowerPriority")
    if spec.setdefault("preemptionPolicy", policy) != policy:
        why = (
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
            f"priority admission controller computed {policy} from the given PriorityClass name"
        )
        raise forbidden(POD, name, why)


def _class_of(registry: Registry, kind: Kind, name: str, spec: Object) -> Object:
    """The priority class that a spec names, or the default one, whose name it gets; empty where there is neither."""
    wanted = spec.get("priorityClassName", "")
    if wanted:
        entry = registry.store.collection(PRIORITY_CLASS.resource).objects.get(wanted)
        if entry is None:
            raise forbidden(kind, name, f"no PriorityClass with name {wanted} was found")
        named: Object = entry.load()
        return named
    found = _default_class(registry)
    if found:
        spec["priorityClassName"] = found["metadata"]["name"]
    return found


def _default_class(registry: Registry) -> Object:
    """The class for pods that name none: of those that are the global default, the one of the lowest value."""
    collection = registry.store.collection(PRIORITY_CLASS.resource)
    defaults = [entry.load() for entry in collection.objects.values() if entry.fields.get("globalDefault") == "true"]
    return min(defaults, key=lambda found: found["value"], default={})


def _add_tolerations(spec: Object) -> None:
    tolerations = spec.get("tolerations", ())
    missing = []
    for key in (NOT_READY, UNREACHABLE):
        tolerated = any(
            (toleration.get("key") == key or not toleration.get("key"))
            and toleration.get("effect", "NoExecute") == "NoExecute"
            for toleration in tolerations
        )
        if not tolerated:
            toleration = {"key": key, "operator": "Exists", "effect": "NoExecute"}
            missing.append({**toleration, "tolerationSeconds": TOLERATED_SECONDS})
    if missing:
        spec["tolerations"] = [*tolerations, *missing]


def admit_pod_group(registry: Registry, pod_group: Object) -> None:
    """Resolves the priority class, and turns down a group of a Workload that has no such template.

    Mirrors admitPodGroup of plugin/pkg/admission/priority, and plugin/pkg/admission/podgroup.
    """
    spec, metadata = pod_group["spec"], pod_group["metadata"]
    found = _class_of(registry, POD_GROUP, metadata.get("name", ""), spec)
    priority = found.get("value", 0)
    if spec.setdefault("priority", priority) != priority:
        why = (
            f"priority set in the pod group ({spec['priority']}) must match the priority computed ({priority}) based "
            "on the priority class set in the spec"
        )
        raise forbidden(POD_GROUP, metadata.get("name", ""), why)
    reference = (spec.get("podGroupTemplateRef") or {}).get("workload")
    if reference:
        _check_template(registry, metadata, reference)


def _check_template(registry: Registry, metadata: Object, reference: Object) -> None:
    workload, template = reference["workloadName"], reference["podGroupTemplateName"]
    entry = registry.store.collection(WORKLOAD.resource).objects.get(f"{metadata['namespace']}/{workload}")
    if entry is None:
        why = f'PodGroup rejected: Workload "{workload}" not found'
    elif entry.terminating:
        why = f'PodGroup rejected: Workload "{workload}" is being deleted'
    elif template not in {each["name"] for each in entry.load()["spec"]["podGroupTemplates"]}:
        why = f'PodGroup rejected: PodGroupTemplate "{template}" not found in Workload "{workload}"'
    else:
        return
    raise forbidden(POD_GROUP, metadata.get("name", ""), why)


def admit_node(_registry: Registry, node: Object) -> None:
    """A new node takes no pods before its condition is known."""
    taints = node["spec"].setdefault("taints", [])
    if not any(taint["key"] == NOT_READY and taint["effect"] == "NoSchedule" for taint in taints):
        taints.append({"key": NOT_READY, "effect": "NoSchedule"})


def admit_claim(registry: Registry, claim: Object) -> None:
    """A claim that names no class gets the default one, and no claim goes while pods use it."""
    spec, annotations = claim["spec"], claim["metadata"].get("annotations", {})
    if "storageClassName" not in spec and BETA_CLASS not in annotations:
        default = _default_storage_class(registry)
        if default:
            spec["storageClassName"] = default
    _add_finalizer(claim, "kubernetes.io/pvc-protection")


def _default_storage_class(registry: Registry) -> str:
    """Of several default classes the newest, of these the first by name; "" if there is none."""
    classes = [entry.load()["metadata"] for entry in registry.store.collection(STORAGE_CLASS.resource).objects.values()]
    defaults = [
        metadata
        for metadata in sorted(classes, key=lambda metadata: str(metadata["name"]))
        if any(metadata.get("annotations", {}).get(mark) == "true" for mark in DEFAULT_CLASS_MARKS)
    ]
    newest = max(defaults, key=lambda metadata: str(metadata["creationTimestamp"]), default={"name": ""})
    return str(newest["name"])


def admit_volume(_registry: Registry, volume: Object) -> None:
    """A volume does not go while a claim is bound to it."""
    _add_finalizer(volume, "kubernetes.io/pv-protection")


def _add_finalizer(obj: Object, finalizer: str) -> None:
    finalizers = obj["metadata"].setdefault("finalizers", [])
    if finalizer not in finalizers:
        finalizers.append(finalizer)


def admit_service(registry: Registry, service: Object) -> None:
    """Gives a service its cluster address, and node ports where it asks for them."""
    spec = service["spec"]
    if spec["type"] == "ExternalName":
        return
    taken = registry.store.collection("services").objects
    if not spec.get("clusterIP"):
        used = {entry.fields["spec.clusterIP"] for entry in taken.values()}
        spec["clusterIP"] = next(address for address in _addresses() if address not in used)
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    if spec["type"] in {"NodePort", "LoadBalancer"}:
        for port in spec.get("ports", ()):
            if "nodePort" not in port:
                port["nodePort"] = registry.random.randrange(30_000, 32_768)


def _addresses() -> Iterator[str]:
    """The addresses of 10.96.0.0/16, but for the few that are promised to others."""
    for third in range(256):
        for fourth in range(256):
            if third or fourth > 10:
                yield f"10.96.{third}.{fourth}"


def keep_address(service: Object, old: Object) -> None:
    """An update that does not speak of the cluster address leaves it."""
    for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if field in old["spec"] and not service["spec"].get(field):
            service["spec"][field] = old["spec"][field]
