"""Rules of other kinds that concern several fields. Mirrors Kubernetes' pkg/apis/{core,scheduling}/validation."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bayplan.core.api import quantity
from bayplan.core.api.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required
from bayplan.core.api.labels import label_key_errors
from bayplan.core.api.type_table import fields_of
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.validation.rules import At, amount, check, problems, unchanged

HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
LONGEST_CONFIG_KEY = 253
CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")


def node_amounts(amounts: dict[str, str], at: At) -> Iterator[FieldError]:
    """The resources of a node."""
    for name, given in amounts.items():
        yield from problems(f"{at.path}.{name}", name, label_key_errors(name))
        yield from amount(given, At(f"{at.path}.{name}"))


def distinct_taint(taint: Object, at: At) -> Iterator[FieldError]:
    """No earlier taint has the same key and effect."""
    if (taint["key"], taint["effect"]) in {(other["key"], other["effect"]) for other in at.before}:
        twice = duplicate(at.path, taint)
        yield FieldError(at.path, f"{twice.message}: taints must be unique by key and effect pair", twice.reason)


def distinct_owner(owner: str, at: At) -> Iterator[FieldError]:
    """Who wants a restriction has a name like a label's key, once."""
    if owner in at.before:
        yield duplicate(at.path, owner)
    yield from problems(at.path, owner, label_key_errors(owner))


def priority(priority_class: Object, _at: At) -> Iterator[FieldError]:
    """Names of priority classes that begin with `system-` are reserved, and so are high values."""
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


def distinct_toleration(toleration: Object, at: At) -> Iterator[FieldError]:
    """No earlier toleration of a runtime class tolerates the same."""
    key, *others = (
        [one.get(field) for field in ("key", "operator", "value", "effect")] for one in (toleration, *at.before)
    )
    if key in others:
        yield duplicate(at.path, toleration)


def claim_size(spec: Object, at: At) -> Iterator[FieldError]:
    """A claim requests storage."""
    where, storage = f"{at.path}.resources[storage]", spec["resources"].get("requests", {}).get("storage")
    if storage is None:
        yield required(where)
    elif quantity.parse(storage) <= 0:
        yield invalid(where, storage, "must be greater than zero")


def claim_update(claim: Object, at: At) -> Iterator[FieldError]:
    """A claim's spec is immutable, except for its binding, a first storage class, and what a bound claim may change."""
    old = at.old
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
    yield from unchanged(claim["spec"].get("volumeMode"), At("volumeMode", old=old["spec"].get("volumeMode")))


def _storage(amounts: Object) -> int:
    return quantity.parse(amounts.get("storage", "0"))


def capacity(spec: Object, at: At) -> Iterator[FieldError]:
    """The capacity of a volume is storage and nothing else."""
    given = spec.get("capacity")
    if given is None:
        yield required(f"{at.path}.capacity")
    if "storage" not in (given or {}) or len(spec["capacity"]) > 1:
        yield not_supported(f"{at.path}.capacity", given, ("storage",))
    elif quantity.parse(spec["capacity"]["storage"]) <= 0:
        yield invalid(f"{at.path}.capacity[storage]", spec["capacity"]["storage"], "must be greater than zero")


def one_source(spec: Object, at: At) -> Iterator[FieldError]:
    """A volume has one source."""
    sources = [key for key in spec if key in fields_of("core_v1.PersistentVolumeSource")]
    if not sources:
        yield required(at.path, "must specify a volume type")
    for extra in sorted(sources)[1:]:
        yield forbidden(f"{at.path}.{extra}", "may not specify more than 1 volume type")


def volume_affinity(affinity: Object, at: At) -> Iterator[FieldError]:
    """Where a volume can be reached from."""
    if "required" not in affinity:
        yield required(f"{at.path}.required", "must specify required node constraints")
    else:
        yield from check("core_v1.NodeSelector", affinity["required"], At(f"{at.path}.required"))


def volume_update(volume: Object, at: At) -> Iterator[FieldError]:
    """The source of a volume, its mode, and where it can be reached from are immutable."""
    new, was = volume["spec"], at.old["spec"]
    sources = fields_of("core_v1.PersistentVolumeSource")
    if any(new.get(source) != was.get(source) for source in sources):
        detail = "spec.persistentvolumesource is immutable after creation"
        yield forbidden("spec.persistentvolumesource", detail)
    yield from unchanged(new.get("volumeMode"), At("volumeMode", old=was.get("volumeMode")))
    if "nodeAffinity" in was and new.get("nodeAffinity") != was["nodeAffinity"]:
        detail = "field is immutable, except for updating from beta label to GA"
        yield invalid("nodeAffinity", new.get("nodeAffinity"), detail)


def config_keys(config_map: Object, _at: At) -> Iterator[FieldError]:
    """The keys of a config map or a secret."""
    for field in ("data", "binaryData"):
        for key in config_map.get(field, ()):
            yield from problems(f"{field}[{key}]", key, tuple(_config_key_errors(key)))
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


def immutable_data(config_map: Object, at: At) -> Iterator[FieldError]:
    """An immutable config map or secret cannot be changed."""
    if not at.old.get("immutable"):
        return
    if not config_map.get("immutable"):
        yield forbidden("immutable", "field is immutable when `immutable` is set")
    for field in ("data", "binaryData"):
        if config_map.get(field) != at.old.get(field):
            yield forbidden(field, "field is immutable when `immutable` is set")
