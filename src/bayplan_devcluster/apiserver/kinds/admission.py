"""Admission of new objects: completes them, or rejects them with 403.

Mirrors the default plugins of kube-apiserver: Priority, DefaultTolerationSeconds, TaintNodesByCondition,
PodGroupWorkloadExists, DefaultStorageClass and StorageObjectInUseProtection, and with the modules `limit_ranges` and
`runtime_classes` LimitRanger and RuntimeClass. Also allocates the cluster addresses of
services, which kube-apiserver does outside of admission.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from bayplan.core.api.kinds import (
    COMPOSITE_POD_GROUP,
    CUSTOM_RESOURCE_DEFINITION,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_GROUP,
    PRIORITY_CLASS,
    SERVICE,
    STORAGE_CLASS,
    WORKLOAD,
    Kind,
)
from bayplan.core.api.status import StatusError, forbidden
from bayplan_devcluster.apiserver.kinds.limit_ranges import set_default_limits
from bayplan_devcluster.apiserver.kinds.runtime_classes import admit_runtime_class
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.storage.resource import Resource
from bayplan_devcluster.apiserver.storage.rest_storage import RestStorage

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
TOLERATED_SECONDS = 300
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
DEFAULT_CLASS_ANNOTATIONS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


_HAS_POLICY = "PodGroupPreemptionPolicy"


def admit(storage: RestStorage, resource: Resource, obj: Object, features: frozenset[str] = frozenset()) -> None:
    """Runs the admission plugins of a new object's kind. Raises StatusError.

    `features`: the feature gates that are on.
    """
    if resource.custom is not None:
        _check_definition(storage, resource.custom.definition)
    plugin = _PLUGINS.get(resource.kind.resource)
    if plugin is not None:
        plugin(storage, obj)
    if resource.kind.plural in {POD_GROUP.plural, COMPOSITE_POD_GROUP.plural} and _HAS_POLICY in features:
        _admit_group_policy(storage, COMPOSITE_POD_GROUP if resource.kind == COMPOSITE_POD_GROUP else POD_GROUP, obj)


def _check_definition(storage: RestStorage, name: str) -> None:
    """Rejects custom objects while their definition is being deleted. Mirrors apiextensions-apiserver's crdHandler."""
    definition = storage.store.collection(CUSTOM_RESOURCE_DEFINITION.resource).objects.get(name)
    if definition is None or definition.terminating:
        message = "create not allowed while custom resource definition is terminating"
        raise StatusError(405, "MethodNotAllowed", message, {})


def _admit_pod(storage: RestStorage, pod: Object) -> None:
    """Applies limit ranges, the priority class and the runtime class, and tolerates failing nodes for five minutes."""
    set_default_limits(storage, pod)
    _admit_priority(storage, pod)
    _add_tolerations(pod["spec"])
    admit_runtime_class(storage, pod)


def readmit_pod(pod: Object, old: Object) -> None:
    """Keeps what admission has added when an update leaves it out."""
    for field in ("priority", "preemptionPolicy"):
        if field in old["spec"]:
            pod["spec"].setdefault(field, old["spec"][field])
    _add_tolerations(pod["spec"])


def _admit_priority(storage: RestStorage, pod: Object) -> None:
    spec, name = pod["spec"], pod["metadata"].get("name", "")
    found = _class_of(storage, POD, name, spec)
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


def _class_of(storage: RestStorage, kind: Kind, name: str, spec: Object) -> Object:
    """Returns the priority class that a spec names, or the default one, and then sets its name; {} if there is none."""
    wanted = spec.get("priorityClassName", "")
    if wanted:
        entry = storage.store.collection(PRIORITY_CLASS.resource).objects.get(wanted)
        if entry is None:
            raise forbidden(kind, name, f"no PriorityClass with name {wanted} was found")
        named: Object = entry.load()
        return named
    found = _default_class(storage)
    if found:
        spec["priorityClassName"] = found["metadata"]["name"]
    return found


def _default_class(storage: RestStorage) -> Object:
    """Returns the class for pods that name none: of the global defaults, the one with the lowest value."""
    collection = storage.store.collection(PRIORITY_CLASS.resource)
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


def _admit_pod_group(storage: RestStorage, pod_group: Object) -> None:
    """Resolves the priority class, and in 1.36 rejects a group whose Workload does not have the template.

    Mirrors admitPodGroup of plugin/pkg/admission/priority, and plugin/pkg/admission/podgroup, which 1.37 lacks.
    """
    _admit_group_priority(storage, POD_GROUP, pod_group)
    reference = (pod_group["spec"].get("podGroupTemplateRef") or {}).get("workload")
    if reference:
        _check_template(storage, pod_group["metadata"], reference)


def _admit_group_priority(storage: RestStorage, kind: Kind, group: Object) -> None:
    """Resolves the priority class of a group, or of a group of groups."""
    spec, name = group["spec"], group["metadata"].get("name", "")
    priority = _class_of(storage, kind, name, spec).get("value", 0)
    if spec.setdefault("priority", priority) != priority:
        why = (
            f"priority set in the {_called(kind)} ({spec['priority']}) must match the priority computed ({priority}) "
            "based on the priority class set in the spec"
        )
        raise forbidden(kind, name, why)


