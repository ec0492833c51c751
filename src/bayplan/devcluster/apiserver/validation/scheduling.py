"""Validates PodGroups and Workloads. Mirrors the validation of Kubernetes' pkg/apis/scheduling/v1alpha2."""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.api.field_errors import FieldError, duplicate, invalid, not_supported, required, too_many
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.validation.checks import unchanged
from bayplan.devcluster.apiserver.validation.meta import name_errors

_MODES = ("Pod", "PodGroup")
_HIGHEST_PRIORITY = 1_000_000_000
_MAX_TEMPLATES = 8
_MAX_CLAIMS = 4


def validate_pod_group(pod_group: Object) -> Iterator[FieldError]:
    """Rules for a PodGroup."""
    spec = pod_group["spec"]
    yield from _group(spec, "spec")
    reference = spec.get("podGroupTemplateRef")
    if reference is not None and not reference.get("workload"):
        yield invalid("spec.podGroupTemplateRef", "", "must specify one of: `workload`")


def validate_pod_group_update(pod_group: Object, old: Object) -> Iterator[FieldError]:
    """The spec is immutable."""
    new_spec, old_spec = pod_group["spec"], old["spec"]
    for field in sorted({*new_spec, *old_spec}):
        yield from unchanged(f"spec.{field}", new_spec.get(field), old_spec.get(field))


def validate_workload(workload: Object) -> Iterator[FieldError]:
    """Rules for a Workload: one to eight PodGroup templates with distinct names."""
    templates = workload["spec"].get("podGroupTemplates") or ()
    where = "spec.podGroupTemplates"
    if not templates:
        yield required(where)
    if len(templates) > _MAX_TEMPLATES:
        yield too_many(where, len(templates), _MAX_TEMPLATES)
    names: set[str] = set()
    for index, template in enumerate(templates):
        if not template.get("name"):
            yield required(f"{where}[{index}].name")
        elif template["name"] in names:
            yield duplicate(f"{where}[{index}]", {"name": template["name"]})
        names.add(template.get("name", ""))
        for error in name_errors(template["name"], "label") if template.get("name") else ():
            yield invalid(f"{where}[{index}].name", template["name"], error)
        yield from _group(template, f"{where}[{index}]")


def validate_workload_update(workload: Object, old: Object) -> Iterator[FieldError]:
    """The templates are immutable, and so is the controller once it is set."""
    new_spec, old_spec = workload["spec"], old["spec"]
    yield from unchanged("spec.podGroupTemplates", new_spec.get("podGroupTemplates"), old_spec.get("podGroupTemplates"))
    yield from unchanged("spec.controllerRef", new_spec.get("controllerRef"), old_spec.get("controllerRef"))


def _group(spec: Object, where: str) -> Iterator[FieldError]:
    policy = spec.get("schedulingPolicy") or {}
    chosen = [name for name in ("basic", "gang") if policy.get(name) is not None]
    if not chosen:
        yield invalid(f"{where}.schedulingPolicy", "", "must specify one of: `basic`, `gang`")
    if len(chosen) > 1:
        given = "{`basic`, `gang`}"
        detail = "must specify exactly one of: `basic`, `gang`"
        yield invalid(f"{where}.schedulingPolicy", given, detail)
    if "gang" in chosen and policy["gang"].get("minCount", 0) < 1:
        least = policy["gang"].get("minCount", 0)
        path = f"{where}.schedulingPolicy.gang.minCount"
        yield invalid(path, least, "must be greater than or equal to 1") if least else required(path)
    topology = (spec.get("schedulingConstraints") or {}).get("topology") or ()
    if len(topology) > 1:
        yield too_many(f"{where}.schedulingConstraints.topology", len(topology), 1)
    for index, constraint in enumerate(topology):
        if not constraint.get("key"):
            yield required(f"{where}.schedulingConstraints.topology[{index}].key")
    if spec.get("disruptionMode") not in {None, *_MODES}:
        yield not_supported(f"{where}.disruptionMode", spec["disruptionMode"], _MODES)
    if spec.get("priority", 0) > _HIGHEST_PRIORITY:
        yield invalid(f"{where}.priority", spec["priority"], f"must be less than or equal to {_HIGHEST_PRIORITY}")
    if len(spec.get("resourceClaims") or ()) > _MAX_CLAIMS:
        yield too_many(f"{where}.resourceClaims", len(spec["resourceClaims"]), _MAX_CLAIMS)
