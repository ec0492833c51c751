"""Validates the kinds that create pods, and disruption budgets.

Mirrors Kubernetes' pkg/apis/{apps,batch,policy}/validation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime

from cronsim import CronSim, CronSimError

from bayplan.api.field_errors import FieldError, forbidden, invalid, not_supported, required
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.validation.checks import IMMUTABLE, one_of, unchanged
from bayplan.devcluster.apiserver.validation.pods import validate_template
from bayplan.devcluster.apiserver.validation.selectors import validate_label_selector, validate_not_negative

_ANY_MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
PERCENT_RULE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)


def validate_workload(workload: Object) -> Iterator[FieldError]:
    """Rules for Deployments, ReplicaSets, StatefulSets and DaemonSets."""
    spec = workload["spec"]
    yield from validate_not_negative(spec.get("replicas"), "spec.replicas")
    yield from validate_not_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    yield from validate_not_negative(spec.get("revisionHistoryLimit"), "spec.revisionHistoryLimit")
    yield from validate_selected_template(spec)
    if spec["template"]["spec"].get("restartPolicy", "Always") != "Always":
        policy = spec["template"]["spec"]["restartPolicy"]
        yield not_supported("spec.template.spec.restartPolicy", policy, ("Always",))
    strategy = spec.get("strategy")
    if strategy is not None and strategy["type"] not in {"Recreate", "RollingUpdate"}:
        yield not_supported("spec.strategy.type", strategy["type"], ("Recreate", "RollingUpdate"))
    if strategy is not None and strategy["type"] == "Recreate" and "rollingUpdate" in strategy:
        detail = "may not be specified when strategy `type` is 'Recreate'"
        yield forbidden("spec.strategy.rollingUpdate", detail)
    if strategy is not None and strategy["type"] == "RollingUpdate":
        yield from _rolling_update(strategy["rollingUpdate"], "spec.strategy.rollingUpdate")
    deadline = spec.get("progressDeadlineSeconds")
    yield from validate_not_negative(deadline, "spec.progressDeadlineSeconds")
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        yield invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def _rolling_update(rolling: Object, where: str) -> Iterator[FieldError]:
    unavailable, surge = rolling["maxUnavailable"], rolling["maxSurge"]
    yield from validate_share(unavailable, f"{where}.maxUnavailable")
    yield from validate_share(surge, f"{where}.maxSurge", most=None)
    if share_number(unavailable) == 0 and share_number(surge) == 0:
        yield invalid(f"{where}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")


def validate_share(value: int | str, where: str, *, most: int | None = 100) -> Iterator[FieldError]:
    """Rules for a number of pods, or a percentage that is at most `most`."""
    if isinstance(value, int):
        yield from validate_not_negative(value, where)
    elif not re.fullmatch(r"[0-9]+%", value):
        yield invalid(where, value, PERCENT_RULE)
    elif most is not None and share_number(value) > most:
        yield invalid(where, value, f"must not be greater than {most}%")


def share_number(value: int | str) -> int:
    """The number in an integer or a percentage, 0 for other text. Mirrors getIntOrPercentValue."""
    if isinstance(value, int):
        return value
    if not re.fullmatch(r"[0-9]+%", value):
        return 0
    digits = value[:-1].lstrip("0")
    return int(digits or 0) if len(digits) <= 9 else 10**9


def validate_selected_template(spec: Object) -> Iterator[FieldError]:
    """Rules for a selector, and for the pod template, which has to match it."""
    selector, template = spec.get("selector") or {}, spec["template"]
    if not selector:
        yield required("spec.selector")
    yield from validate_label_selector(selector, "spec.selector")
    labels = template["metadata"].get("labels", {})
    if not selector or not _selects(selector, labels):
        detail = "`selector` does not match template `labels`"
        yield invalid("spec.template.metadata.labels", labels or None, detail)
    yield from validate_template(template, "spec.template")


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


def validate_workload_update(workload: Object, old: Object) -> Iterator[FieldError]:
    """The selector is immutable."""
    yield from unchanged("spec.selector", workload["spec"].get("selector"), old["spec"].get("selector"))


def validate_replication_controller(controller: Object) -> Iterator[FieldError]:
    """Rules for a replication controller."""
    spec = controller["spec"]
    yield from validate_not_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    selector, template = spec.get("selector"), spec.get("template")
    if not selector:
        yield required("spec.selector")
    yield from validate_not_negative(spec["replicas"], "spec.replicas")
    if template is None:
        yield required("spec.template")
        return
    labels = template["metadata"].get("labels", {})
    if selector and not selector.items() <= labels.items():
        detail = "`selector` does not match template `labels`"
        yield invalid("spec.template.metadata.labels", labels or None, detail)
    yield from validate_template(template, "spec.template")
    policy = template["spec"].get("restartPolicy", "Always")
    if policy != "Always":
        yield not_supported("spec.template.spec.restartPolicy", policy, ("Always",))
    if "activeDeadlineSeconds" in template["spec"]:
        detail = "activeDeadlineSeconds in ReplicationController is not Supported"
        yield forbidden("spec.template.spec.activeDeadlineSeconds", detail)


def validate_job(job: Object) -> Iterator[FieldError]:
    """Rules for a job."""
    spec = job["spec"]
    for field in ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"):
        yield from validate_not_negative(spec.get(field), f"spec.{field}")
    yield from validate_job_template(spec, "spec")
    yield from one_of("spec.completionMode", spec["completionMode"], ("NonIndexed", "Indexed"))
    if spec["completionMode"] == "Indexed" and "completions" not in spec:
        yield required("spec.completions", "when completion mode is Indexed")


def validate_job_template(spec: Object, where: str) -> Iterator[FieldError]:
    """Rules for the pods of a job."""
    yield from validate_template(spec["template"], f"{where}.template")
    policy = spec["template"]["spec"].get("restartPolicy", "Always")
    if policy == "Always":
        yield required(f"{where}.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"')


def validate_job_update(job: Object, old: Object) -> Iterator[FieldError]:
    """Rules for changes of a job. Its template may change only while it is suspended and has not started."""
    spec, was = job["spec"], old["spec"]
    for field in ("selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex"):
        yield from unchanged(f"spec.{field}", spec.get(field), was.get(field))
    if spec.get("completions") != was.get("completions") and spec["completionMode"] != "Indexed":
        yield invalid("spec.completions", spec.get("completions"), IMMUTABLE)
    if spec["template"] != was["template"] and not (was.get("suspend") and "startTime" not in old.get("status", {})):
        yield invalid("spec.template", spec["template"], IMMUTABLE)


def validate_cron_job(cron_job: Object) -> Iterator[FieldError]:
    """Rules for a cron job."""
    spec, name = cron_job["spec"], cron_job["metadata"].get("name", "")
    if len(name) > 52:
        yield invalid("metadata.name", name, "must be no more than 52 characters")
    schedule = spec.get("schedule", "")
    if not schedule:
        yield required("spec.schedule")
    elif problem := schedule_problem(schedule):
        yield invalid("spec.schedule", schedule, problem)
    yield from one_of("spec.concurrencyPolicy", spec["concurrencyPolicy"], ("Allow", "Forbid", "Replace"))
    for field in ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        yield from validate_not_negative(spec.get(field), f"spec.{field}")
    yield from validate_job_template(spec["jobTemplate"]["spec"], "spec.jobTemplate.spec")


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


def validate_pod_template(pod_template: Object) -> Iterator[FieldError]:
    """Rules for a PodTemplate."""
    yield from validate_template(pod_template["template"], "template")


def validate_budget(budget: Object) -> Iterator[FieldError]:
    """Rules for a PodDisruptionBudget."""
    spec = budget["spec"]
    if "minAvailable" in spec and "maxUnavailable" in spec:
        detail = "minAvailable and maxUnavailable cannot be both set"
        yield invalid("spec", {key: spec[key] for key in ("minAvailable", "maxUnavailable")}, detail)
    policies = ("AlwaysAllow", "IfHealthyBudget")
    if spec.get("unhealthyPodEvictionPolicy", policies[0]) not in policies:
        yield not_supported("spec.unhealthyPodEvictionPolicy", spec["unhealthyPodEvictionPolicy"], policies)
    for field in ("minAvailable", "maxUnavailable"):
        if field in spec:
            yield from validate_share(spec[field], f"spec.{field}")
    yield from validate_label_selector(spec.get("selector"), "spec.selector")
