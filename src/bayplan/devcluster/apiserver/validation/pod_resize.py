"""Rules for resizes of pods. Mirrors ValidatePodResize of Kubernetes' pkg/apis/core/validation/validation.go."""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.api.field_errors import FieldError, forbidden, invalid
from bayplan.devcluster.apiserver.quality_of_service import qos_class
from bayplan.devcluster.apiserver.schema import Object

RESIZABLE = frozenset({"cpu", "memory"})


def validate_resize(pod: Object, old: Object) -> Iterator[FieldError]:
    """Rules for a change through the subresource `resize`, in addition to those for pods."""
    spec, was = pod["spec"], old["spec"]
    if qos_class(spec) != qos_class(was):
        detail = "Pod QOS Class may not change as a result of resizing"
        yield invalid("spec", old.get("status", {}).get("qosClass", ""), detail)
    others = [error for field in ("containers", "initContainers") for error in _other_containers(field, spec, was)]
    if others:
        yield from others
        return
    for field in ("initContainers", "containers"):
        for index, (new, before) in enumerate(zip(spec.get(field) or (), was.get(field) or (), strict=True)):
            for part in ("requests", "limits"):
                if set(before["resources"].get(part, ())) - set(new["resources"].get(part, ())):
                    detail = f"resource {part} cannot be removed"
                    yield forbidden(f"spec.{field}[{index}].resources.{part}", detail)
            if _rest(new) != _rest(before):
                yield forbidden("spec", "only cpu and memory resources are mutable")


def _other_containers(field: str, spec: Object, was: Object) -> Iterator[FieldError]:
    new, old = ([container.get("name") for container in each.get(field) or ()] for each in (spec, was))
    if len(new) != len(old):
        yield forbidden(f"spec.{field}", f"{field} may not be added or removed on resize")
        return
    for index, name in enumerate(new):
        if name != old[index]:
            yield forbidden(f"spec.{field}[{index}].name", f"{field} may not be renamed or reordered on resize")


def _rest(container: Object) -> Object:
    """A container without what a resize may change."""
    resources = container["resources"]
    kept = {
        part: {name: amount for name, amount in resources.get(part, {}).items() if name not in RESIZABLE}
        for part in ("requests", "limits")
    }
    return {**container, "resources": {**resources, **kept}}
