"""Rules of PodGroups and Workloads that concern several fields.

Mirrors the validation of Kubernetes' pkg/apis/scheduling: v1alpha2 of 1.36, and v1beta1 and v1alpha3 of 1.37.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from bayplan.core.api.field_errors import FieldError, duplicate, forbidden, invalid, required
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.validation.rules import IMMUTABLE, At

_TEMPLATES = ("podGroupTemplates", "compositePodGroupTemplates")
_MOST_LEVELS = 4
"""The most levels of templates in a Workload."""


def same_spec(pod_group: Object, at: At) -> Iterator[FieldError]:
    """The spec of a group is immutable."""
    yield from _same_fields("spec", pod_group["spec"], at.old["spec"])


def same_group(group: Object, at: At) -> Iterator[FieldError]:
    """The spec of a PodGroup in 1.37 is immutable, but for what its policy lets change."""
    new, old = group["spec"], at.old["spec"]
    yield from _same_fields("spec", new, old, but="schedulingPolicy")
    yield from _same_policy("spec.schedulingPolicy", new["schedulingPolicy"], old["schedulingPolicy"])


def same_templates(spec: Object, at: At) -> Iterator[FieldError]:
    """The templates of a Workload in 1.37: none is added or removed, and only the minCount of PodGroups changes."""
    for field in _TEMPLATES:
        path, before = f"{at.path}.{field}", {each.get("name"): each for each in at.old.get(field) or ()}
        now = {each.get("name") for each in spec.get(field) or ()}
        for index, template in enumerate(spec.get(field) or ()):
            old, place = before.get(template.get("name")), f"{path}[{index}]"
            if old is None:
                yield forbidden(place, "item may not be added")
                continue
            if field == "compositePodGroupTemplates":
                yield from _same_fields(place, template, old, but={"podGroupTemplates", "compositePodGroupTemplates"})
                yield from same_templates(template, At(place, old=old))
                continue
            yield from _same_fields(place, template, old, but={"schedulingPolicy"})
            yield from _same_policy(f"{place}.schedulingPolicy", template["schedulingPolicy"], old["schedulingPolicy"])
        if before.keys() - now:
            yield forbidden(path, "item may not be removed")


def _same_fields(path: str, new: Object, old: Object, *, but: Container[str] = ()) -> Iterator[FieldError]:
    for field in sorted({*new, *old}):
        if field not in but and new.get(field) != old.get(field):
            yield invalid(f"{path}.{field}", new.get(field), IMMUTABLE)


def _same_policy(path: str, new: Object, old: Object) -> Iterator[FieldError]:
    """The kind of a policy doesn't change, but the least number of a gang's members may."""
    if new.get("basic") != old.get("basic"):
        yield invalid(f"{path}.basic", new.get("basic"), IMMUTABLE)
    if (new.get("gang") is None) != (old.get("gang") is None):
        why = "field cannot be cleared once set" if new.get("gang") is None else "field cannot be set once created"
        yield invalid(f"{path}.gang", None, why)


def template_reference(reference: Object, at: At) -> Iterator[FieldError]:
    """The template of a PodGroup."""
    if not reference.get("workload"):
        yield invalid(at.path, "", "must specify one of: `workload`")


def policy(given: Object | None, at: At) -> Iterator[FieldError]:
    """The policy of a group: one. A gang has at least one member; ARGUMENTS name the field that says how many."""
    policy = given or {}
    yield from one_set(policy, At(at.path, "basic,gang"))
    if policy.get("gang") is not None and (least := policy["gang"].get(at.arguments, 0)) < 1:
        path = f"{at.path}.gang.{at.arguments}"
        yield invalid(path, least, "must be greater than or equal to 1") if least else required(path)


def one_set(given: Object, at: At) -> Iterator[FieldError]:
    """Exactly one of the fields that ARGUMENTS name is set."""
    names = at.arguments.split(",")
    chosen = [f"`{name}`" for name in names if given.get(name) is not None]
    choice = ", ".join(f"`{name}`" for name in names)
    if not chosen:
        yield invalid(at.path, "", f"must specify one of: {choice}")
    elif len(chosen) > 1:
        yield invalid(at.path, f"{{{', '.join(chosen)}}}", f"must specify exactly one of: {choice}")


def templates(spec: Object, at: At) -> Iterator[FieldError]:
    """The templates of a Workload in 1.37: those of PodGroups, or those of composite groups."""
    yield from one_set({field: spec.get(field) or None for field in _TEMPLATES}, At(at.path, ",".join(_TEMPLATES)))


def children(template: Object, at: At) -> Iterator[FieldError]:
    """A composite group has children."""
    if not (template.get("podGroupTemplates") or template.get("compositePodGroupTemplates")):
        yield required(f"{at.path}.podGroupTemplates")


def distinct_template(template: Object, at: At) -> Iterator[FieldError]:
    """No earlier template of the Workload has the name."""
    name = template.get("name")
    if name and any(other.get("name") == name for other in at.before):
        yield duplicate(at.path, {"name": name})


def whole_workload(spec: Object, at: At) -> Iterator[FieldError]:
    """The templates of a Workload in 1.37 have one priority, names of their own, and at most four levels."""
    templates = list(_all_templates(at.path, spec, 1))
    if len({(each.get("priority"), each.get("priorityClassName") or "") for _, each, _ in templates}) > 1:
        yield invalid(at.path, "", "detected multiple priority configurations")
    names: dict[str, str] = {}
    for path, template, level in templates:
        name = template.get("name")
        if name and names.setdefault(name, _list_of(path)) != _list_of(path):  # `distinct_template` looks at each list
            yield duplicate(f"{path}.name", name)
        if level == _MOST_LEVELS + 1:
            yield invalid(path, "", f"must have at most {_MOST_LEVELS} levels")


def gated_templates(_templates: Object, at: At) -> Iterator[FieldError]:
    """Templates of composite groups need the feature gate CompositePodGroup."""
    if "CompositePodGroup" not in at.features:
        yield forbidden(at.path, "the feature gate CompositePodGroup is off")


def claim_of_group(status: Object, at: At) -> Iterator[FieldError]:
    """The status of a claim has the name of a claim in the spec of its PodGroup."""
    claims = at.above[-1]["spec"].get("resourceClaims") or ()
    if all(claim.get("name") != status.get("name") for claim in claims):
        detail = "must match the name of an entry in `spec.resourceClaims`"
        yield invalid(f"{at.path}.name", status.get("name", ""), detail)


def _all_templates(path: str, spec: Object, level: int) -> Iterator[tuple[str, Object, int]]:
    """All templates with their paths and levels, from the top down. Levels that are too deep end."""
    for field in _TEMPLATES:
        for index, template in enumerate(spec.get(field) or ()):
            place = f"{path}.{field}[{index}]"
            yield place, template, level
            if level <= _MOST_LEVELS:
                yield from _all_templates(place, template, level + 1)


def _list_of(path: str) -> str:
    return path.rpartition("[")[0]
