"""The rows of the kinds that create pods, of disruption budgets, and of priority classes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from bayplan.api import kinds
from bayplan.api.durations import human
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.tables.columns import (
    AGE,
    NAME,
    Cells,
    Column,
    Table,
    age,
    condition,
    label_text,
    names_and_images,
    selector_text,
    since,
)

CONTAINERS = (
    Column("Containers", "Names of each container in the template.", wide=True),
    Column("Images", "Images referenced by each container in the template.", wide=True),
)


def _selector(about: str) -> Column:
    return Column("Selector", about, wide=True)


def _deployment(deployment: Object, now: datetime) -> list[Any]:
    spec, status = deployment["spec"], deployment.get("status", {})
    return [
        deployment["metadata"]["name"],
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age(deployment, now),
        *names_and_images(spec["template"]["spec"]),
        selector_text(spec.get("selector")),
    ]


def _replica_set(replica_set: Object, now: datetime) -> list[Any]:
    spec, status = replica_set["spec"], replica_set.get("status", {})
    selector = spec.get("selector")
    plain = selector is not None and "matchLabels" not in selector and "matchExpressions" not in selector
    return [
        replica_set["metadata"]["name"],
        spec.get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age(replica_set, now),
        *names_and_images(spec.get("template", {}).get("spec", {})),
        label_text(selector) if plain else selector_text(selector),
    ]


def _stateful_set(stateful_set: Object, now: datetime) -> list[Any]:
    spec, status = stateful_set["spec"], stateful_set.get("status", {})
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}"
    return [
        stateful_set["metadata"]["name"],
        ready,
        age(stateful_set, now),
        *names_and_images(spec["template"]["spec"]),
    ]


def _daemon_set(daemon_set: Object, now: datetime) -> list[Any]:
    spec, status = daemon_set["spec"], daemon_set.get("status", {})
    fields = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    return [
        daemon_set["metadata"]["name"],
        *(status.get(field, 0) for field in fields),
        label_text(spec["template"]["spec"].get("nodeSelector")),
        age(daemon_set, now),
        *names_and_images(spec["template"]["spec"]),
        selector_text(spec.get("selector")),
    ]


def _job(job: Object, now: datetime) -> list[Any]:
    spec, status = job["spec"], job.get("status", {})
    completions = spec.get("completions")
    parallel = spec.get("parallelism", 0)
    done = f"{status.get('succeeded', 0)}/{completions if completions is not None else 1}"
    if completions is None and parallel > 1:
        done += f" of {parallel}"
    return [
        job["metadata"]["name"],
        _job_state(job, status.get("conditions", ())),
        done,
        _job_duration(status, now),
        age(job, now),
        *names_and_images(spec["template"]["spec"]),
        selector_text(spec.get("selector")),
    ]


def _job_state(job: Object, conditions: Any) -> str:
    def has(kind: str) -> bool:
        return condition(conditions, kind).get("status") == "True"

    if has("Complete"):
        return "Complete"
    if has("Failed"):
        return "Failed"
    if "deletionTimestamp" in job["metadata"]:
        return "Terminating"
    return next((kind for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if has(kind)), "Running")


def _job_duration(status: Object, now: datetime) -> str:
    if "startTime" not in status:
        return ""
    end = datetime.fromisoformat(status["completionTime"]) if "completionTime" in status else now
    return human((end - datetime.fromisoformat(status["startTime"])).total_seconds())


def _cron_job(cron_job: Object, now: datetime) -> list[Any]:
    spec, status = cron_job["spec"], cron_job.get("status", {})
    job = spec["jobTemplate"]["spec"]
    last = status.get("lastScheduleTime")
    return [
        cron_job["metadata"]["name"],
        spec["schedule"],
        spec.get("timeZone", "<none>"),
        str(spec.get("suspend", False)),
        len(status.get("active", ())),
        since(last, now) if last else "<none>",
        age(cron_job, now),
        *names_and_images(job["template"]["spec"]),
        selector_text(job.get("selector")),
    ]


def _budget(budget: Object, now: datetime) -> list[Any]:
    spec, status = budget["spec"], budget.get("status", {})
    bounds = [str(spec.get(field, "N/A")) for field in ("minAvailable", "maxUnavailable")]
    return [budget["metadata"]["name"], *bounds, status.get("disruptionsAllowed", 0), age(budget, now)]


def _priority_class(priority_class: Object, now: datetime) -> list[Any]:
    return [
        priority_class["metadata"]["name"],
        priority_class.get("value", 0),
        priority_class.get("globalDefault", False),
        age(priority_class, now),
        priority_class.get("preemptionPolicy", ""),
    ]


def _counts(spec: str, status: str) -> tuple[Column, ...]:
    return (
        Column("Desired", f"{spec}.replicas", "integer"),
        Column("Current", f"{status}.replicas", "integer"),
        Column("Ready", f"{status}.readyReplicas", "integer"),
        AGE,
        *CONTAINERS,
        _selector(f"{spec}.selector"),
    )


def _scale(scale: Object, now: datetime) -> list[Any]:
    replicas = (scale[part].get("replicas", 0) for part in ("spec", "status"))
    return [scale["metadata"]["name"], *replicas, age(scale, now)]


SCALE_TABLE: Table = (
    (
        Column("Name", "meta_v1.ObjectMeta.name"),
        Column("Desired", "autoscaling_v1.ScaleSpec.replicas", "integer"),
        Column("Available", "autoscaling_v1.ScaleStatus.replicas", "integer"),
        AGE,
    ),
    _scale,
)
"""The table of the subresource `scale`."""

TABLES: dict[kinds.Kind, tuple[tuple[Column, ...], Cells]] = {
    kinds.DEPLOYMENT: (
        (
            NAME,
            Column("Ready", "Number of the pod with ready state"),
            Column("Up-to-date", "apps_v1.DeploymentStatus.updatedReplicas"),
            Column("Available", "apps_v1.DeploymentStatus.availableReplicas"),
            AGE,
            *CONTAINERS,
            _selector("apps_v1.DeploymentSpec.selector"),
        ),
        _deployment,
    ),
    kinds.REPLICA_SET: ((NAME, *_counts("apps_v1.ReplicaSetSpec", "apps_v1.ReplicaSetStatus")), _replica_set),
    kinds.REPLICATION_CONTROLLER: (
        (NAME, *_counts("core_v1.ReplicationControllerSpec", "core_v1.ReplicationControllerStatus")),
        _replica_set,
    ),
    kinds.STATEFUL_SET: (
        (NAME, Column("Ready", "Number of the pod with ready state"), AGE, *CONTAINERS),
        _stateful_set,
    ),
    kinds.DAEMON_SET: (
        (
            NAME,
            Column("Desired", "apps_v1.DaemonSetStatus.desiredNumberScheduled", "integer"),
            Column("Current", "apps_v1.DaemonSetStatus.currentNumberScheduled", "integer"),
            Column("Ready", "apps_v1.DaemonSetStatus.numberReady", "integer"),
            Column("Up-to-date", "apps_v1.DaemonSetStatus.updatedNumberScheduled", "integer"),
            Column("Available", "apps_v1.DaemonSetStatus.numberAvailable", "integer"),
            Column("Node Selector", "core_v1.PodSpec.nodeSelector"),
            AGE,
            *CONTAINERS,
            _selector("apps_v1.DaemonSetSpec.selector"),
        ),
        _daemon_set,
    ),
    kinds.JOB: (
        (
            NAME,
            Column("Status", "Status of the job."),
            Column("Completions", "batch_v1.JobStatus.succeeded"),
            Column("Duration", "Time required to complete the job."),
            AGE,
            *CONTAINERS,
            _selector("batch_v1.JobSpec.selector"),
        ),
        _job,
    ),
    kinds.CRON_JOB: (
        (
            NAME,
            Column("Schedule", "batch_v1.CronJobSpec.schedule"),
            Column("Timezone", "batch_v1.CronJobSpec.timeZone"),
            Column("Suspend", "batch_v1.CronJobSpec.suspend", "boolean"),
            Column("Active", "batch_v1.CronJobStatus.active", "integer"),
            Column("Last Schedule", "batch_v1.CronJobStatus.lastScheduleTime"),
            AGE,
            *CONTAINERS,
            _selector("batch_v1.JobSpec.selector"),
        ),
        _cron_job,
    ),
    kinds.POD_DISRUPTION_BUDGET: (
        (
            NAME,
            Column("Min Available", "The minimum number of pods that must be available."),
            Column("Max Unavailable", "The maximum number of pods that may be unavailable."),
            Column("Allowed Disruptions", "Calculated number of pods that may be disrupted at this time.", "integer"),
            AGE,
        ),
        _budget,
    ),
    kinds.PRIORITY_CLASS: (
        (
            NAME,
            Column("Value", "scheduling_v1.PriorityClass.value", "integer"),
            Column("Global-Default", "scheduling_v1.PriorityClass.globalDefault", "boolean"),
            AGE,
            Column("PreemptionPolicy", "scheduling_v1.PriorityClass.preemptionPolicy"),
        ),
        _priority_class,
    ),
}
