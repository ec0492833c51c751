"""Validates the kinds of storage.k8s.io. Mirrors Kubernetes' pkg/apis/storage/validation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bayplan.api import quantity
from bayplan.api.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required, too_long
from bayplan.api.labels import label_key_errors
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.validation.checks import IMMUTABLE, one_of, problems, unchanged
from bayplan.devcluster.apiserver.validation.meta import name_errors
from bayplan.devcluster.apiserver.validation.selectors import validate_label_selector, validate_not_negative

BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
RECLAIM_POLICIES = ("Delete", "Retain")
LONGEST_DRIVER = 63
LONGEST_NODE_ID = 256
SHORTEST_TOKEN, LONGEST_TOKEN = 600, 2**32
"""Seconds."""


def validate_storage_class(storage_class: Object) -> Iterator[FieldError]:
    """Rules for a storage class."""
    provisioner = storage_class["provisioner"]
    if not provisioner:
        yield required("provisioner")
    for error in label_key_errors(provisioner.lower()) if provisioner else ():
        yield invalid("provisioner", provisioner.lower(), error)
    for key in storage_class.get("parameters", ()):
        if not key:
            yield invalid("parameters", key, "field can not be empty.")
    yield from one_of("reclaimPolicy", storage_class.get("reclaimPolicy", "Delete"), RECLAIM_POLICIES)
    yield from one_of("volumeBindingMode", storage_class["volumeBindingMode"], BINDING_MODES)
    yield from _topologies(storage_class.get("allowedTopologies", ()))


def _topologies(terms: Sequence[Object]) -> Iterator[FieldError]:
    # Upstream compares each term with as many empty terms as there are terms, so every empty term is a duplicate.
    seen: list[dict[str, set[str]]] = [{} for _ in terms]
    for index, term in enumerate(terms):
        where = f"allowedTopologies[{index}].matchLabelExpressions"
        labels: dict[str, set[str]] = {}
        for position, expression in enumerate(term.get("matchLabelExpressions", ())):
            at, key, values = f"{where}[{position}]", expression.get("key", ""), expression.get("values") or []
            if not values:
                yield required(f"{at}.values")
            for number, value in enumerate(values):
                if value in values[:number]:
                    yield duplicate(f"{at}.values[{number}]", value)
            yield from problems(f"{at}.key", key, label_key_errors(key))
            if key in labels:
                yield duplicate(f"{at}.key", key)
            labels[key] = set(values)
        for one in seen:
            if one == labels:
                yield duplicate(where, "")
        seen.append(labels)


def validate_storage_class_update(storage_class: Object, old: Object) -> Iterator[FieldError]:
    """All that describes the volumes is immutable."""
    fields = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")
    yield from _immutable(storage_class, old, fields, "")


def _immutable(new: Object, old: Object, fields: Sequence[str], prefix: str) -> Iterator[FieldError]:
    for field in fields:
        yield from unchanged(f"{prefix}{field}", new.get(field), old.get(field))


def validate_driver_name(name: str, where: str) -> Iterator[FieldError]:
    """Rules for the name of a CSI driver."""
    if not name:
        yield required(where)
        return
    if len(name) > LONGEST_DRIVER:
        yield too_long(where, LONGEST_DRIVER)
    yield from problems(where, name, name_errors(name.lower(), "subdomain"))


def validate_csi_node(csi_node: Object) -> Iterator[FieldError]:
    """Rules for a CSINode."""
    names: set[str] = set()
    for index, driver in enumerate(csi_node["spec"].get("drivers") or ()):
        at, name, node_id = f"spec.drivers[{index}]", driver.get("name", ""), driver.get("nodeID", "")
        yield from validate_driver_name(name, f"{at}.name")
        if not node_id:
            yield required(f"{at}.nodeID")
        if len(node_id) > LONGEST_NODE_ID:
            yield invalid(f"{at}.nodeID", node_id, f"must be {LONGEST_NODE_ID} characters or less")
        yield from validate_not_negative(driver.get("allocatable", {}).get("count"), f"{at}.allocatable.count")
        if name in names:
            yield duplicate(f"{at}.name", name)
        names.add(name)
        keys = driver.get("topologyKeys") or []
        for position, key in enumerate(keys):
            if not key:
                yield required(at)
            if key in keys[:position]:
                yield duplicate(at, key)
            yield from problems(at, key, label_key_errors(key))


def validate_csi_node_update(csi_node: Object, old: Object) -> Iterator[FieldError]:
    """Of a registered driver, only the number of volumes may change."""
    for was in old["spec"].get("drivers") or ():
        for driver in csi_node["spec"].get("drivers") or ():
            fixed, before = ({**one, "allocatable": None} for one in (driver, was))
            if driver.get("name") == was.get("name") and fixed != before:
                yield invalid("spec.drivers", driver, IMMUTABLE)


def validate_csi_driver(csi_driver: Object) -> Iterator[FieldError]:
    """Rules for a CSIDriver."""
    spec = csi_driver["spec"]
    policies = ("File", "None", "ReadWriteOnceWithFSType")
    if spec.get("fsGroupPolicy", "None") not in policies:
        yield not_supported("spec.fsGroupPolicy", spec["fsGroupPolicy"], policies)
    requests = spec.get("tokenRequests") or ()
    audiences: set[str] = set()
    for index, request in enumerate(requests):
        at, audience = f"spec.tokenRequests[{index}]", request.get("audience", "")
        seconds = request.get("expirationSeconds")
        if audience in audiences:
            yield duplicate(f"{at}.audience", audience)
        elif seconds is not None and seconds < SHORTEST_TOKEN:
            yield invalid(f"{at}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
        elif seconds is not None and seconds > LONGEST_TOKEN:
            yield invalid(f"{at}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
        audiences.add(audience)
    for mode in spec.get("volumeLifecycleModes") or ():
        yield from one_of("spec.volumeLifecycleModes", mode, ("Persistent", "Ephemeral"))
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < 10:
        detail = "must be greater than or equal to 10 seconds"
        yield invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, detail)
    in_secrets = spec.get("serviceAccountTokenInSecrets")
    if in_secrets is not None and not requests:
        detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        yield invalid("spec.serviceAccountTokenInSecrets", in_secrets, detail)


def validate_csi_driver_update(csi_driver: Object, old: Object) -> Iterator[FieldError]:
    """How volumes are attached is immutable."""
    new, was = csi_driver["spec"], old["spec"]
    yield from unchanged("spec.attachedRequired", new.get("attachRequired"), was.get("attachRequired"))
    yield from _immutable(new, was, ("volumeLifecycleModes",), "spec.")


def validate_storage_capacity(capacity: Object) -> Iterator[FieldError]:
    """Rules for a CSIStorageCapacity."""
    yield from validate_label_selector(capacity.get("nodeTopology"), "nodeTopology")
    name = capacity.get("storageClassName", "")
    yield from problems("storageClassName", name, name_errors(name, "subdomain"))
    amount = capacity.get("capacity")
    if amount is not None and quantity.parse(amount) < 0:
        yield invalid("capacity", amount, "must be greater than or equal to 0")


def validate_storage_capacity_update(capacity: Object, old: Object) -> Iterator[FieldError]:
    """Only the amounts may change."""
    yield from _immutable(capacity, old, ("nodeTopology", "storageClassName"), "")


def validate_volume_attachment(attachment: Object) -> Iterator[FieldError]:
    """Rules for a VolumeAttachment."""
    spec = attachment["spec"]
    yield from validate_driver_name(spec.get("attacher", ""), "spec.attacher")
    source: dict[str, Any] = spec.get("source") or {}
    volume = source.get("persistentVolumeName")
    detail = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    if volume is None and "inlineVolumeSpec" not in source:
        yield required("spec.source", detail)
    elif volume is not None and "inlineVolumeSpec" in source:
        yield forbidden("spec.source", detail)
    elif volume is not None and not volume:
        yield required("spec.source.persistentVolumeName", "must specify non empty persistentVolumeName")
    node = spec.get("nodeName", "")
    yield from problems("spec.nodeName", node, name_errors(node, "subdomain"))
    for error in name_errors(volume, "subdomain") if volume is not None else ():
        yield invalid("spec.source.persistentVolumeName", volume, error)


def validate_volume_attachment_update(attachment: Object, old: Object) -> Iterator[FieldError]:
    """The spec is immutable."""
    yield from _immutable(attachment, old, ("spec",), "")
