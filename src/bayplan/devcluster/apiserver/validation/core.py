"""Validates the other kinds. Mirrors Kubernetes' pkg/apis/{core,scheduling,storage,coordination}/validation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from bayplan.api import quantity
from bayplan.api.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required
from bayplan.api.labels import label_key_errors, label_value_errors
from bayplan.devcluster.apiserver.api_types import fields_of
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.validation.checks import one_of, problems, unchanged
from bayplan.devcluster.apiserver.validation.meta import name_errors, validate_labels
from bayplan.devcluster.apiserver.validation.pods import EFFECTS, validate_host_path, validate_tolerations
from bayplan.devcluster.apiserver.validation.resources import validate_amount
from bayplan.devcluster.apiserver.validation.selectors import validate_node_selector

HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
LONGEST_CONFIG_KEY = 253
CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")


def validate_node(node: Object) -> Iterator[FieldError]:
    """Rules for a node."""
    yield from _taints(node["spec"].get("taints", ()), "metadata.taints")
    for field in ("capacity", "allocatable"):
        for name, amount in node.get("status", {}).get(field, {}).items():
            yield from problems(f"status.{field}.{name}", name, label_key_errors(name))
            if quantity.parse(amount) < 0:
                yield invalid(f"status.{field}.{name}", amount, "must be greater than or equal to 0")


def validate_node_update(node: Object, old: Object) -> Iterator[FieldError]:
    """Rules for changes of a node. Like upstream, taints are validated twice."""
    yield from _taints(node["spec"].get("taints", ()), "metadata.taints")
    was = old["spec"]
    if was.get("podCIDRs") and node["spec"].get("podCIDRs") != was["podCIDRs"]:
        yield forbidden("spec.podCIDRs", 'node updates may not change podCIDR except from "" to valid')
    if was.get("providerID") and node["spec"].get("providerID") != was["providerID"]:
        yield forbidden("spec.providerID", 'node updates may not change providerID except from "" to valid')


def _taints(taints: Sequence[Object], where: str) -> Iterator[FieldError]:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        at = f"{where}[{index}]"
        yield from problems(f"{at}.key", taint["key"], label_key_errors(taint["key"]))
        for error in label_value_errors(taint.get("value", "")):
            yield invalid(f"{at}.value", taint["value"], error)
        if not taint["effect"]:
            yield required(f"{at}.effect")
        elif taint["effect"] not in EFFECTS:
            yield not_supported(f"{at}.effect", taint["effect"], EFFECTS)
        if (taint["key"], taint["effect"]) in seen:
            twice = duplicate(at, taint)
            yield FieldError(at, f"{twice.message}: taints must be unique by key and effect pair", twice.reason)
        seen.add((taint["key"], taint["effect"]))


def validate_priority_class(priority_class: Object) -> Iterator[FieldError]:
    """Rules for a priority class. Names that begin with `system-` are reserved."""
    name, value = priority_class["metadata"].get("name", ""), priority_class["value"]
    if name.startswith("system-"):
        if SYSTEM_PRIORITIES.get(name) != value:
            detail = "priority class names with 'system-' prefix are reserved for system use only. error: "
            known = f"value of {name} PriorityClass must be {SYSTEM_PRIORITIES.get(name)}"
            unknown = f"{name} is not a known system priority class"
            yield forbidden("metadata.name", detail + (known if name in SYSTEM_PRIORITIES else unknown))
    elif value > HIGHEST_USER_PRIORITY:
        detail = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
        yield forbidden("value", detail)
    yield from one_of("preemptionPolicy", priority_class["preemptionPolicy"], ("Never", "PreemptLowerPriority"))


def validate_priority_class_update(priority_class: Object, old: Object) -> Iterator[FieldError]:
    """Value and preemption policy are immutable."""
    if priority_class["value"] != old["value"]:
        yield forbidden("value", "may not be changed in an update.")
    yield from unchanged("preemptionPolicy", priority_class["preemptionPolicy"], old["preemptionPolicy"])


def validate_runtime_class(runtime_class: Object) -> Iterator[FieldError]:
    """Rules for a runtime class."""
    handler = runtime_class.get("handler", "")
    if not handler:
        yield required("handler")
    yield from problems("handler", handler, name_errors(handler, "label") if handler else ())
    for name, amount in runtime_class.get("overhead", {}).get("podFixed", {}).items():
        yield from validate_amount(name, amount, "overhead.limits")
    scheduling = runtime_class.get("scheduling", {})
    yield from validate_labels(scheduling.get("nodeSelector"), "scheduling.nodeSelector")
    tolerations = scheduling.get("tolerations", [])
    yield from validate_tolerations(tolerations, "scheduling.tolerations")
    keys = [[toleration.get(field) for field in ("key", "operator", "value", "effect")] for toleration in tolerations]
    for index, key in enumerate(keys):
        if key in keys[:index]:
            yield duplicate(f"scheduling.tolerations[{index}]", tolerations[index])


def validate_runtime_class_update(runtime_class: Object, old: Object) -> Iterator[FieldError]:
    """The handler is immutable."""
    yield from unchanged("handler", runtime_class.get("handler", ""), old.get("handler", ""))


def validate_lease(lease: Object) -> Iterator[FieldError]:
    """Rules for a lease."""
    spec = lease["spec"]
    if spec.get("leaseDurationSeconds", 1) <= 0:
        yield invalid("spec.leaseDurationSeconds", spec["leaseDurationSeconds"], "must be greater than 0")
    if spec.get("leaseTransitions", 0) < 0:
        detail = "must be greater than or equal to 0"
        yield invalid("spec.leaseTransitions", spec["leaseTransitions"], detail)


def validate_claim(claim: Object) -> Iterator[FieldError]:
    """Rules for a persistent volume claim."""
    yield from validate_claim_spec(claim["spec"], "spec")


def validate_claim_spec(spec: Object, where: str) -> Iterator[FieldError]:
    """Rules for the spec of a claim, or of a claim template, at the path `where`."""
    yield from _class_name(spec, where)
    yield from _access_modes(spec, where, "at least 1 access mode is required")
    storage = spec["resources"].get("requests", {}).get("storage")
    if storage is None:
        yield required(f"{where}.resources[storage]")
    elif quantity.parse(storage) <= 0:
        yield invalid(f"{where}.resources[storage]", storage, "must be greater than zero")


def _class_name(spec: Object, where: str) -> Iterator[FieldError]:
    name = spec.get("storageClassName", "")
    yield from problems(f"{where}.storageClassName", name, name_errors(name, "subdomain") if name else ())


def validate_claim_update(claim: Object, old: Object) -> Iterator[FieldError]:
    """A claim's spec is immutable, except for its binding, a first storage class, and what a bound claim may change."""
    new, was = {**claim["spec"]}, {**old["spec"]}
    for field in ("volumeName", "storageClassName"):
        if field not in was:
            new.pop(field, None)
    size, old_size = (_storage(spec["resources"].get("requests", {})) for spec in (new, was))
    if claim.get("status", {}).get("phase") == "Bound":
        for spec in (new, was):
            spec.pop("volumeAttributesClassName", None)
            requests = {**spec["resources"].get("requests", {}), "storage": ""}
            spec["resources"] = {**spec["resources"], "requests": requests}
    if new != was:
        detail = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        )
        yield forbidden("spec", detail)
    if size < old_size and size <= _storage(old.get("status", {}).get("capacity", {})):
        yield forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")
    yield from unchanged("volumeMode", claim["spec"].get("volumeMode"), old["spec"].get("volumeMode"))


