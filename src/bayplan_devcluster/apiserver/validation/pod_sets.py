"""Rules of StatefulSets, DaemonSets and ControllerRevisions. Mirrors pkg/apis/apps/validation/validation.go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bayplan.core.api.field_errors import FieldError, forbidden, invalid, not_supported, required
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.validation import workloads
from bayplan_devcluster.apiserver.validation.rules import At, share, share_number

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


def selected_template(spec: Object, at: At) -> Iterator[FieldError]:
    """The selector of a StatefulSet, and the template as its pods get it."""
    return workloads.selected_template({**spec, "template": _template_as_used(spec)}, at)


def _template_as_used(spec: Object) -> Object:
    """The template as the controller uses it: with a volume for each claim, and host names of its own."""
    template = spec["template"]
    claims = dict.fromkeys([each["metadata"].get("name", "") for each in spec.get("volumeClaimTemplates", ())])
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    volumes += [each for each in template["spec"].get("volumes", ()) if each.get("name") not in claims]
    pod = {name: value for name, value in template["spec"].items() if name not in {"hostname", "subdomain"}}
    return {**template, "spec": {**pod, "volumes": volumes} if volumes else pod}


def management_policy(policy: str, at: At) -> Iterator[FieldError]:
    """How a StatefulSet creates its pods."""
    if policy not in {"OrderedReady", "Parallel"}:
        yield invalid(at.path, policy, "must be 'OrderedReady' or 'Parallel'")


def stateful_set_update(stateful_set: Object, at: At) -> Iterator[FieldError]:
    """Only some fields of the spec may change."""
    if _fixed(stateful_set) != _fixed(at.old):
        fields = f"{', '.join(map(repr, _MUTABLE[:-1]))} and {_MUTABLE[-1]!r}"
        yield forbidden("spec", f"updates to statefulset spec for fields other than {fields} are forbidden")


def _fixed(stateful_set: Object) -> Object:
    return {name: value for name, value in stateful_set["spec"].items() if name not in _MUTABLE}


def revision_data(data: Any, at: At) -> Iterator[FieldError]:
    """The data of a new ControllerRevision is an object."""
    if data is None:
        yield required(at.path, "data is mandatory")
    elif not isinstance(data, dict):
        yield required(at.path, "data must be a valid JSON object")


def stateful_strategy(strategy: Object, at: At) -> Iterator[FieldError]:
    """The update strategy of a StatefulSet."""
    rolling, where = strategy.get("rollingUpdate"), f"{at.path}.rollingUpdate"
    if strategy["type"] == "RollingUpdate":
        rolling = rolling or {}
        if rolling.get("partition", 0) < 0:
            yield invalid(f"{where}.partition", rolling["partition"], "must be greater than or equal to 0")
        if "maxUnavailable" in rolling:
            limit, place = rolling["maxUnavailable"], At(f"{where}.maxUnavailable")
            yield from share(limit, place)
            if share_number(limit) == 0:
                yield invalid(place.path, limit, "cannot be 0")
    elif strategy["type"] != "OnDelete":
        yield invalid(at.path, strategy, "must be 'RollingUpdate' or 'OnDelete'")
    elif rolling is not None:
        yield invalid(where, rolling, "only allowed for updateStrategy 'RollingUpdate'")


def daemon_strategy(strategy: Object, at: At) -> Iterator[FieldError]:
    """The update strategy of a DaemonSet."""
    if strategy["type"] == "RollingUpdate":
        rolling, where = strategy["rollingUpdate"], f"{at.path}.rollingUpdate"
        for name in ("maxUnavailable", "maxSurge"):
            yield from share(rolling[name], At(f"{where}.{name}"))
        unavailable, surge = share_number(rolling["maxUnavailable"]), share_number(rolling["maxSurge"])
        if unavailable and surge:
            yield invalid(f"{where}.maxSurge", rolling["maxSurge"], "may not be set when maxUnavailable is non-zero")
        elif not unavailable and not surge:
            yield required(f"{where}.maxUnavailable", "cannot be 0 when maxSurge is 0")
    elif strategy["type"] != "OnDelete":
        yield not_supported(at.path, strategy, ("OnDelete", "RollingUpdate"))
