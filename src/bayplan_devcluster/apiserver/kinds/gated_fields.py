"""Removes fields of disabled feature gates from new and changed objects, unless the object had such fields already.

Mirrors dropDisabledFields of Kubernetes' pkg/registry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from bayplan.core.api import kinds
from bayplan.core.api.kinds import Kind
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.storage.strategy import Strategy
from bayplan_devcluster.apiserver.validation.attributes import LISTS, LISTS_GATE, OVERHEAD_OF_DEVICES

NODE_RESOURCES_GATE = "DRANodeAllocatableResources"
GROUPS_GATE = "DRADeviceCompatibilityGroups"
DERIVED_GATE = "DRADerivedAttributes"
CLAIMS_OF_GROUPS = "DRAWorkloadResourceClaims"
PREEMPTION_OF_GROUPS = "PodGroupPreemptionPolicy"
RESIZES_GATE = "InPlacePodVerticalScalingSchedulerPreemption"
Parts = Callable[[Object, Object | None], Iterator[tuple[Object, Iterable[Object]]]]
"""Yields the parts of a new or changed object, each with the parts of the old object that keep its fields."""


@dataclass(frozen=True, slots=True)
class GatedFields:
    """Fields of some parts of an object that need a gate.

    `used_by`: the fields that show in an old part that the object uses the feature; by default, the fields themselves.
    They exist `since` a change of Kubernetes, or `until` one.
    """

    gate: str
    parts: Parts
    fields: tuple[str, ...]
    used_by: tuple[str, ...] = ()
    since: str = ""
    until: str = ""

    def enabled(self, features: frozenset[str]) -> bool:
        """Whether they exist, and the gate is on."""
        return self.gate in features and (not self.since or self.since in features) and self.until not in features

    def remove(self, new: Object, old: Object | None = None) -> None:
        """Remove them from a new object, and from the parts of a changed one that did not use them."""
        for part, before in self.parts(new, old):
            if not any(each.get(field) for each in before for field in self.used_by or self.fields):
                for field in self.fields:
                    part.pop(field, None)


def without_disabled(hooks: Strategy, kind: Kind, features: frozenset[str]) -> Strategy:
    """The hooks of a kind, which also remove the fields of gates that aren't among `features`."""
    disabled = [each for each in GATED.get(kind, ()) if not each.enabled(features)]
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


def _anywhere(parts: Callable[[Object], Iterator[Object]]) -> Parts:
    """A field is kept in all of these parts if any part of the old object has it."""

    def paired(new: Object, old: Object | None) -> Iterator[tuple[Object, Iterable[Object]]]:
        before = tuple(parts(old)) if old is not None else ()
        for part in parts(new):
            yield part, before

    return paired


def _devices(obj: Object) -> Iterator[Object]:
    yield from obj["spec"].get("devices", ())


def _attributes(obj: Object) -> Iterator[Object]:
    for device in _devices(obj):
        yield from device.get("attributes", {}).values()


def _consumed(obj: Object) -> Iterator[Object]:
    for device in _devices(obj):
        yield from device.get("consumesCounters") or ()


def _asking(obj: Object) -> Iterator[Object]:
    """The requests of a claim, or of a claim template, and their alternatives."""
    spec = obj.get("spec") or {}
    devices = (spec.get("spec") or spec).get("devices") or {}
    for request in devices.get("requests") or ():
        if request.get("exactly"):
            yield request["exactly"]
        yield from request.get("firstAvailable") or ()


def _spec(obj: Object) -> Iterator[Object]:
    yield obj["spec"]


def _status(obj: Object) -> Iterator[Object]:
    yield obj.get("status") or {}


def _claimed(obj: Object) -> Iterator[Object]:
    for status in _status(obj):
        yield from status.get("nodeAllocatableResourceClaimStatuses") or ()


def _status_with_spec(new: Object, old: Object | None) -> Iterator[tuple[Object, Iterable[Object]]]:
    """The status, whose fields the old spec keeps."""
    for status in _status(new):
        yield status, () if old is None else (old["spec"],)


def _templates(new: Object, old: Object | None) -> Iterator[tuple[Object, Iterable[Object]]]:
    """The templates of groups in a Workload, each with the old one at its index."""
    yield from _templates_in(new["spec"], old["spec"] if old is not None else {})


def _templates_in(new: Object, old: Object) -> Iterator[tuple[Object, Iterable[Object]]]:
    for kind in ("podGroupTemplates", "compositePodGroupTemplates"):
        before = old.get(kind) or ()
        for index, template in enumerate(new.get(kind) or ()):
            was: Object = before[index] if index < len(before) else {}
            yield template, (was,)
            yield from _templates_in(template, was)


_OF_GROUPS = (
    GatedFields(CLAIMS_OF_GROUPS, _anywhere(_spec), ("resourceClaims",)),
    GatedFields(CLAIMS_OF_GROUPS, _status_with_spec, ("resourceClaimStatuses",), used_by=("resourceClaims",)),
    GatedFields(PREEMPTION_OF_GROUPS, _anywhere(_spec), ("preemptionPolicy",)),
)
_OF_WORKLOADS = (
    GatedFields(CLAIMS_OF_GROUPS, _templates, ("resourceClaims",)),
    GatedFields(PREEMPTION_OF_GROUPS, _templates, ("preemptionPolicy",)),
)
_OF_CLAIMS = (GatedFields(DERIVED_GATE, _anywhere(_asking), ("derivedAttributes",)),)
GATED: Mapping[Kind, tuple[GatedFields, ...]] = {
    kinds.RESOURCE_SLICE: (
        GatedFields(LISTS_GATE, _anywhere(_attributes), LISTS),
        GatedFields(
            NODE_RESOURCES_GATE,
            _anywhere(_devices),
            ("nodeAllocatableResourceMappings",),
            until=OVERHEAD_OF_DEVICES,
        ),
        GatedFields(
            NODE_RESOURCES_GATE,
            _anywhere(_devices),
            ("nodeAllocatableResources",),
            since=OVERHEAD_OF_DEVICES,
        ),
        GatedFields(GROUPS_GATE, _anywhere(_consumed), ("compatibilityGroups",)),
    ),
    kinds.NODE: (GatedFields(RESIZES_GATE, _anywhere(_spec), ("podPreemptionPolicy",)),),
    **dict.fromkeys((kinds.RESOURCE_CLAIM, kinds.RESOURCE_CLAIM_TEMPLATE), _OF_CLAIMS),
    kinds.POD: (
        GatedFields(NODE_RESOURCES_GATE, _anywhere(_status), ("nodeAllocatableResourceClaimStatuses",)),
        GatedFields(NODE_RESOURCES_GATE, _anywhere(_claimed), ("resources",), until=OVERHEAD_OF_DEVICES),
        GatedFields(NODE_RESOURCES_GATE, _anywhere(_claimed), ("mapping", "overhead"), since=OVERHEAD_OF_DEVICES),
    ),
    **dict.fromkeys((kinds.POD_GROUP_V1ALPHA2, kinds.POD_GROUP, kinds.COMPOSITE_POD_GROUP), _OF_GROUPS),
    **dict.fromkeys((kinds.WORKLOAD_V1ALPHA2, kinds.WORKLOAD), _OF_WORKLOADS),
}
"""By kind."""
