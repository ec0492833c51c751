"""Defaults of the kinds that create pods. Mirrors Kubernetes' pkg/apis/apps/v1 and pkg/apis/batch/v1 defaults.go."""

from __future__ import annotations

import re

from bayplan.devcluster.apiserver.defaults.core import default_claim
from bayplan.devcluster.apiserver.defaults.pods import default_template
from bayplan.devcluster.apiserver.schema import Object

TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
"""The annotation of a DaemonSet that counts the changes of its template."""


def default_deployment(deployment: Object) -> None:
    """One replica, and rolling updates of 25 % at a time."""
    spec = deployment["spec"]
    default_template(spec["template"])
    spec.setdefault("replicas", 1)
    strategy = spec["strategy"]
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)


def default_pod_template(pod_template: Object) -> None:
    """The template of a PodTemplate."""
    default_template(pod_template["template"])


def default_replica_set(replica_set: Object) -> None:
    """One replica."""
    default_template(replica_set["spec"]["template"])
    replica_set["spec"].setdefault("replicas", 1)


def default_stateful_set(stateful_set: Object) -> None:
    """One replica, and rolling updates in order."""
    spec = stateful_set["spec"]
    default_template(spec["template"])
    spec.setdefault("replicas", 1)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = spec["updateStrategy"]
    if "type" not in strategy:
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if "rollingUpdate" in strategy:
        strategy["rollingUpdate"].setdefault("partition", 0)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")
    spec.setdefault("revisionHistoryLimit", 10)
    for claim in spec.get("volumeClaimTemplates", ()):
        claim |= {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "status": {"phase": "Pending"}}
        default_claim(claim)


def default_daemon_set(daemon_set: Object) -> None:
    """Rolling updates of one node at a time."""
    spec = daemon_set["spec"]
    default_template(spec["template"])
    strategy = spec["updateStrategy"]
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)


def prepare_daemon_set(daemon_set: Object) -> None:
    """The template of a new DaemonSet is the first, unless its annotation has another number."""
    annotations = daemon_set["metadata"].setdefault("annotations", {})
    annotations[TEMPLATE_GENERATION] = str(max(_template_generation(daemon_set), 1))


def prepare_daemon_set_update(daemon_set: Object, old: Object) -> None:
    """Only the server changes the number of the template: when the template changes."""
    changed = daemon_set["spec"]["template"] != old["spec"]["template"]
    annotations = daemon_set["metadata"].setdefault("annotations", {})
    annotations[TEMPLATE_GENERATION] = str(_template_generation(old) + changed)


def _template_generation(daemon_set: Object) -> int:
    text = daemon_set["metadata"].get("annotations", {}).get(TEMPLATE_GENERATION, "")
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else 0


def default_replication_controller(controller: Object) -> None:
    """One replica, with the selector and labels of the template."""
    spec = controller["spec"]
    spec.setdefault("replicas", 1)
    if "template" in spec:
        default_template(spec["template"])
        labels = spec["template"]["metadata"].get("labels")
        if labels:
            spec.setdefault("selector", labels)
            controller["metadata"].setdefault("labels", labels)


def default_job(job: Object) -> None:
    """One pod, with up to six retries."""
    spec = job["spec"]
    default_template(spec["template"])
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6 if "backoffLimitPerIndex" not in spec else 2**31 - 1)
    labels = spec["template"]["metadata"].get("labels")
    if labels:
        job["metadata"].setdefault("labels", dict(labels))
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")


def prepare_job(job: Object) -> None:
    """Adds a selector and labels with the job's UID, unless the selector is manual."""
    spec, metadata = job["spec"], job["metadata"]
    if spec.get("manualSelector"):
        return
    spec["manualSelector"] = False
    uid, name = metadata["uid"], metadata.get("name", "")
    labels = spec["template"]["metadata"].setdefault("labels", {})
    for prefix in ("", "batch.kubernetes.io/"):
        labels[f"{prefix}job-name"] = name
        labels[f"{prefix}controller-uid"] = uid
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    metadata.setdefault("labels", dict(labels))


def default_cron_job(cron_job: Object) -> None:
    """Concurrent runs are allowed, and three successful and one failed job are kept."""
    spec = cron_job["spec"]
    template = spec["jobTemplate"]["spec"]
    default_template(template["template"])
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
