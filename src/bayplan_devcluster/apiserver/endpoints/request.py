"""A request for a resource: its options and its body, decoded when a verb needs them.

Errors of options and of the body have kube-apiserver's statuses and words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bayplan.core.api import field_errors
from bayplan.core.api.field_errors import FieldError, not_supported, required, too_long
from bayplan.core.api.kinds import Kind
from bayplan.core.api.patch import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    PATCH_TYPES,
    apply_json_patch,
    apply_merge_patch,
)
from bayplan.core.api.status import bad_request, invalid, unsupported_media_type
from bayplan_devcluster.apiserver.authorization.users import ADMIN, User
from bayplan_devcluster.apiserver.endpoints.decoding import FieldValidation, accept, read_document
from bayplan_devcluster.apiserver.http.messages import JSON_TYPE, YAML_TYPE
from bayplan_devcluster.apiserver.http.request_info import RequestInfo
from bayplan_devcluster.apiserver.protobuf import PROTOBUF
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.storage.object_schema import ObjectSchema, TypedSchema
from bayplan_devcluster.apiserver.storage.resource import Resource


def _options(kind: str) -> Kind:
    return Kind("meta.k8s.io", "v1", kind, "", "", namespaced=False, model="meta_v1.DeleteOptions")


_OPTIONS = {"create": _options("CreateOptions"), "update": _options("UpdateOptions"), "patch": _options("PatchOptions")}


MANAGER_LENGTH = 128
MODES = ("", "Ignore", "Strict", "Warn")
"""How unknown fields may be handled."""
BODY_TYPES = frozenset({JSON_TYPE, YAML_TYPE, PROTOBUF, ""})
"""The media types of the objects in bodies."""


def _check_applied(configuration: Any) -> None:
    """Raises 400 for an applied configuration without a kind and a version."""
    kind, version = configuration.get("kind", ""), configuration.get("apiVersion", "")
    if not kind or not version:
        group, _, plain = str(version).rpartition("/")
        raise bad_request(f"invalid object type: {group}/{plain}, Kind={kind}")


@dataclass(slots=True)
class Request:
    """A request from an authenticated user. `query` has the query parameters."""

    info: RequestInfo
    query: Mapping[str, str]
    body: bytes = b""
    content_type: str = JSON_TYPE
    accept: str = ""
    user: User = ADMIN

    @property
    def media(self) -> str:
        """The body's media type, without parameters."""
        return self.content_type.partition(";")[0].strip()

    def check_options(self) -> None:
        """Checks the media type of the body and the options of a write, before the body is read. Raises 415 or 422."""
        verb = self.info.verb
        if verb not in _OPTIONS:
            return
        if verb != "patch" and self.media not in BODY_TYPES:
            raise unsupported_media_type()
        if verb == "patch" and self.media not in PATCH_TYPES:
            raise unsupported_media_type()
        errors = list(self._option_errors())
        if errors:
            raise invalid(_OPTIONS[verb], "", errors)

    def _option_errors(self) -> Iterator[FieldError]:
        manager, dry_run = self.query.get("fieldManager", ""), self.query.get("dryRun", "All")
        mode = self.query.get("fieldValidation", "")
        if self.media == APPLY_PATCH and not manager:
            yield required("fieldManager", "is required for apply patch")
        elif self.info.verb == "patch" and self.media != APPLY_PATCH and "force" in self.query:
            yield field_errors.forbidden("force", "may not be specified for non-apply patch")
        if len(manager.encode()) > MANAGER_LENGTH:
            yield too_long("fieldManager", MANAGER_LENGTH)
        for position, character in enumerate(manager):
            if not character.isprintable():
                detail = f"invalid character U+{ord(character):04X} (at position {position})"
                yield field_errors.invalid("fieldManager", manager, detail)
        if dry_run != "All":
            yield not_supported("dryRun", [dry_run], ("All",))
        if mode not in MODES:
            yield not_supported("fieldValidation", mode, MODES)

    def dry_run(self) -> bool:
        """Whether the request must not store anything."""
        return self.query.get("dryRun", "") == "All"

    def validation(self) -> FieldValidation:
        """How to handle unknown fields."""
        return FieldValidation(self.query.get("fieldValidation", "") or "Warn")

    def document(self, kind: Kind) -> Object:
        """Returns the body as a normalized object of a kind that is not stored; {} without a body. Raises 4xx."""
        if not self.body:
            return {}
        schema = TypedSchema(kind)
        document = read_document(schema, self.body, self.content_type)
        if isinstance(document, dict):
            document.pop("apiVersion", None)  # options and reviews come in the versions of many groups
        return accept(schema, document, FieldValidation("Ignore"))

    def patch(self, schema: ObjectSchema) -> Any:
        """Returns the body as a patch. Raises 400 or 415."""
        if self.media not in schema.patch_types:
            raise unsupported_media_type()
        patch = read_document(schema, self.body, self.content_type)
        if self.media == APPLY_PATCH and isinstance(patch, dict):
            _check_applied(patch)
            schema.check_configuration(patch)
            if (patch.get("metadata") or {}).get("managedFields"):
                raise bad_request("metadata.managedFields must be nil")
        return patch

    def patched(self, schema: ObjectSchema, old: Object) -> Object:
        """Returns `old` with the patch in the body applied."""
        kind = schema.kind
        patch, whole = self.patch(schema), {"kind": kind.kind, "apiVersion": kind.api_version, **old}
        if self.media == JSON_PATCH:
            return apply_json_patch(whole, patch)
        if not isinstance(patch, dict):
            what = "array" if isinstance(patch, list) else "value"
            why = f"json: cannot unmarshal {what} into Go value of type map[string]interface {{}}"
            raise bad_request(f"error decoding patch: {why}")
        if self.media == MERGE_PATCH:
            merged: Object = apply_merge_patch(whole, patch)
            return merged
        if self.media == APPLY_PATCH:
            return schema.apply(whole, patch)
        return schema.merge_strategically(whole, patch)

    def changed(self, schema: TypedSchema, old: Object) -> Object:
        """Returns the normalized object of a kind that is not stored that an update or a patch makes of `old`."""
        if self.info.verb == "patch":
            return accept(schema, self.patched(schema, old), FieldValidation("Ignore"))
        return self.document(schema.kind)

    def object(self, resource: Resource, old: Object) -> Object:
        """Returns the normalized object that an update or a patch makes of `old`."""
        if self.info.verb == "patch":
            return accept(resource.schema, self.patched(resource.schema, old), self.validation())
        return self.document(resource.kind)
