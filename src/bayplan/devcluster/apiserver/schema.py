"""What an object of a kind may look like, derived from the typed models: checks the types of a decoded body, reports
unknown fields, and writes values as kube-apiserver would write them back.

A body is walked once by functions built per type at first use. Mirrors what Go's decoding into the API types and
encoding from them does to a document.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import msgspec

from bayplan.api.kinds import Kind
from bayplan.devcluster.apiserver.scalars import (
    Normalize,
    boolean,
    floating,
    int_or_string,
    mismatch,
    number,
    quantity,
    text,
    time,
)

Model = type[msgspec.Struct]
"""A type of the models."""

Object = dict[str, Any]
"""A decoded JSON object, in the shape that the storage keeps: no nulls and no empty fields beyond those of the API."""


def normalize(kind: Kind, body: Object) -> tuple[Object, list[str]]:
    """The body as it is stored, without `kind` and `apiVersion`, and the paths of its unknown fields.

    The result shares nothing with the body. Raises Mismatch.
    """
    unknown: list[str] = []
    done = _struct(model_of(kind))(body, "", unknown)
    done.pop("kind", None)
    done.pop("apiVersion", None)
    return done, unknown


def normalize_metadata(metadata: Any, unknown: list[str]) -> Object:
    """The metadata of an object as it is stored; adds the paths of unknown fields. Raises Mismatch."""
    done: Object = _struct(metadata_model())(metadata, "metadata", unknown)
    return done


def metadata_model() -> Model:
    """The type of every object's metadata."""
    return _model("meta_v1", "ObjectMeta")


def model_of(kind: Kind) -> Model:
    """The type of a kind's objects."""
    model: Model = kind.type
    return model


OMITTED_ZEROS = frozenset({
    "active", "availableReplicas", "currentReplicas", "deprecatedCount", "failed", "failureThreshold",
    "fullyLabeledReplicas", "generation", "globalDefault", "healthCheckNodePort", "hostIPC", "hostNetwork", "hostPID",
    "hostPort", "initialDelaySeconds", "minReadySeconds", "nodePort", "numberAvailable", "numberUnavailable",
    "observedGeneration", "paused", "periodSeconds", "publishNotReadyAddresses", "readOnly", "readyReplicas",
    "stdin", "stdinOnce", "succeeded", "successThreshold", "tty", "unavailableReplicas", "unschedulable",
    "updatedNumberScheduled", "updatedReplicas",
})  # fmt: skip
"""Optional fields whose 0 or false says the same as their absence."""

KEPT_EMPTY = frozenset({
    "apiGroup", "appProtocol", "holderIdentity", "managedBy", "preferredHolder", "storageClassName", "string",
    "volumeAttributesClassName",
})  # fmt: skip
"""Optional texts whose emptiness says something."""

ALWAYS_WRITTEN: dict[str, tuple[str, ...]] = {
    "CSINodeDriver": ("topologyKeys",),
    "Container": ("resources",),
    "ContainerStateRunning": ("startedAt",),
    "ContainerStateTerminated": ("startedAt", "finishedAt"),
    "ContainerStatus": ("lastState", "state"),
    "DaemonSetCondition": ("lastTransitionTime",),
    "DaemonSetSpec": ("updateStrategy",),
    "DeploymentCondition": ("lastUpdateTime", "lastTransitionTime"),
    "DeploymentSpec": ("strategy",),
    "EphemeralContainer": ("resources",),
    "JobCondition": ("lastProbeTime", "lastTransitionTime"),
    "JobTemplateSpec": ("metadata", "spec"),
    "NamespaceCondition": ("lastTransitionTime",),
    "NodeCondition": ("lastHeartbeatTime", "lastTransitionTime"),
    "NodeDaemonEndpoints": ("kubeletEndpoint",),
    "NodeStatus": ("daemonEndpoints", "nodeInfo"),
    "PersistentVolumeClaimCondition": ("lastProbeTime", "lastTransitionTime"),
    "PersistentVolumeClaimSpec": ("resources",),
    "PersistentVolumeClaimTemplate": ("spec",),
    "PodCondition": ("lastProbeTime", "lastTransitionTime"),
    "PodDisruptionBudgetStatus": ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"),
    "PodTemplateSpec": ("metadata", "spec"),
    "ReplicaSetCondition": ("lastTransitionTime",),
    "ReplicaSetSpec": ("template",),
    "ReplicationControllerCondition": ("lastTransitionTime",),
    "ServicePort": ("targetPort",),
    "ServiceStatus": ("loadBalancer",),
    "ResourceClaimTemplateSpec": ("metadata",),
    "StatefulSetCondition": ("lastTransitionTime",),
    "StatefulSetSpec": ("updateStrategy",),
    "StatefulSetStatus": ("availableReplicas",),
    "core_v1.Event": (
        "source", "firstTimestamp", "lastTimestamp", "eventTime", "reportingComponent", "reportingInstance",
    ),
    "events_v1.Event": ("regarding", "deprecatedSource", "deprecatedFirstTimestamp", "deprecatedLastTimestamp"),
}  # fmt: skip
"""Optional fields that are written even when they are empty, by type; required fields always are."""

