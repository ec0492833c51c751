"""Builds the resources that a CustomResourceDefinition defines, one for each version.

Mirrors the storages and strategies of apiextensions-apiserver's pkg/registry/customresource.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from bayplan.api.kinds import CUSTOM_RESOURCE_DEFINITION, Kind
from bayplan.devcluster.apiserver.custom.columns import table_of
from bayplan.devcluster.apiserver.custom.jsonpath import compile_path
from bayplan.devcluster.apiserver.custom.scale import scale_of
from bayplan.devcluster.apiserver.custom.structural import StructuralShape
from bayplan.devcluster.apiserver.custom.structures import check_structure
from bayplan.devcluster.apiserver.custom.values import ABSENT, Place, check_value
from bayplan.devcluster.apiserver.registry import Registry
from bayplan.devcluster.apiserver.resources import Resource
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.status import FieldError, StatusError


def resources_of(definition: Object) -> tuple[list[Resource], Resource]:
    """The served resources, and the resource of the storage version."""
    versions = [(version, _resource(definition, version)) for version in definition["spec"]["versions"]]
    served = [resource for version, resource in versions if version.get("served")]
    return served, next(resource for version, resource in versions if version.get("storage"))


def _resource(definition: Object, version: Object) -> Resource:
    spec, names = definition["spec"], definition["status"]["acceptedNames"]
    subresources = version.get("subresources") or {}
    kind = Kind(
        group=spec["group"],
        version=version["name"],
        kind=names["kind"],
        plural=names["plural"],
        singular=names.get("singular", ""),
        namespaced=spec["scope"] == "Namespaced",
        model="",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        status="status" in subresources,
    )
    shape = StructuralShape(kind, version["schema"]["openAPIV3Schema"])
    rules = _Rules(shape)
    own = _selectable(version)
    fields = {name: read for one in spec["versions"] for name, read in _selectable(one).items()}
    return Resource(
        kind,
        typed=shape,
        default=shape.fill_defaults,
        admit=_admitter(definition["metadata"]["name"]),
        prepare_status=_keep_all_but_status,
        validate_new=rules.validate_new,
        validate_update=rules.validate_update,
        validate_status=rules.validate_status,
        generation=True,
        unconditional_update=False,
        fields=fields,
        hidden_fields=frozenset(fields.keys() - own.keys()),
        from_storage=shape.from_storage,
        columns=table_of(version.get("additionalPrinterColumns", ())),
        subresources={"scale": scale_of(subresources["scale"])} if "scale" in subresources else {},
        items_say_kind=True,
        list_kind=names.get("listKind", ""),
        warning=_warning(kind, version),
    )


def _admitter(definition: str) -> Callable[[Registry, Object], None]:
    """A hook that rejects new objects while the definition is being deleted."""

    def admit(registry: Registry, _obj: Object) -> None:
        found = registry.store.collection(CUSTOM_RESOURCE_DEFINITION.resource).objects.get(definition)
        if found is None or found.terminating:
            message = "create not allowed while custom resource definition is terminating"
            raise StatusError(405, "MethodNotAllowed", message, {})

    return admit


def _keep_all_but_status(new: Object, old: Object) -> None:
    """An update of the status does not change the metadata."""
    new["metadata"] = {**old["metadata"]}


def _warning(kind: Kind, version: Object) -> str:
    if not version.get("deprecated"):
        return ""
    warning: str = version.get("deprecationWarning") or f"{kind.api_version} {kind.kind} is deprecated"
    return warning


def _selectable(version: Object) -> dict[str, Callable[[Object], str]]:
    """The selectable fields of a version, by the names that selectors use."""
    return {field["jsonPath"].removeprefix("."): _reader(field["jsonPath"]) for field in _fields(version)}


def _fields(version: Object) -> Iterable[Object]:
    found: Iterable[Object] = version.get("selectableFields") or ()
    return found


def _reader(path: str) -> Callable[[Object], str]:
    find = compile_path(path)

    def read(obj: Object) -> str:
        found = find(obj)
        if not found or found[0] is None:
            return ""
        value = found[0]
        return str(value).lower() if isinstance(value, bool) else str(value)

    return read


class _Rules:
    """Validates objects against the schema of a version."""

    def __init__(self, shape: StructuralShape) -> None:
        self._kind = shape.kind
        self._schema = shape.schema

    def validate_new(self, obj: Object) -> Iterator[FieldError]:
        """Validates the whole object."""
        yield from check_value(self._schema, self._whole(obj), Place())
        yield from check_structure(self._schema, obj, Place())

    def validate_update(self, new: Object, old: Object) -> Iterator[FieldError]:
        """Validates what has changed."""
        yield from check_value(self._schema, self._whole(new), Place(), self._whole(old))
        if not any(check_structure(self._schema, old, Place())):
            yield from check_structure(self._schema, new, Place())

    def validate_status(self, new: Object, old: Object) -> Iterator[FieldError]:
        """Validates what has changed in the status."""
        schema = self._schema.get("properties", {}).get("status", {})
        if "status" in new:
            yield from check_value(schema, new["status"], Place(prefix="status"), old.get("status", ABSENT))

    def _whole(self, obj: Object) -> dict[str, Any]:
        return {"kind": self._kind.kind, "apiVersion": self._kind.api_version, **obj}
