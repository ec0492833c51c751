"""Builds the resources that a CustomResourceDefinition defines, one for each version.

Mirrors the storages and strategies of apiextensions-apiserver's pkg/registry/customresource.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bayplan.core.api.field_errors import FieldError
from bayplan.core.api.kinds import Kind
from bayplan_devcluster.apiserver.custom.structural import StructuralSchema
from bayplan_devcluster.apiserver.custom.structures import check_structure
from bayplan_devcluster.apiserver.custom.values import ABSENT, Place, check_value
from bayplan_devcluster.apiserver.jsonpath import compile_path
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.storage.resource import CustomFacts, Resource
from bayplan_devcluster.apiserver.storage.selectable_fields import FieldReader, SelectableFields, field_text
from bayplan_devcluster.apiserver.storage.strategy import Strategy
from bayplan_devcluster.apiserver.tables.columns import custom_columns


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
    schema = StructuralSchema(kind, version["schema"]["openAPIV3Schema"])
    rules = _Rules(schema)
    own = _selectable(version)
    fields = {name: read for one in spec["versions"] for name, read in _selectable(one).items()}
    return Resource(
        kind,
        Strategy(
            prepare_for_status_update=_keep_all_but_status,
            validate_create=rules.validate_create,
            validate_update=rules.validate_update,
            validate_status_update=rules.validate_status_update,
        ),
        SelectableFields(fields, internal=frozenset(fields.keys() - own.keys())),
        generation=True,
        allow_unconditional_update=False,
        own_schema=schema,
        custom=CustomFacts(
            definition["metadata"]["name"],
            names.get("listKind", ""),
            custom_columns(version.get("additionalPrinterColumns", ())),
            subresources.get("scale"),
            _warning(kind, version),
        ),
    )


def _keep_all_but_status(new: Object, old: Object) -> None:
    """An update of the status does not change the metadata."""
    new["metadata"] = {**old["metadata"]}


def _warning(kind: Kind, version: Object) -> str:
    if not version.get("deprecated"):
        return ""
    warning: str = version.get("deprecationWarning") or f"{kind.api_version} {kind.kind} is deprecated"
    return warning


def _selectable(version: Object) -> dict[str, FieldReader]:
    """The selectable fields of a version, by the names that selectors use."""
    paths = [field["jsonPath"] for field in version.get("selectableFields") or ()]
    return {path.removeprefix("."): _reader(path) for path in paths}


def _reader(path: str) -> FieldReader:
    find = compile_path(path)

    def read(obj: Object) -> str:
        found = find(obj)
        return field_text(found[0]) if found else ""

    return read


class _Rules:
    """Validates objects against the schema of a version."""

    def __init__(self, schema: StructuralSchema) -> None:
        self._kind = schema.kind
        self._schema = schema.schema

    def validate_create(self, obj: Object) -> Iterator[FieldError]:
        """Validates the whole object."""
        yield from check_value(self._schema, self._whole(obj), Place())
        yield from check_structure(self._schema, obj, Place())

    def validate_update(self, new: Object, old: Object) -> Iterator[FieldError]:
        """Validates what has changed."""
        yield from check_value(self._schema, self._whole(new), Place(), self._whole(old))
        if not any(check_structure(self._schema, old, Place())):
            yield from check_structure(self._schema, new, Place())

    def validate_status_update(self, new: Object, old: Object) -> Iterator[FieldError]:
        """Validates what has changed in the status."""
        schema = self._schema.get("properties", {}).get("status", {})
        if "status" in new:
            yield from check_value(schema, new["status"], Place(prefix="status"), old.get("status", ABSENT))

    def _whole(self, obj: Object) -> dict[str, Any]:
        return {"kind": self._kind.kind, "apiVersion": self._kind.api_version, **obj}
