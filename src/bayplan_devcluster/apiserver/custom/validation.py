"""Validates CustomResourceDefinitions.

Mirrors apiextensions-apiserver's pkg/apis/apiextensions/validation. Like upstream, errors name a field
that all versions share as if it were a field of the spec.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bayplan.core.api.field_errors import FieldError, duplicate, invalid, not_supported, required, too_many
from bayplan.core.api.names import name_errors
from bayplan_devcluster.apiserver.custom.conditions import is_true
from bayplan_devcluster.apiserver.custom.schema_rules import check_schema
from bayplan_devcluster.apiserver.schema import Object

APPROVED = "api-approved.kubernetes.io"
COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
SELECTABLE_FIELDS = 8
"""The maximal number of selectable fields of a version."""


def validate_definition(definition: Object) -> Iterator[FieldError]:
    """Rules for a new definition."""
    yield from _check_name(definition)
    yield from _check_spec(definition["spec"])
    yield from _check_stored_versions(definition)
    yield from _check_approval(definition)
    yield from _check_preservation(definition["spec"])


def validate_definition_update(definition: Object, old: Object) -> Iterator[FieldError]:
    """Rules for a changed definition."""
    spec, was = definition["spec"], old["spec"]
    yield from _check_spec(spec)
    names, had = spec["names"], was["names"]
    fixed: list[tuple[str, Any, Any]] = []
    if is_true(old, "Established"):
        fixed += [("spec.scope", spec["scope"], was["scope"]), ("spec.names.kind", names["kind"], had["kind"])]
    fixed += [("spec.group", spec["group"], was["group"]), ("spec.names.plural", names["plural"], had["plural"])]
    for field, new, before in fixed:
        if new != before:
            yield invalid(field, new, "field is immutable")
    yield from _check_stored_versions(definition)
    if _approval(definition) != _approval(old):
        yield from _check_approval(definition)
    yield from _check_preservation(spec)


def _check_name(definition: Object) -> Iterator[FieldError]:
    spec, name = definition["spec"], definition["metadata"].get("name", "")
    expected = f"{spec['names']['plural']}.{spec['group']}"
    if name != expected:
        yield invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')


def _check_spec(spec: Object) -> Iterator[FieldError]:
    group = spec["group"]
    if not group:
        yield required("spec.group")
    elif errors := name_errors(group, "subdomain"):
        yield invalid("spec.group", group, ",".join(errors))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    if not spec["scope"]:
        yield required("spec.scope")
    elif spec["scope"] not in {"Cluster", "Namespaced"}:
        yield not_supported("spec.scope", spec["scope"], ("Cluster", "Namespaced"))
    versions: Sequence[Object] = spec.get("versions") or ()
    for index, version in enumerate(versions):
        if "openAPIV3Schema" not in (version.get("schema") or {}):
            yield required(f"spec.versions[{index}].schema.openAPIV3Schema")
    yield from _check_versions(versions)
    for field in ("plural", "singular", "kind", "listKind"):
        if not spec["names"].get(field):
            yield required(f"spec.names.{field}")
    yield from _check_names(spec["names"])
    strategy = (spec.get("conversion") or {}).get("strategy")
    if strategy not in {"None", "Webhook"}:
        yield not_supported("spec.conversion.strategy", strategy, ("None", "Webhook"))


def _check_versions(versions: Sequence[Object]) -> Iterator[FieldError]:
    names = [version["name"] for version in versions]
    for index, version in enumerate(versions):
        if errors := name_errors(version["name"], "label1035"):
            yield invalid(f"spec.versions[{index}].name", version["name"], ",".join(errors))
        yield from _check_deprecation(version, f"spec.versions[{index}].deprecationWarning")
        yield from _check_selectable(version, f"spec.versions[{index}].selectableFields")
    for field, top, check in (
        ("schema", "spec.validation", _check_validation),
        ("subresources", "spec.subresources", _check_subresources),
        ("additionalPrinterColumns", "spec.additionalPrinterColumns", _check_columns),
    ):
        if versions and all(version.get(field) == versions[0].get(field) for version in versions):
            yield from check(versions[0], versions[0].get(field), top)
        else:
            for index, version in enumerate(versions):
                yield from check(version, version.get(field), f"spec.versions[{index}].{field}")
    if len(set(names)) < len(names):
        yield invalid("spec.versions", names, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield invalid("spec.versions", names, "must have exactly one version marked as storage version")


def _check_deprecation(version: Object, where: str) -> Iterator[FieldError]:
    warning = version.get("deprecationWarning")
    if warning is None:
        return
    if not version.get("deprecated"):
        yield invalid(where, warning, "can only be set for deprecated versions")
    if len(warning) > 256:
        yield invalid(where, warning, "must be <= 256 characters long")
    if not warning:
        yield invalid(where, warning, "must not be an empty string")
    index = next((index for index, letter in enumerate(warning) if not letter.isprintable()), None)
    if index is not None:
        detail = f"must only contain printable UTF-8 characters; non-printable character found at index {index}"
        yield invalid(where, warning, detail)


def _check_selectable(version: Object, where: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, field in enumerate(version.get("selectableFields") or ()):
        path, at = field["jsonPath"], f"{where}[{index}].jsonPath"
        if not path:
            yield required(at)
            continue
        schema: Any = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        keys = path.removeprefix(".").split(".")
        for key in keys:
            schema = schema.get("properties", {}).get(key) if isinstance(schema, dict) else None
        if not path.startswith(".") or schema is None:
            yield invalid(at, path, "is an invalid path: it leads to no property of the schema")
        elif keys[0] == "metadata":
            yield invalid(at, path, "must not point to fields in metadata")
        elif schema.get("type") not in {"string", "boolean", "integer"}:
            detail = "must point to a field of type string, boolean or integer. "
            yield invalid(at, path, f"{detail}Enum string fields and strings with formats are allowed.")
        if path in seen:
            yield duplicate(at, path)
        seen.add(path)
    if len(seen) > SELECTABLE_FIELDS:
        yield too_many(where, len(seen), SELECTABLE_FIELDS)


def _check_validation(version: Object, schema: Object | None, where: str) -> Iterator[FieldError]:
    root = (schema or {}).get("openAPIV3Schema")
    if root is not None:
        has_status = "status" in (version.get("subresources") or {})
        yield from check_schema(root, f"{where}.openAPIV3Schema", has_status=has_status)


def _check_subresources(_version: Object, subresources: Object | None, where: str) -> Iterator[FieldError]:
    scale = (subresources or {}).get("scale")
    if scale is None:
        return
    for field, parents, below, needed in (
        ("specReplicasPath", (".spec.",), "under .spec", True),
        ("statusReplicasPath", (".status.",), "under .status", True),
        ("labelSelectorPath", (".spec.", ".status."), "under either .spec or .status", False),
    ):
        path, at = scale.get(field, ""), f"{where}.scale.{field}"
        if not path:
            if needed:
                yield required(at)
        elif not path.startswith("."):
            yield invalid(at, path, "must be a simple json path starting with .")
        elif not path.startswith(parents):
            yield invalid(at, path, f"should be a json path {below}")


def _check_columns(_version: Object, columns: Sequence[Object] | None, where: str) -> Iterator[FieldError]:
    for index, column in enumerate(columns or ()):
        at = f"{where}[{index}]"
        if not column["name"]:
            yield required(f"{at}.name")
        one_of = "must be one of boolean,date,integer,number,string"
        if not column["type"]:
            yield required(f"{at}.type", one_of)
        elif column["type"] not in COLUMN_TYPES:
            yield invalid(f"{at}.type", column["type"], one_of)
        if column.get("format") and column["format"] not in COLUMN_FORMATS:
            yield invalid(f"{at}.format", column["format"], f"must be one of {','.join(COLUMN_FORMATS)}")
        if not column["jsonPath"]:
            yield required(f"{at}.JSONPath")
        elif not column["jsonPath"].startswith("."):
            yield invalid(f"{at}.JSONPath", column["jsonPath"], "must be a simple json path starting with .")


def _check_names(names: Object) -> Iterator[FieldError]:
    for field in ("plural", "singular"):
        name = names.get(field, "")
        if name and (errors := name_errors(name, "label1035")):
            yield invalid(f"spec.names.{field}", name, ",".join(errors))
    for field in ("kind", "listKind"):
        name = names.get(field, "")
        if name and (errors := name_errors(name.lower(), "label1035")):
            detail = f"may have mixed case, but should otherwise match: {','.join(errors)}"
            yield invalid(f"spec.names.{field}", name, detail)
    for field in ("shortNames", "categories"):
        for index, name in enumerate(names.get(field) or ()):
            if errors := name_errors(name, "label1035"):
                yield invalid(f"spec.names.{field}[{index}]", name, ",".join(errors))
    if names.get("kind") and names["kind"] == names.get("listKind"):
        yield invalid("spec.names.listKind", names["listKind"], "kind and listKind may not be the same")


def _check_stored_versions(definition: Object) -> Iterator[FieldError]:
    stored = definition["status"].get("storedVersions") or []
    if not stored:
        yield invalid("status.storedVersions", stored, "must have at least one stored version")
    known = {version["name"] for version in definition["spec"].get("versions") or ()}
    for index, version in enumerate(stored):
        if version not in known:
            detail = (
                f"missing from spec.versions; {version} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {version} and removes "
                f"{version} from status.storedVersions"
            )
            yield invalid(f"status.storedVersions[{index}]", version, detail)


def _approval(definition: Object) -> str | None:
    annotations = definition["metadata"].get("annotations") or {}
    found: str | None = annotations.get(APPROVED)
    return found


def _check_approval(definition: Object) -> Iterator[FieldError]:
    group, approval = definition["spec"]["group"], _approval(definition)
    if not f".{group}".endswith((".k8s.io", ".kubernetes.io")):
        return
    where = f"metadata.annotations[{APPROVED}]"
    if not approval:
        pull = "https://github.com/kubernetes/enhancements/pull/1111"
        yield required(where, f'protected groups must have approval annotation "{APPROVED}", see {pull}')
    elif not approval.startswith(("unapproved", "https://", "http://")):
        detail = (
            f'protected groups must have approval annotation "{APPROVED}" with either a URL or a reason starting with '
            '"unapproved", see https://github.com/kubernetes/enhancements/pull/1111'
        )
        yield invalid(where, approval, detail)


def _check_preservation(spec: Object) -> Iterator[FieldError]:
    if spec.get("preserveUnknownFields"):
        detail = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        )
        yield invalid("spec.preserveUnknownFields", True, detail)
