"""A request as the verbs see it: read off its connection, with its options and its body on demand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bayplan.api.kinds import Kind
from bayplan.devcluster.apiserver.authorization.users import ADMIN, User
from bayplan.devcluster.apiserver.decoding import FieldValidation, accept, read_document
from bayplan.devcluster.apiserver.http.messages import JSON_TYPE
from bayplan.devcluster.apiserver.patch import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    apply_json_patch,
    apply_merge_patch,
)
from bayplan.devcluster.apiserver.requests import RequestInfo
from bayplan.devcluster.apiserver.resources import Resource
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.shapes import Shape, TypedShape
from bayplan.devcluster.apiserver.status import (
    bad_request,
    invalid,
    not_supported,
    required,
    unsupported_media_type,
)


def _options(kind: str) -> Kind:
    return Kind("meta.k8s.io", "v1", kind, "", "", namespaced=False, model="meta_v1.DeleteOptions")


_OPTIONS = {
    "create": _options("CreateOptions"),
    "update": _options("UpdateOptions"),
    "patch": _options("PatchOptions"),
}
_SCALE = TypedShape(Kind("autoscaling", "v1", "Scale", "", "", namespaced=True, model="autoscaling_v1.Scale"))


def _check_applied(configuration: Any) -> None:
    """What is applied has to say what it is. Raises 400."""
    kind, version = configuration.get("kind", ""), configuration.get("apiVersion", "")
    if not kind or not version:
        group, _, plain = str(version).rpartition("/")
        raise bad_request(f"invalid object type: {group}/{plain}, Kind={kind}")


@dataclass(slots=True)
class Request:
    """One request."""

    info: RequestInfo
    parameters: Mapping[str, str]
    body: bytes = b""
    content_type: str = JSON_TYPE
    accept: str = ""
    user: User = ADMIN

    @property
    def media(self) -> str:
        """The body's media type, without parameters."""
        return self.content_type.partition(";")[0].strip()

    def dry_run(self) -> bool:
        """Whether nothing is to be stored. Raises 422."""
        wanted = self.parameters.get("dryRun", "")
        if wanted not in {"", "All"}:
            raise invalid(_OPTIONS[self.info.verb], "", [not_supported("dryRun", [wanted], ("All",))])
        return wanted == "All"

    def validation(self) -> FieldValidation:
        """How unknown fields are judged. Raises 422."""
        mode = self.parameters.get("fieldValidation", "") or "Warn"
        if mode not in {"Ignore", "Warn", "Strict"}:
            supported = ("", "Ignore", "Strict", "Warn")
            raise invalid(_OPTIONS[self.info.verb], "", [not_supported("fieldValidation", mode, supported)])
        return FieldValidation(mode)

    def document(self, kind: Kind) -> Object:
        """The body as an object of a kind that is not stored, normalized; empty without a body. Raises 400 or 415."""
        if not self.body:
            return {}
        shape = TypedShape(kind)
        document = read_document(shape, self.body, self.content_type)
        if isinstance(document, dict):
            document.pop("apiVersion", None)  # options and reviews come in the versions of many groups
        return accept(shape, document, FieldValidation("Ignore"))

    def patch(self, shape: Shape) -> Any:
        """The patch that the body is. Raises 400, 415, or 422 for an apply without a manager."""
        if self.media not in shape.patch_types:
            raise unsupported_media_type()
        if self.media == APPLY_PATCH and not self.parameters.get("fieldManager"):
            raise invalid(_OPTIONS["patch"], "", [required("fieldManager", "is required for apply patch")])
        patch = read_document(shape, self.body, self.content_type)
        if self.media == APPLY_PATCH and isinstance(patch, dict):
            _check_applied(patch)
        return patch

    def patched(self, shape: Shape, old: Object) -> Object:
        """The document that the body, a patch, makes of `old`."""
        kind = shape.kind
        patch, whole = self.patch(shape), {"kind": kind.kind, "apiVersion": kind.api_version, **old}
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
            return shape.apply(whole, patch)
        return shape.merge_strategically(whole, patch)

    def changed(self, old: Object) -> Object:
        """The scale that an update or a patch of `old` makes."""
        if self.info.verb == "patch":
            return self.patched(_SCALE, old)
        return self.document(_SCALE.kind)

    def object(self, resource: Resource, old: Object) -> Object:
        """The object that an update or a patch of `old` makes, normalized."""
        if self.info.verb == "patch":
            return accept(resource.shape, self.patched(resource.shape, old), self.validation())
        return self.document(resource.kind)
