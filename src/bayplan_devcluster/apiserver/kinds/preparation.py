"""Completes new and changed objects of some kinds after admission. Mirrors strategies of Kubernetes' pkg/registry."""

from __future__ import annotations

import re

from bayplan_devcluster.apiserver.schema import Object

TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
"""The annotation of a DaemonSet that counts the changes of its template."""


def prepare_namespace(namespace: Object) -> None:
    """Adds the finalizer that keeps a deleted namespace until its contents are deleted."""
    namespace["status"] = {"phase": "Active"}
    finalizers = namespace.setdefault("spec", {}).setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")


def prepare_limit_range(limit_range: Object) -> None:
    """A new LimitRange without a name gets a unique one."""
    metadata = limit_range["metadata"]
    metadata.setdefault("name", metadata["uid"])


def prepare_volume(volume: Object) -> None:
    """Sets the phase of a new volume to Pending."""
    volume["status"] = {"phase": "Pending", "lastPhaseTransitionTime": volume["metadata"]["creationTimestamp"]}


def prepare_device_taint_rule(rule: Object) -> None:
    """A taint without a time was added now."""
    rule["spec"]["taint"].setdefault("timeAdded", rule["metadata"]["creationTimestamp"])


def prepare_claim(claim: Object) -> None:
    """Sets the phase of a new claim to Pending."""
    claim["status"] = {"phase": "Pending"}
    source = claim["spec"].get("dataSource")
    if source:
        claim["spec"].setdefault("dataSourceRef", dict(source))


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
