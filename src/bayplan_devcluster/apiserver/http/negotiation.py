"""Negotiates the form of a response from the Accept header. Mirrors apiserver's pkg/endpoints/handlers/negotiation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from bayplan.core.api.status import not_acceptable


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a response.

    `kind` is "" for the object itself, or the kind to convert it to: Table, PartialObjectMetadata(List), or
    APIGroupDiscoveryList for aggregated discovery.
    """

    kind: str = ""
    version: str = ""
    yaml: bool = False


PLAIN = Form()
_KINDS = {"Table", "PartialObjectMetadata", "PartialObjectMetadataList", "APIGroupDiscoveryList"}


@lru_cache(maxsize=256)
def negotiate(accept: str) -> Form:
    """Returns the first supported form in an Accept header. Raises 406 if there is none."""
    if not accept:
        return PLAIN
    for clause in accept.split(","):
        media, *rest = (part.strip() for part in clause.split(";"))
        parameters = dict(part.split("=", 1) for part in rest if "=" in part)
        target = parameters.get("as", "")
        if target and target not in _KINDS:
            continue
        if media in {"application/json", "*/*", "application/*"}:
            return Form(target, parameters.get("v", ""))
        if media == "application/yaml":
            return Form(target, parameters.get("v", ""), yaml=True)
    raise not_acceptable()
