"""Validates changes of pods. Mirrors ValidatePodUpdate of Kubernetes' pkg/apis/core/validation/validation.go."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from typing import Any

from bayplan.core.api.field_errors import FieldError, forbidden, invalid
from bayplan.core.api.resource_lists import qos_class
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.validation.rules import At

UPDATABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
    "previously negative)"
)


def update(pod: Object, at: At) -> Iterator[FieldError]:
    """Most fields of a pod's spec are immutable."""
    new_spec, old_spec = pod["spec"], at.old["spec"]
    if new_spec == old_spec:
        return
    for field in ("containers", "initContainers"):
        if len(new_spec.get(field) or ()) != len(old_spec.get(field) or ()):
            yield forbidden(f"spec.{field}", "pod updates may not add or remove containers")
            return
    yield from _deadline(new_spec, old_spec)
    kept = [
        toleration
        for toleration in old_spec.get("tolerations", ())
        if toleration not in new_spec.get("tolerations", ())
    ]
    if kept:
        yield forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
    gates = {gate["name"] for gate in old_spec.get("schedulingGates", ())}
    for index, gate in enumerate(new_spec.get("schedulingGates", ())):
        if gate["name"] not in gates:
            detail = f"only deletion is allowed, but found new scheduling gate '{gate['name']}'"
            yield forbidden(f"spec.schedulingGates[{index}].name", detail)
    munged, gated = _munged(new_spec, old_spec), bool(gates)
    if gated:
        yield from _narrowed(munged, old_spec)
    if munged != old_spec:
        yield forbidden("spec", f"pod updates may not change fields other than {UPDATABLE}\n{_diff(old_spec, munged)}")


def _deadline(new_spec: Object, old_spec: Object) -> Iterator[FieldError]:
    new, old = new_spec.get("activeDeadlineSeconds"), old_spec.get("activeDeadlineSeconds")
    if old is not None and new is None:
        yield invalid("spec.activeDeadlineSeconds", None, "must not update from a positive integer to nil value")
    elif old is not None and new is not None and new > old:
        yield invalid("spec.activeDeadlineSeconds", new, "must be less than or equal to previous value")


def _munged(new_spec: Object, old_spec: Object) -> Object:
    """The new spec with the old values of all mutable fields."""
    munged = dict(new_spec)
    for field in ("containers", "initContainers"):
        pairs = zip(new_spec.get(field) or (), old_spec.get(field) or (), strict=True)
        containers = [{**new, "image": old.get("image", "")} for new, old in pairs]
        if containers:
            munged[field] = containers
    for field in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        munged.pop(field, None)
        if field in old_spec:
            munged[field] = old_spec[field]
    if old_spec.get("terminationGracePeriodSeconds", 0) < 0 and munged.get("terminationGracePeriodSeconds") == 1:
        munged["terminationGracePeriodSeconds"] = old_spec["terminationGracePeriodSeconds"]
    return munged


def _narrowed(munged: Object, old_spec: Object) -> Iterator[FieldError]:
    """A gated pod's node selector and node affinity may become stricter. Undoes allowed changes in `munged`."""
    old_selector, new_selector = old_spec.get("nodeSelector", {}), munged.get("nodeSelector", {})
    if any(new_selector.get(key) != value for key, value in old_selector.items()):
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield invalid("spec.nodeSelector", new_selector, detail)
    _put(munged, "nodeSelector", old_selector)
    old_affinity, new_affinity = old_spec.get("affinity", {}), dict(munged.get("affinity", {}))
    needed = "requiredDuringSchedulingIgnoredDuringExecution"
    old_terms = old_affinity.get("nodeAffinity", {}).get(needed, {}).get("nodeSelectorTerms") or []
    new_terms = new_affinity.get("nodeAffinity", {}).get(needed, {}).get("nodeSelectorTerms") or []
    where = f"spec.affinity.nodeAffinity.{needed}"
    if old_terms and len(old_terms) != len(new_terms):
        yield invalid(
            f"{where}.nodeSelectorTerms",
            new_terms,
            "no additions/deletions to non-empty NodeSelectorTerms list are allowed",
        )
    elif any(
        requirement not in new.get(field, ())
        for old, new in zip(old_terms, new_terms, strict=False)
        for field in ("matchExpressions", "matchFields")
        for requirement in old.get(field, ())
    ):
        yield invalid(
            f"{where}.nodeSelectorTerms[0]", new_terms[0], "only additions are allowed (no mutations or deletions)"
        )
    _put(new_affinity, "nodeAffinity", old_affinity.get("nodeAffinity", {}))
    _put(munged, "affinity", new_affinity)
    if "affinity" in old_spec:
        munged.setdefault("affinity", {})


def _put(obj: Object, field: str, value: Any) -> None:
    obj.pop(field, None)
    if value:
        obj[field] = value


def _diff(old: Object, new: Object) -> str:
    before, after = (json.dumps(spec, indent=1, sort_keys=True).splitlines() for spec in (old, new))
    return "\n".join(list(difflib.unified_diff(before, after, lineterm="", n=3))[2:]) + "\n"


# Resizes. Mirrors ValidatePodResize.


RESIZABLE = frozenset({"cpu", "memory"})


def validate_resize(pod: Object, old: Object) -> Iterator[FieldError]:
    """Rules for a change through the subresource `resize`, in addition to those for pods."""
    spec, was = pod["spec"], old["spec"]
    if qos_class(spec) != qos_class(was):
        detail = "Pod QOS Class may not change as a result of resizing"
        yield invalid("spec", old.get("status", {}).get("qosClass", ""), detail)
    claimed = old.get("status", {}).get("nodeAllocatableResourceClaimStatuses", ())
    if any("resources" in each for each in claimed):  # the form of 1.36: in 1.37, such pods can be resized
        yield forbidden("spec", "pods with node allocatable resource claims cannot be resized")
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
