"""Rules of PodGroups and Workloads that concern several fields.

Mirrors the validation of Kubernetes' pkg/apis/scheduling/v1alpha2.
"""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.api.field_errors import FieldError, duplicate, invalid, required
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.validation.rules import IMMUTABLE, At


def same_spec(pod_group: Object, at: At) -> Iterator[FieldError]:
    """The spec of a PodGroup is immutable."""
    new, old = pod_group["spec"], at.old["spec"]
    for field in sorted({*new, *old}):
        if new.get(field) != old.get(field):
            yield invalid(f"spec.{field}", new.get(field), IMMUTABLE)


def template_reference(reference: Object, at: At) -> Iterator[FieldError]:
    """The template of a PodGroup."""
    if not reference.get("workload"):
        yield invalid(at.path, "", "must specify one of: `workload`")


def policy(given: Object | None, at: At) -> Iterator[FieldError]:
    """The policy of a group: one."""
    policy = given or {}
    chosen = [name for name in ("basic", "gang") if policy.get(name) is not None]
    if not chosen:
        yield invalid(at.path, "", "must specify one of: `basic`, `gang`")
    if len(chosen) > 1:
        yield invalid(at.path, "{`basic`, `gang`}", "must specify exactly one of: `basic`, `gang`")
    if "gang" in chosen and (least := policy["gang"].get("minCount", 0)) < 1:
        path = f"{at.path}.gang.minCount"
        yield invalid(path, least, "must be greater than or equal to 1") if least else required(path)


def distinct_template(template: Object, at: At) -> Iterator[FieldError]:
    """No earlier template of the Workload has the name."""
    name = template.get("name")
    if name and any(other.get("name") == name for other in at.before):
        yield duplicate(at.path, {"name": name})
