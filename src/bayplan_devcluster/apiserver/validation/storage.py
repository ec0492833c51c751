"""Rules of the kinds of storage.k8s.io. Mirrors Kubernetes' pkg/apis/storage/validation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bayplan.core.api.field_errors import FieldError, duplicate, forbidden, invalid, required
from bayplan.core.api.labels import label_key_errors
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.validation.pods import token_seconds
from bayplan_devcluster.apiserver.validation.rules import IMMUTABLE, At, problems


def provisioner_name(name: str, at: At) -> Iterator[FieldError]:
    """The name of a provisioner."""
    return problems(at.path, name.lower(), label_key_errors(name.lower()))


def parameters(given: dict[str, str], at: At) -> Iterator[FieldError]:
    """The parameters of a storage class have names."""
    if "" in given:
        yield invalid(at.path, "", "field can not be empty.")


def topologies(terms: Sequence[Object], at: At) -> Iterator[FieldError]:
    """The topologies of a storage class."""
    # Upstream compares each term with as many empty terms as there are terms, so every empty term is a duplicate.
    seen: list[dict[str, set[str]]] = [{} for _ in terms]
    for index, term in enumerate(terms):
        where = f"{at.path}[{index}].matchLabelExpressions"
        labels: dict[str, set[str]] = {}
        for position, expression in enumerate(term.get("matchLabelExpressions", ())):
            place, key, values = f"{where}[{position}]", expression.get("key", ""), expression.get("values") or []
            if not values:
                yield required(f"{place}.values")
            for number, value in enumerate(values):
                if value in values[:number]:
                    yield duplicate(f"{place}.values[{number}]", value)
            yield from problems(f"{place}.key", key, label_key_errors(key))
            if key in labels:
                yield duplicate(f"{place}.key", key)
            labels[key] = set(values)
        for one in seen:
            if one == labels:
                yield duplicate(where, "")
        seen.append(labels)


def topology_keys(keys: Sequence[str], at: At) -> Iterator[FieldError]:
    """The topology keys of a driver on a node. Upstream reports them at the driver."""
    for position, key in enumerate(keys):
        if not key:
            yield required(at.path)
        if key in keys[:position]:
            yield duplicate(at.path, key)
        yield from problems(at.path, key, label_key_errors(key))


def registered_drivers(csi_node: Object, at: At) -> Iterator[FieldError]:
    """Of a registered driver, only the number of volumes may change."""
    for was in at.old["spec"].get("drivers") or ():
        for driver in csi_node["spec"].get("drivers") or ():
            fixed, before = ({**one, "allocatable": None} for one in (driver, was))
            if driver.get("name") == was.get("name") and fixed != before:
                yield invalid("spec.drivers", driver, IMMUTABLE)


def token_requests(requests: Sequence[Object], at: At) -> Iterator[FieldError]:
    """The tokens that a driver needs: one for each audience."""
    audiences: set[str] = set()
    for index, request in enumerate(requests):
        audience = request.get("audience", "")
        if audience in audiences:
            yield duplicate(f"{at.path}[{index}].audience", audience)
        elif request.get("expirationSeconds") is not None:
            yield from token_seconds(request["expirationSeconds"], At(f"{at.path}[{index}]"))
        audiences.add(audience)


def token_in_secrets(in_secrets: bool, at: At) -> Iterator[FieldError]:
    """Tokens in secrets need requests for tokens."""
    if not at.above[0]["spec"].get("tokenRequests"):
        detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        yield invalid(at.path, in_secrets, detail)


def attachment_source(source: Object | None, at: At) -> Iterator[FieldError]:
    """A VolumeAttachment has one source."""
    given = source or {}
    volume = given.get("persistentVolumeName")
    detail = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    if volume is None and "inlineVolumeSpec" not in given:
        yield required(at.path, detail)
    elif volume is not None and "inlineVolumeSpec" in given:
        yield forbidden(at.path, detail)
    elif volume is not None and not volume:
        yield required(f"{at.path}.persistentVolumeName", "must specify non empty persistentVolumeName")