NOT_WRITTEN: dict[str, tuple[str, ...]] = {
    "AllocatedDeviceStatus": ("conditions",),
}
"""Required fields that are left out when they are empty after all, by type."""

QUANTITY_MAPS = frozenset({
    "allocatable", "allocatedResources", "capacity", "consumedCapacity", "default", "defaultRequest", "hard", "limits",
    "max", "maxLimitRequestRatio", "min", "overhead", "podFixed", "requests", "resources", "used",
})  # fmt: skip
"""Maps (the models call them `dict`) whose values are quantities."""

STRUCT_MAPS: dict[tuple[str, str], str] = {
    ("CounterSet", "counters"): "Counter",
    ("JSONSchemaProps", "definitions"): "JSONSchemaProps",
    ("JSONSchemaProps", "patternProperties"): "JSONSchemaProps",
    ("JSONSchemaProps", "properties"): "JSONSchemaProps",
    ("Device", "attributes"): "DeviceAttribute",
    ("Device", "capacity"): "DeviceCapacity",
    ("Device", "nodeAllocatableResourceMappings"): "NodeAllocatableResourceMapping",
    ("DeviceCounterConsumption", "counters"): "Counter",
}
"""Maps whose values are objects: by type and field, the type of the values, of the same module."""


@cache
def _struct(model: Model, owner: str = "") -> Normalize:
    """How a type is normalized, where it is the value of a field of the type `owner`."""
    fields: dict[str, Normalize] = {}
    zeros: dict[str, Normalize] = {}

    def normalize_struct(value: Any, path: str, unknown: list[str]) -> Any:
        if not fields:  # on first use, because types refer to themselves
            _plan(model, fields, zeros)
        if value.__class__ is not dict:
            raise mismatch(value, path, f"v1.{model.__name__}", owner)
        done: Object = {}
        prefix = f"{path}." if path else ""
        for key, given in value.items():
            field = fields.get(key)
            if field is None:
                unknown.append(prefix + key)
            elif given is not None:
                item = field(given, prefix + key, unknown)
                if item is not None:
                    done[key] = item
        for key, zero in zeros.items():
            if key not in done:
                done[key] = zero({}, prefix + key, unknown)
        return done

    return normalize_struct


def _plan(model: Model, fields: dict[str, Normalize], zeros: dict[str, Normalize]) -> None:
    """Fills in how each field of a type is normalized, and what is written for fields that are missing."""
    module = model.__module__.rpartition(".")[2]
    names = model.__struct_fields__
    required = set(names[: len(names) - len(model.__struct_defaults__)])
    always = ALWAYS_WRITTEN.get(f"{module}.{model.__name__}", ALWAYS_WRITTEN.get(model.__name__, ()))
    never = NOT_WRITTEN.get(model.__name__, ())
    if {"kind", "apiVersion", "metadata"} <= set(names):
        always = (*always, "metadata", "spec", "status")
    for name, json_name in zip(names, model.__struct_encode_fields__, strict=True):
        annotation = model.__annotations__[name]
        if annotation.startswith("Optional["):
            annotation = annotation[len("Optional[") : -1]
        written = (name in required and json_name not in never) or json_name in always
        fields[json_name] = _field(module, model.__name__, json_name, annotation, written=written)
        if written:
            zeros[json_name] = _zero(module, annotation)


