"""In which form a client wants an answer. Mirrors apiserver's pkg/endpoints/handlers/negotiation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from bayplan.devcluster.apiserver.status import not_acceptable


@dataclass(frozen=True, slots=True)
class Form:
    """`kind` is "" for the object itself, or what it is turned into: Table, PartialObjectMetadata(List), or the
    aggregated discovery's APIGroupDiscoveryList.
    """

    kind: str = ""
    version: str = ""
    yaml: bool = False


PLAIN = Form()
_KINDS = {"Table", "PartialObjectMetadata", "PartialObjectMetadataList", "APIGroupDiscoveryList"}


@lru_cache(maxsize=256)
def negotiate(accept: str, kinds: frozenset[str] = frozenset(_KINDS)) -> Form:
    """The first form in an Accept header that can be given. Raises 406 if there is none."""
    if not accept:
        return PLAIN
    for clause in accept.split(","):
        media, *rest = (part.strip() for part in clause.split(";"))
        parameters = dict(part.split("=", 1) for part in rest if "=" in part)
        turned_into = parameters.get("as", "")
        if turned_into and turned_into not in kinds:
            continue
        if media in {"application/json", "*/*", "application/*"}:
            return Form(turned_into, parameters.get("v", ""))
        if media == "application/yaml":
            return Form(turned_into, parameters.get("v", ""), yaml=True)
    raise not_acceptable()
