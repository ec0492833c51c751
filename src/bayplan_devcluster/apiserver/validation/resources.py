"""Rules for the resources of containers and pods. Mirrors Kubernetes' pkg/apis/core/validation/validation.go."""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.core.api import quantity
from bayplan.core.api.field_errors import FieldError, invalid, not_found, required
from bayplan.core.api.labels import label_key_errors
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.validation.rules import At, problems

STANDARD_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage", "storage"})
CONTAINER_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})


def amounts(value: dict[str, str], at: At) -> Iterator[FieldError]:
    """Amounts of resources of a container."""
    for name, amount in value.items():
        yield from validate_amount(name, amount, at.path)


def requirements(resources: Object, at: At) -> Iterator[FieldError]:
    """ResourceRequirements of a pod or a container. Their claims are among those of the pod."""
    where = at.path
    claims = {claim.get("name", "") for one in at.above[:2] for claim in one.get("resourceClaims") or ()}
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    yield from amounts(limits, At(f"{where}.limits"))
    for name, amount in requests.items():
        yield from validate_amount(name, amount, f"{where}.requests")
        if name in limits and quantity.parse(amount) > quantity.parse(limits[name]):
            yield invalid(f"{where}.requests", amount, f"must be less than or equal to {name} limit of {limits[name]}")
        elif name in limits and not overcommits(name) and amount != limits[name]:
            yield invalid(f"{where}.requests", amount, f"must be equal to {name} limit of {limits[name]}")
        if name not in limits and not overcommits(name):
            yield required(f"{where}.limits", "Limit must be set for non overcommitable resources")
    for index, claim in enumerate(resources.get("claims", ())):
        if not claim.get("name"):
            yield required(f"{where}.claims[{index}].name")
        elif claim["name"] not in claims:
            yield not_found(f"{where}.claims[{index}].name", claim["name"])


def overcommits(name: str) -> bool:
    """Whether the limits of a resource may exceed its requests: true for native resources except huge pages."""
    return ("/" not in name or "kubernetes.io/" in name) and not name.startswith("hugepages-")


def validate_amount(name: str, amount: str, where: str) -> Iterator[FieldError]:
    """Rules for the amount of one resource of a container."""
    at = f"{where}[{name}]"
    errors = label_key_errors(name)
    yield from problems(where if errors else at, name, errors)
    if not errors and "/" not in name and name not in CONTAINER_RESOURCES and not name.startswith("hugepages-"):
        if name not in STANDARD_RESOURCES:
            yield invalid(at, name, "must be a standard resource type or fully qualified")
        yield invalid(at, name, "must be a standard resource for containers")
    nanos = quantity.parse(amount)
    if nanos < 0:
        yield invalid(at, amount, "must be greater than or equal to 0")
    if "/" in name and "kubernetes.io/" not in name and nanos % quantity.NANO:
        yield invalid(at, amount, "must be an integer")