def _admit_group_policy(storage: RestStorage, kind: Kind, group: Object) -> None:
    """Takes the preemption policy of a group from its priority class."""
    spec, name = group["spec"], group["metadata"].get("name", "")
    policy = _class_of(storage, kind, name, spec).get("preemptionPolicy", "PreemptLowerPriority")
    if spec.setdefault("preemptionPolicy", policy) != policy:
        why = (
            f"preemption policy set in the {_called(kind)} ({spec['preemptionPolicy']}) must match the preemption "
            f"policy computed ({policy}) based on the priority class set in the spec"
        )
        raise forbidden(kind, name, why)


def _called(kind: Kind) -> str:
    return "composite pod group" if kind is COMPOSITE_POD_GROUP else "pod group"


def _check_template(storage: RestStorage, metadata: Object, reference: Object) -> None:
    workload, template = reference["workloadName"], reference["podGroupTemplateName"]
    entry = storage.store.collection(WORKLOAD.resource).objects.get(f"{metadata['namespace']}/{workload}")
    if entry is None:
        why = f'PodGroup rejected: Workload "{workload}" not found'
    elif entry.terminating:
        why = f'PodGroup rejected: Workload "{workload}" is being deleted'
    elif template not in {each["name"] for each in entry.load()["spec"]["podGroupTemplates"]}:
        why = f'PodGroup rejected: PodGroupTemplate "{template}" not found in Workload "{workload}"'
    else:
        return
    raise forbidden(POD_GROUP, metadata.get("name", ""), why)


def _admit_node(_storage: RestStorage, node: Object) -> None:
    """Taints a new node, which takes no pods before its condition is known."""
    taints = node["spec"].setdefault("taints", [])
    if not any(taint["key"] == NOT_READY and taint["effect"] == "NoSchedule" for taint in taints):
        taints.append({"key": NOT_READY, "effect": "NoSchedule"})


def _admit_claim(storage: RestStorage, claim: Object) -> None:
    """Sets the default class, and protects the claim from removal while pods use it."""
    spec, annotations = claim["spec"], claim["metadata"].get("annotations", {})
    if "storageClassName" not in spec and BETA_CLASS not in annotations:
        default = _default_storage_class(storage)
        if default:
            spec["storageClassName"] = default
    _add_finalizer(claim, "kubernetes.io/pvc-protection")


def _default_storage_class(storage: RestStorage) -> str:
    """Returns the newest default class, of several the first by name; "" if there is none."""
    classes = [entry.load()["metadata"] for entry in storage.store.collection(STORAGE_CLASS.resource).objects.values()]
    defaults = [
        metadata
        for metadata in sorted(classes, key=lambda metadata: str(metadata["name"]))
        if any(metadata.get("annotations", {}).get(key) == "true" for key in DEFAULT_CLASS_ANNOTATIONS)
    ]
    newest = max(defaults, key=lambda metadata: str(metadata["creationTimestamp"]), default={"name": ""})
    return str(newest["name"])


def _add_finalizer(obj: Object, finalizer: str) -> None:
    finalizers = obj["metadata"].setdefault("finalizers", [])
    if finalizer not in finalizers:
        finalizers.append(finalizer)


def _admit_service(storage: RestStorage, service: Object) -> None:
    """Allocates a service's cluster address, and its node ports if its type has them."""
    spec = service["spec"]
    if spec["type"] == "ExternalName":
        return
    taken = storage.store.collection("services").objects
    if not spec.get("clusterIP"):
        used = {entry.fields["spec.clusterIP"] for entry in taken.values()}
        spec["clusterIP"] = next(address for address in _addresses() if address not in used)
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    if spec["type"] in {"NodePort", "LoadBalancer"}:
        for port in spec.get("ports", ()):
            if "nodePort" not in port:
                port["nodePort"] = storage.random.randrange(30_000, 32_768)


def _addresses() -> Iterator[str]:
    """The addresses of 10.96.0.0/16, except the first, which are reserved."""
    for third in range(256):
        for fourth in range(256):
            if third or fourth > 10:
                yield f"10.96.{third}.{fourth}"


def keep_address(service: Object, old: Object) -> None:
    """Keeps the cluster address of a service when an update leaves it out."""
    for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if field in old["spec"] and not service["spec"].get(field):
            service["spec"][field] = old["spec"][field]


_PLUGINS: Mapping[str, Callable[[RestStorage, Object], None]] = {
    POD.resource: _admit_pod,
    POD_GROUP.resource: _admit_pod_group,
    COMPOSITE_POD_GROUP.resource: lambda storage, group: _admit_group_priority(storage, COMPOSITE_POD_GROUP, group),
    NODE.resource: _admit_node,
    SERVICE.resource: _admit_service,
    PERSISTENT_VOLUME.resource: lambda _, volume: _add_finalizer(volume, "kubernetes.io/pv-protection"),
    PERSISTENT_VOLUME_CLAIM.resource: _admit_claim,
}
"""By resource."""
