"""Rules of the kinds that create pods, and of disruption budgets, that concern several fields.

Mirrors Kubernetes' pkg/apis/{apps,batch,policy}/validation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime

from cronsim import CronSim, CronSimError

from bayplan.core.api.field_errors import FieldError, forbidden, invalid, not_supported, required
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.validation.rules import IMMUTABLE, At, check, share, share_number

_ANY_MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def deployment_strategy(strategy: Object, at: At) -> Iterator[FieldError]:
    """The strategy of a Deployment."""
    kind, where = strategy["type"], f"{at.path}.rollingUpdate"
    if kind not in {"Recreate", "RollingUpdate"}:
        yield not_supported(f"{at.path}.type", kind, ("Recreate", "RollingUpdate"))
    if kind == "Recreate" and "rollingUpdate" in strategy:
        yield forbidden(where, "may not be specified when strategy `type` is 'Recreate'")
    if kind == "RollingUpdate":
        unavailable, surge = (strategy["rollingUpdate"][field] for field in ("maxUnavailable", "maxSurge"))
        yield from share(unavailable, At(f"{where}.maxUnavailable"))
        yield from share(surge, At(f"{where}.maxSurge", "unlimited"))
        if share_number(unavailable) == 0 and share_number(surge) == 0:
            yield invalid(f"{where}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")


def progress_deadline(deadline: int, at: At) -> Iterator[FieldError]:
    """The deadline of a rollout is after a pod can become available."""
    if deadline <= at.above[0].get("minReadySeconds", 0):
        yield invalid(at.path, deadline, "must be greater than minReadySeconds")


def selected_template(spec: Object, at: At) -> Iterator[FieldError]:
    """A selector, and the pod template, which has to match it."""
    selector, template = spec.get("selector") or {}, spec["template"]
    if not selector:
        yield required(f"{at.path}.selector")
    yield from check("meta_v1.LabelSelector", selector, At(f"{at.path}.selector"))
    labels = template["metadata"].get("labels", {})
    if not selector or not _selects(selector, labels):
        yield _unselected(labels, at)
    yield from check("core_v1.PodTemplateSpec", template, At(f"{at.path}.template"))


def _unselected(labels: dict[str, str], at: At) -> FieldError:
    where = f"{at.path}.template.metadata.labels"
    return invalid(where, labels or None, "`selector` does not match template `labels`")


def _selects(selector: Object, labels: dict[str, str]) -> bool:
    plain = all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())
    return plain and all(_meets(one, labels.get(one["key"])) for one in selector.get("matchExpressions", ()))


def _meets(expression: Object, value: str | None) -> bool:
    match expression["operator"]:
        case "In":
            return value in expression.get("values", ())
        case "NotIn":
            return value not in expression.get("values", ())
        case "Exists":
            return value is not None
        case operator:
            return operator == "DoesNotExist" and value is None


def controller_labels(spec: Object, at: At) -> Iterator[FieldError]:
    """The selector of a ReplicationController matches its template."""
    labels = spec.get("template", {}).get("metadata", {}).get("labels", {})
    if spec.get("template") and spec.get("selector") and not spec["selector"].items() <= labels.items():
        yield _unselected(labels, at)


def completions(spec: Object, at: At) -> Iterator[FieldError]:
    """An indexed Job has a number of completions."""
    if spec["completionMode"] == "Indexed" and "completions" not in spec:
        yield required(f"{at.path}.completions", "when completion mode is Indexed")


def job_restart(policy: str | None, at: At) -> Iterator[FieldError]:
    """The pods of a Job end."""
    if policy in {None, "Always"}:
        yield required(at.path, 'valid values: "OnFailure", "Never"')


def job_update(job: Object, at: At) -> Iterator[FieldError]:
    """Changes of a Job. Its template may change only while it is suspended and has not started."""
    spec, was = job["spec"], at.old["spec"]
    for field in ("selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex"):
        if spec.get(field) != was.get(field):
            yield invalid(f"spec.{field}", spec.get(field), IMMUTABLE)
    if spec.get("completions") != was.get("completions") and spec["completionMode"] != "Indexed":
        yield invalid("spec.completions", spec.get("completions"), IMMUTABLE)
    if spec["template"] != was["template"] and not (was.get("suspend") and "startTime" not in at.old.get("status", {})):
        yield invalid("spec.template", spec["template"], IMMUTABLE)


def schedule(text: str, at: At) -> Iterator[FieldError]:
    """The schedule of a CronJob."""
    if problem := schedule_problem(text):
        yield invalid(at.path, text, problem)


def schedule_problem(schedule: str) -> str:
    """The error of a cron schedule, "" if it is valid."""
    if "TZ=" in schedule:
        return "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
    if schedule in {"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}:
        return ""
    if re.fullmatch(r"@every (\d+(\.\d+)?(h|m|s|ms))+", schedule):
        return ""
    try:
        CronSim(schedule, _ANY_MOMENT)
    except CronSimError:
        fields = len(schedule.split())
        return (
            f"expected exactly 5 fields, found {fields}: [{schedule}]" if fields != 5 else f"failed to parse {schedule}"
        )
    return ""


def one_bound(spec: Object, at: At) -> Iterator[FieldError]:
    """A disruption budget has one bound."""
    if "minAvailable" in spec and "maxUnavailable" in spec:
        given = {key: spec[key] for key in ("minAvailable", "maxUnavailable")}
        yield invalid(at.path, given, "minAvailable and maxUnavailable cannot be both set")
