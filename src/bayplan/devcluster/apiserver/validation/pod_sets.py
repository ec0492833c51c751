"""Rules for StatefulSets, DaemonSets and ControllerRevisions. Mirrors pkg/apis/apps/validation/validation.go."""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.api.field_errors import FieldError, forbidden, invalid, not_supported, required
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.validation.checks import one_of, unchanged
from bayplan.devcluster.apiserver.validation.core import validate_claim_spec
from bayplan.devcluster.apiserver.validation.selectors import validate_not_negative
from bayplan.devcluster.apiserver.validation.workloads import (
    share_number,
    validate_share,
    validate_workload,
    validate_workload_update,
)

_MUTABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
"""What an update of a StatefulSet may change of its spec."""


def validate_stateful_set(stateful_set: Object) -> Iterator[FieldError]:
    """Rules for a StatefulSet, in addition to those of every workload."""
    spec = stateful_set["spec"]
    yield from validate_workload({**stateful_set, "spec": {**spec, "template": _template_as_used(spec)}})
    policy = spec["podManagementPolicy"]
    if policy not in {"OrderedReady", "Parallel"}:
        yield invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'")
    yield from _validate_stateful_strategy(spec["updateStrategy"], "spec.updateStrategy")
    for field, value in spec["persistentVolumeClaimRetentionPolicy"].items():
        yield from one_of(f"spec.persistentVolumeClaimRetentionPolicy.{field}", value, ("Delete", "Retain"))
    yield from validate_not_negative(spec.get("ordinals", {}).get("start"), "spec.ordinals.start")
    yield from _validate_no_deadline(spec, "StatefulSet")


def _template_as_used(spec: Object) -> Object:
    """The template as the controller uses it: with a volume for each claim, and host names of its own."""
    template = spec["template"]
    claims = dict.fromkeys([each["metadata"].get("name", "") for each in spec.get("volumeClaimTemplates", ())])
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    volumes += [each for each in template["spec"].get("volumes", ()) if each.get("name") not in claims]
    pod = {name: value for name, value in template["spec"].items() if name not in {"hostname", "subdomain"}}
    return {**template, "spec": {**pod, "volumes": volumes} if volumes else pod}


def validate_new_stateful_set(stateful_set: Object) -> Iterator[FieldError]:
    """Rules for the parts of a StatefulSet that never change."""
    for number, template in enumerate(stateful_set["spec"].get("volumeClaimTemplates", ())):
        yield from validate_claim_spec(template["spec"], f"spec.volumeClaimTemplates[{number}].spec")


def validate_stateful_set_update(stateful_set: Object, old: Object) -> Iterator[FieldError]:
    """Only some fields of the spec may change."""
    if _fixed(stateful_set) != _fixed(old):
        fields = f"{', '.join(map(repr, _MUTABLE[:-1]))} and {_MUTABLE[-1]!r}"
        yield forbidden("spec", f"updates to statefulset spec for fields other than {fields} are forbidden")


def _fixed(stateful_set: Object) -> Object:
    return {name: value for name, value in stateful_set["spec"].items() if name not in _MUTABLE}


def validate_daemon_set(daemon_set: Object) -> Iterator[FieldError]:
    """Rules for a DaemonSet, in addition to those of every workload."""
    spec = daemon_set["spec"]
    yield from validate_workload(daemon_set)
    strategy = spec["updateStrategy"]
    if strategy["type"] == "RollingUpdate":
        yield from _validate_daemon_rollout(strategy["rollingUpdate"], "spec.updateStrategy.rollingUpdate")
    elif strategy["type"] != "OnDelete":
        yield not_supported("spec.updateStrategy", strategy, ("OnDelete", "RollingUpdate"))
    yield from _validate_no_deadline(spec, "DaemonSet")


validate_daemon_set_update = validate_workload_update


def validate_revision(revision: Object) -> Iterator[FieldError]:
    """Rules for a ControllerRevision."""
    yield from validate_not_negative(revision.get("revision"), "revision")


def validate_new_revision(revision: Object) -> Iterator[FieldError]:
    """The data of a new ControllerRevision is an object."""
    if revision.get("data") is None:
        yield required("data", "data is mandatory")
    elif not isinstance(revision["data"], dict):
        yield required("data", "data must be a valid JSON object")


def validate_revision_update(revision: Object, old: Object) -> Iterator[FieldError]:
    """The data is immutable."""
    yield from unchanged("data", revision.get("data"), old.get("data"))


def _validate_stateful_strategy(strategy: Object, where: str) -> Iterator[FieldError]:
    rolling = strategy.get("rollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = rolling or {}
        yield from validate_not_negative(rolling.get("partition"), f"{where}.rollingUpdate.partition")
        if "maxUnavailable" in rolling:
            limit, path = rolling["maxUnavailable"], f"{where}.rollingUpdate.maxUnavailable"
            yield from validate_share(limit, path)
            if share_number(limit) == 0:
                yield invalid(path, limit, "cannot be 0")
    elif strategy["type"] != "OnDelete":
        yield invalid(where, strategy, "must be 'RollingUpdate' or 'OnDelete'")
    elif rolling is not None:
        yield invalid(f"{where}.rollingUpdate", rolling, "only allowed for updateStrategy 'RollingUpdate'")


def _validate_daemon_rollout(rolling: Object, where: str) -> Iterator[FieldError]:
    for name in ("maxUnavailable", "maxSurge"):
        yield from validate_share(rolling[name], f"{where}.{name}")
    unavailable, surge = share_number(rolling["maxUnavailable"]), share_number(rolling["maxSurge"])
    if unavailable and surge:
        yield invalid(f"{where}.maxSurge", rolling["maxSurge"], "may not be set when maxUnavailable is non-zero")
    elif not unavailable and not surge:
        yield required(f"{where}.maxUnavailable", "cannot be 0 when maxSurge is 0")


def _validate_no_deadline(spec: Object, kind: str) -> Iterator[FieldError]:
    if "activeDeadlineSeconds" in spec["template"]["spec"]:
        where = "spec.template.spec.activeDeadlineSeconds"
        yield forbidden(where, f"activeDeadlineSeconds in {kind} is not Supported")
