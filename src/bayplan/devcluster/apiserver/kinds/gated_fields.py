"""Removes fields of disabled feature gates from new and changed objects, unless the object had such fields already.

Mirrors dropDisabledFields of Kubernetes' pkg/registry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from bayplan.api import kinds
from bayplan.api.kinds import Kind
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.storage.strategy import Strategy
from bayplan.devcluster.apiserver.validation import attributes

NODE_RESOURCES_GATE = "DRANodeAllocatableResources"
GROUPS_GATE = "DRADeviceCompatibilityGroups"
DERIVED_GATE = "DRADerivedAttributes"
Parts = Callable[[Object], Iterator[Object]]


@dataclass(frozen=True, slots=True)
class GatedFields:
    """Fields of some parts of an object that need a gate."""

    gate: str
    parts: Parts
    fields: tuple[str, ...]

    def used_by(self, obj: Object) -> bool:
        """Whether an object has any of them."""
        return any(field in part for part in self.parts(obj) for field in self.fields)

    def remove(self, new: Object, old: Object | None = None) -> None:
        """Remove them from a new object, or from a changed one that had none."""
        if old is None or not self.used_by(old):
            for part in self.parts(new):
                for field in self.fields:
                    part.pop(field, None)


def without_disabled(hooks: Strategy, kind: Kind, features: frozenset[str]) -> Strategy:
    """The hooks of a kind, which also remove the fields of gates that aren't among `features`."""
    disabled = [each for each in GATED.get(kind, ()) if each.gate not in features]
    if not disabled:
        return hooks

    def prepare(new: Object) -> None:
        for each in disabled:
            each.remove(new)
        hooks.prepare_for_create(new)

    def prepare_status(new: Object, old: Object) -> None:
        for each in disabled:
            each.remove(new, old)
        hooks.prepare_for_status_update(new, old)

    def prepare_update(new: Object, old: Object) -> None:
        for each in disabled:
            each.remove(new, old)
        hooks.prepare_for_update(new, old)

    return replace(
        hooks,
        prepare_for_create=prepare,
        prepare_for_update=prepare_update,
        prepare_for_status_update=prepare_status,
    )


def _devices(obj: Object) -> Iterator[Object]:
    yield from obj["spec"].get("devices", ())


def _status(obj: Object) -> Iterator[Object]:
    yield obj.get("status") or {}


def _attributes(obj: Object) -> Iterator[Object]:
    for device in _devices(obj):
        yield from device.get("attributes", {}).values()


def _consumed(obj: Object) -> Iterator[Object]:
    for device in _devices(obj):
        yield from device.get("consumesCounters") or ()


def _asking(obj: Object) -> Iterator[Object]:
    """The requests of a claim, or of a claim template, and their alternatives."""
    spec = obj["spec"].get("spec", obj["spec"])
    for request in (spec.get("devices") or {}).get("requests") or ():
        if request.get("exactly"):
            yield request["exactly"]
        yield from request.get("firstAvailable") or ()


_OF_CLAIMS = (GatedFields(DERIVED_GATE, _asking, ("derivedAttributes",)),)
GATED: Mapping[Kind, tuple[GatedFields, ...]] = {
    kinds.RESOURCE_SLICE: (
        GatedFields(attributes.LISTS_GATE, _attributes, attributes.LISTS),
        GatedFields(NODE_RESOURCES_GATE, _devices, ("nodeAllocatableResourceMappings",)),
        GatedFields(GROUPS_GATE, _consumed, ("compatibilityGroups",)),
    ),
    **dict.fromkeys((kinds.RESOURCE_CLAIM, kinds.RESOURCE_CLAIM_TEMPLATE), _OF_CLAIMS),
    kinds.POD: (GatedFields(NODE_RESOURCES_GATE, _status, ("nodeAllocatableResourceClaimStatuses",)),),
}
"""By kind."""