def _storage(amounts: Object) -> int:
    return quantity.parse(amounts.get("storage", "0"))


def validate_volume(volume: Object) -> Iterator[FieldError]:
    """Rules for a persistent volume."""
    spec = volume["spec"]
    yield from _access_modes(spec, "spec", "")
    if "capacity" not in spec:
        yield required("spec.capacity")
    if "storage" not in spec.get("capacity", {}) or len(spec["capacity"]) > 1:
        yield not_supported("spec.capacity", spec.get("capacity"), ("storage",))
    elif quantity.parse(spec["capacity"]["storage"]) <= 0:
        yield invalid("spec.capacity[storage]", spec["capacity"]["storage"], "must be greater than zero")
    yield from _class_name(spec, "spec")
    sources = [key for key in spec if key in fields_of("core_v1.PersistentVolumeSource")]
    if not sources:
        yield required("spec", "must specify a volume type")
    for extra in sorted(sources)[1:]:
        yield forbidden(f"spec.{extra}", "may not specify more than 1 volume type")
    yield from validate_host_path(spec.get("hostPath"), "spec.hostPath")
    affinity = spec.get("nodeAffinity")
    if affinity is not None and "required" not in affinity:
        yield required("spec.nodeAffinity.required", "must specify required node constraints")
    elif affinity is not None:
        yield from validate_node_selector(affinity["required"], "spec.nodeAffinity.required")


def validate_volume_update(volume: Object, old: Object) -> Iterator[FieldError]:
    """The source of a volume, its mode, and where it can be reached from are immutable."""
    new, was = volume["spec"], old["spec"]
    sources = fields_of("core_v1.PersistentVolumeSource")
    if any(new.get(source) != was.get(source) for source in sources):
        detail = "spec.persistentvolumesource is immutable after creation"
        yield forbidden("spec.persistentvolumesource", detail)
    yield from unchanged("volumeMode", new.get("volumeMode"), was.get("volumeMode"))
    if "nodeAffinity" in was and new.get("nodeAffinity") != was["nodeAffinity"]:
        detail = "field is immutable, except for updating from beta label to GA"
        yield invalid("nodeAffinity", new.get("nodeAffinity"), detail)


def _access_modes(spec: Object, where: str, detail: str) -> Iterator[FieldError]:
    if not spec.get("accessModes"):
        yield required(f"{where}.accessModes", detail)
    for mode in spec.get("accessModes", ()):
        yield from one_of(f"{where}.accessModes", mode, ACCESS_MODES)


def validate_config_map(config_map: Object) -> Iterator[FieldError]:
    """Rules for the keys of a config map or a secret."""
    for field in ("data", "binaryData"):
        for key in config_map.get(field, ()):
            yield from problems(f"{field}[{key}]", key, _config_key_errors(key))
    for key in config_map.get("binaryData", ()):
        if key in config_map.get("data", ()):
            yield invalid(f"binaryData[{key}]", key, "duplicate of key present in data")


def _config_key_errors(key: str) -> Iterator[str]:
    if len(key) > LONGEST_CONFIG_KEY:
        yield f"must be no more than {LONGEST_CONFIG_KEY} bytes"
    if not CONFIG_KEY.fullmatch(key):
        yield (
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
            "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
        )
    if key.startswith(".."):
        yield "must not be '..'" if key == ".." else "must not start with '..'"
    elif key == ".":
        yield "must not be '.'"


def validate_config_map_update(config_map: Object, old: Object) -> Iterator[FieldError]:
    """An immutable config map or secret cannot be changed."""
    if not old.get("immutable"):
        return
    if not config_map.get("immutable"):
        yield forbidden("immutable", "field is immutable when `immutable` is set")
    for field in ("data", "binaryData"):
        if config_map.get(field) != old.get(field):
            yield forbidden(field, "field is immutable when `immutable` is set")
