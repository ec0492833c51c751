"""Validates the values of a decoded configuration.

Mirrors apis/config/validation/validation.go. `plugin_arguments` and `planning` validate arguments and plugins.
"""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.core.api import durations, field_errors, requests
from bayplan.core.api.field_errors import FieldError
from bayplan.core.api.labels import label_key_errors
from bayplan.core.config.types import Extender, KubeSchedulerConfiguration

RETRY_JITTER = 1.2
"""The next attempt may take this many times retryPeriod. Mirrors client-go's leaderelection.JitterFactor."""


def configuration_faults(configuration: KubeSchedulerConfiguration) -> Iterator[FieldError]:
    """The errors in the values."""
    if configuration.parallelism <= 0:
        problem = "should be an integer value greater than zero"
        yield field_errors.invalid("parallelism", configuration.parallelism, problem)
    yield from _percentage_faults("percentageOfNodesToScore", configuration.percentageOfNodesToScore)
    initial, longest = configuration.podInitialBackoffSeconds, configuration.podMaxBackoffSeconds
    if initial <= 0:
        yield field_errors.invalid("podInitialBackoffSeconds", initial, "must be greater than 0")
    if longest < initial:
        problem = f"must be greater than or equal to podInitialBackoffSeconds, which is {initial}"
        yield field_errors.invalid("podMaxBackoffSeconds", longest, problem)
    burst = configuration.clientConnection.burst
    if burst is not None and burst < 0:
        yield field_errors.invalid("clientConnection.burst", burst, "must not be negative")
    yield from _leader_election_faults(configuration)
    yield from _profile_faults(configuration)
    yield from _extender_faults(configuration.extenders)


def _profile_faults(configuration: KubeSchedulerConfiguration) -> Iterator[FieldError]:
    names: dict[str, int] = {}
    for index, profile in enumerate(configuration.profiles):
        path = f"profiles[{index}]"
        if not profile.schedulerName:
            yield field_errors.required(f"{path}.schedulerName", "each of several profiles needs a unique name")
        if profile.schedulerName in names:
            yield field_errors.duplicate(f"{path}.schedulerName", profile.schedulerName)
        names.setdefault(profile.schedulerName, index)
        if profile.plugins.queueSort != configuration.profiles[0].plugins.queueSort:
            yield FieldError(f"{path}.plugins.queueSort", "must be the same for all profiles: they share one queue")
        if profile.percentageOfNodesToScore is not None:
            yield from _percentage_faults(f"{path}.percentageOfNodesToScore", profile.percentageOfNodesToScore)
    yield from _queue_order_faults(configuration)


def _queue_order_faults(configuration: KubeSchedulerConfiguration) -> Iterator[FieldError]:
    """All profiles share the plugin that sorts the queue, and its arguments."""
    first = configuration.profiles[0]
    ordering = {reference.name for reference in first.plugins.queueSort.enabled}
    arguments = {each.name: each.args for each in first.pluginConfig}
    for index, profile in enumerate(configuration.profiles[1:], 1):
        for position, each in enumerate(profile.pluginConfig):
            if each.name in ordering and each.args != arguments.get(each.name, {}):
                problem = "must be the same for all profiles: this plugin sorts the queue that they share"
                yield FieldError(f"profiles[{index}].pluginConfig[{position}].args", problem)


def _percentage_faults(path: str, percentage: int) -> Iterator[FieldError]:
    if not 0 <= percentage <= 100:
        yield field_errors.invalid(path, percentage, "not in valid range [0-100]")


def _leader_election_faults(configuration: KubeSchedulerConfiguration) -> Iterator[FieldError]:
    election = configuration.leaderElection
    seconds: dict[str, float] = {}
    for name in ("leaseDuration", "renewDeadline", "retryPeriod"):
        text = getattr(election, name)
        try:
            seconds[name] = durations.parse(text)
        except ValueError as error:
            yield field_errors.invalid(f"leaderElection.{name}", text, str(error))
            continue
        if election.leaderElect and seconds[name] <= 0:
            yield field_errors.invalid(f"leaderElection.{name}", text, "must be greater than zero")
    if not election.leaderElect:
        return
    if len(seconds) == 3 and seconds["leaseDuration"] <= seconds["renewDeadline"]:
        problem = f"must be greater than renewDeadline, which is {election.renewDeadline}"
        yield field_errors.invalid("leaderElection.leaseDuration", election.leaseDuration, problem)
    if len(seconds) == 3 and seconds["renewDeadline"] <= seconds["retryPeriod"] * RETRY_JITTER:
        problem = f"must be greater than {RETRY_JITTER} times retryPeriod, which is {election.retryPeriod}"
        yield field_errors.invalid("leaderElection.renewDeadline", election.renewDeadline, problem)
    if election.resourceLock != "leases":
        problem = 'resourceLock value must be "leases"'
        yield field_errors.invalid("leaderElection.resourceLock", election.resourceLock, problem)


def _extender_faults(extenders: list[Extender]) -> Iterator[FieldError]:
    binders = 0
    managed: set[str] = set()
    for index, extender in enumerate(extenders):
        path = f"extenders[{index}]"
        binders += bool(extender.bindVerb)
        if extender.prioritizeVerb and extender.weight <= 0:
            yield field_errors.invalid(f"{path}.weight", extender.weight, "must have a positive weight applied to it")
        try:
            durations.parse(extender.httpTimeout)
        except ValueError as error:
            yield field_errors.invalid(f"{path}.httpTimeout", extender.httpTimeout, str(error))
        for position, resource in enumerate(extender.managedResources):
            where = f"{path}.managedResources[{position}].name"
            problems = label_key_errors(resource.name)
            for problem in problems:
                yield field_errors.invalid(where, resource.name, problem)
            if not problems and not requests.is_extended(resource.name):
                yield field_errors.invalid(where, resource.name, "is an invalid extended resource name")
            if resource.name in managed:
                yield field_errors.invalid(where, resource.name, "duplicate extender managed resource name")
            managed.add(resource.name)
    if binders > 1:
        found = f"found {binders} extenders implementing bind"
        yield field_errors.invalid("extenders", found, "only one extender can implement bind")