def _field(module: str, owner: str, name: str, annotation: str, *, written: bool) -> Normalize:
    """How one field is normalized; a result of None means that the field is left out."""
    if annotation.startswith("List["):
        return _list(_field(module, owner, name, annotation[len("List[") : -1], written=True), owner, annotation[5:-1])
    match annotation.rpartition(".")[2]:
        case "str":
            return text(owner, keep_empty=written or name in KEPT_EMPTY)
        case "int":
            return number(int, "int32", owner, keep_zero=written or name not in OMITTED_ZEROS)
        case "float":
            return floating(owner)
        case "bool":
            return boolean(owner, keep_false=written or name not in OMITTED_ZEROS)
        case "Quantity":
            return quantity
        case "IntOrString":
            return int_or_string
        case "Time":
            return time(fraction=False)
        case "MicroTime":
            return time(fraction=True)
        case "dict" | "Dict" if (owner, name) in STRUCT_MAPS:
            return _map(_struct(_model(module, STRUCT_MAPS[owner, name])), owner, structs=True)
        case "dict" | "Dict" if name in QUANTITY_MAPS:
            return _map(quantity, owner)
        case "dict" if name == "extra":  # what else is known of a user: several values a key
            return _map(_list(text(owner, keep_empty=True), owner, "str"), owner)
        case "dict" if name not in {"fieldsV1", "dependencies"}:
            return _map(text(owner, keep_empty=True), owner)
        case "JSONSchemaPropsOrBool" | "JSONSchemaPropsOrArray":
            return _schema_or_other(_struct(_model(module, "JSONSchemaProps")))
        case "Dict" | "RawExtension" | "FieldsV1" | "Any" | "JSON" | "dict" | "CustomResourceSubresourceStatus":
            return _anything
        case "BasicSchedulingPolicy":
            return _anything
        case _:
            return _struct(_model(module, annotation), owner)


def _model(module: str, name: str) -> Model:
    home, _, plain = name.rpartition(".")
    model: Model = getattr(import_module(f"lightkube.models.{home or module}"), plain)
    return model


def _zero(module: str, annotation: str) -> Normalize:
    """What is written for a missing field, as a function of no value."""
    scalars: dict[str, Any] = {"str": "", "int": 0, "float": 0, "bool": False, "IntOrString": 0, "Quantity": "0"}
    plain = annotation.rpartition(".")[2]
    if plain in scalars:
        zero = scalars[plain]
        return lambda _value, _path, _unknown: zero
    if annotation.startswith("List[") or plain in {"dict", "Dict", "Any", "Time", "MicroTime", "RawExtension", "JSON"}:
        return lambda _value, _path, _unknown: None
    return _struct(_model(module, annotation))


def _list(item: Normalize, owner: str, element: str) -> Normalize:
    of = f"[]{_go_type(element)}"

    def normalize_list(value: Any, path: str, unknown: list[str]) -> Any:
        if value.__class__ is not list:
            raise mismatch(value, path, of, owner)
        return [item(one, f"{path}[{index}]", unknown) for index, one in enumerate(value)] or None

    return normalize_list


def _map(item: Normalize, owner: str, *, structs: bool = False) -> Normalize:
    def normalize_map(value: Any, path: str, unknown: list[str]) -> Any:
        if value.__class__ is not dict:
            raise mismatch(value, path, "map[string]string", owner)
        if structs:
            return {
                key: item({} if one is None else one, f"{path}.{key}", unknown) for key, one in value.items()
            } or None
        return {key: "" if one is None else item(one, path, unknown) for key, one in value.items()} or None

    return normalize_map


def _schema_or_other(schema: Normalize) -> Normalize:
    """A schema, a list of schemas, or a truth value, as JSON schemas have them in some places."""

    def normalize_schema(value: Any, path: str, unknown: list[str]) -> Any:
        if isinstance(value, list):
            return [schema(one, f"{path}[{index}]", unknown) for index, one in enumerate(value)]
        return value if isinstance(value, bool) else schema(value, path, unknown)

    return normalize_schema


def _anything(value: Any, _path: str, _unknown: list[str]) -> Any:
    return value


def _go_type(annotation: str) -> str:
    plain = annotation.rpartition(".")[2]
    return {"str": "string", "int": "int32", "bool": "bool"}.get(plain, f"v1.{plain}")


def map_model(model: Model, name: str) -> Model | None:
    """The type of the values of a field that is a map, None where they are no objects."""
    found = STRUCT_MAPS.get((model.__name__, name))
    return None if found is None else _model(model.__module__.rpartition(".")[2], found)


@cache
def field_model(model: Model, name: str) -> Model | None:
    """The type of a field's value, or of its elements if it is a list; None where it is no object of fixed fields."""
    names = dict(zip(model.__struct_encode_fields__, model.__struct_fields__, strict=True))
    if name not in names:
        return None
    annotation = model.__annotations__[names[name]]
    plain = annotation.replace("Optional[", "").replace("List[", "").rstrip("]")
    if plain.rpartition(".")[2] in _NO_STRUCTS:
        return None
    return _model(model.__module__.rpartition(".")[2], plain)


_NO_STRUCTS = frozenset({
    "str", "int", "float", "bool", "dict", "Dict", "Any", "JSON", "Quantity", "IntOrString", "Time", "MicroTime",
    "RawExtension", "FieldsV1", "JSONSchemaPropsOrBool", "JSONSchemaPropsOrArray", "CustomResourceSubresourceStatus",
    "BasicSchedulingPolicy",
})  # fmt: skip
