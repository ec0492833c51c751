"""The parameters of all models, and the YAML file that they are read from.

Names are in camel case there, durations in seconds, prices per hour. Unknown fields are errors.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from bayplan.answers.simulation.models.autoscaler.rules import PRESETS, Rules
from bayplan.core.api.names import camel
from bayplan.foundations.manifest_files import ManifestError, read_yaml

Seconds = Annotated[float, msgspec.Meta(ge=0)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
Count = Annotated[int, msgspec.Meta(ge=0)]


class ParametersError(ValueError):
    """A file of parameters that can't be used. The message is one line for the user."""


class _Strict(msgspec.Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """A part of the file, whose unknown fields are errors."""


class SchedulerParameters(_Strict, frozen=True):
    """Of the scheduler: how long an attempt and a binding take, and when an unschedulable pod is tried again without an
    event. A binding without a value takes as long as in the history.
    """

    attempt_seconds: Seconds = 0.002
    binding_seconds: Seconds | None = None
    unschedulable_seconds: Positive = 300.0


class PodParameters(_Strict, frozen=True):
    """Of pods: how long they take to start, to end after an eviction, and to be replaced by their controllers.

    What has no value is as in the history; where that doesn't say it, see `Termination` and `Controllers`.
    """

    startup_seconds: Seconds = 5.0
    termination_seconds: Seconds | None = None
    replacement_seconds: Seconds | None = None


class JobParameters(_Strict, frozen=True):
    """How long pods run, in place of what a history says. `owner`: their workload, as in `cronjob default/nightly`."""

    owner: str
    seconds: Positive


class GroupParameters(_Strict, frozen=True):
    """Limits of the node groups with these names; an empty name matches any."""

    pool: str = ""
    instance_type: str = ""
    zone: str = ""
    minimum: Count = msgspec.field(default=0, name="min")
    maximum: Count = msgspec.field(default=1000, name="max")


class AutoscalerParameters(_Strict, frozen=True):
    """Of the autoscaler: its preset (None: see `--autoscaler`), and fields of `Rules` that differ from it."""

    preset: str | None = None
    node_startup_seconds: Seconds = 60.0
    rules: dict[str, float | bool] = {}
    groups: tuple[GroupParameters, ...] = ()

    def limits(self, pool: str, instance_type: str, zone: str) -> tuple[int, int]:
        """The fewest and the most nodes of a group: by the first limits that match it."""
        found = (
            (each.minimum, each.maximum)
            for each in self.groups
            if each.pool in {"", pool} and each.instance_type in {"", instance_type} and each.zone in {"", zone}
        )
        return next(found, (0, 1000))


class InterruptionParameters(_Strict, frozen=True):
    """Of spot nodes: their label, how often each is taken back, and how long before that it is said."""

    label: str = "karpenter.sh/capacity-type"
    value: str = "spot"
    per_hour: Seconds = 0.0
    notice_seconds: Seconds = 120.0


class FailureParameters(_Strict, frozen=True):
    """A node that fails some seconds after the start, and when it returns."""

    node: str
    at_seconds: Seconds
    returns_after_seconds: Seconds | None = None


class Parameters(_Strict, frozen=True):
    """The parameters of all models, as in a file of `--models`."""

    scheduler: SchedulerParameters = SchedulerParameters()
    pods: PodParameters = PodParameters()
    jobs: tuple[JobParameters, ...] = ()
    autoscaler: AutoscalerParameters = AutoscalerParameters()
    interruptions: InterruptionParameters = InterruptionParameters()
    failures: tuple[FailureParameters, ...] = ()

    def rules(self, preset: str) -> Rules:
        """The rules of an autoscaler: those of a preset, but for what the parameters say. Raises ParametersError."""
        known = {camel(field): field for field in Rules.__dataclass_fields__}
        for name in self.autoscaler.rules:
            if name not in known:
                raise ParametersError(f"autoscaler.rules.{name} is unknown; there are {', '.join(known)}")
        changed = {known[name]: value for name, value in self.autoscaler.rules.items()}
        return PRESETS[preset].changed(changed)


def read_parameters(path: Path) -> Parameters:
    """The parameters in a YAML file. Raises ParametersError."""
    try:
        document = read_yaml(path)
    except ManifestError as error:
        raise ParametersError(str(error)) from None
    return parameters_of(document or {}, str(path))


def parameters_of(document: object, source: str) -> Parameters:
    """The parameters in a document. `source`: what errors call it. Raises ParametersError."""
    try:
        parameters = msgspec.convert(document, Parameters)
    except msgspec.ValidationError as error:
        raise ParametersError(f"{source}: {error}") from None
    if parameters.autoscaler.preset not in {None, "none", *PRESETS}:
        presets = ", ".join(["none", *PRESETS])
        raise ParametersError(
            f"{source}: autoscaler.preset is {parameters.autoscaler.preset!r}; expected one of {presets}"
        )
    try:
        parameters.rules(next(iter(PRESETS)))
    except ParametersError as error:
        raise ParametersError(f"{source}: {error}") from None
    return parameters
