"""Reads and validates the flags, plugins and configuration of `bayplan run`, before anything runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from bayplan.core.api import durations
from bayplan.core.api.labels import SUBDOMAIN, SUBDOMAIN_RULE
from bayplan.core.config import (
    Catalog,
    ConfigurationError,
    ExtraPlugin,
    KubeSchedulerConfiguration,
    PluginLoadError,
    build_profiles,
    default_profile,
    load_configuration,
    load_plugins,
    read_configuration,
    single_profile_problem,
)
from bayplan.core.config.catalog import in_tree_names
from bayplan.core.config.documents import Document
from bayplan.core.config.profiles import profile_of_all
from bayplan.core.config.types import DEFAULT_SCHEDULER_NAME, OUR_SCHEDULER_NAME, LeaderElection
from bayplan.core.config.validation import configuration_faults
from bayplan.core.framework.handle import Handle
from bayplan.core.framework.profile import Profile
from bayplan.core.versions import (
    DEFAULT_GATES,
    OLDEST,
    VERSIONS,
    FeatureGates,
    Version,
    emulated_version,
    gates_of,
    read_gates,
)
from bayplan.faces.cli.run_flags import FLAGS, Flag, FlagType, Treatment
from bayplan.faces.cli.run_logging import FORMATS
from bayplan.faces.cli.run_metrics import metrics_selection
from bayplan.faces.cli.run_serving import Serving, flag_values, serving
from bayplan.running.client.leader_election import LeaderElectionSettings
from bayplan.running.service.metrics.selection import MetricSelection
from bayplan.running.service.settings import Settings

_IGNORED_WITH_CONFIG = {
    "kube-api-qps": "clientConnection.qps",
    "kube-api-burst": "clientConnection.burst",
    "kube-api-content-type": "clientConnection.contentType",
    "profiling": "enableProfiling",
    "contention-profiling": "enableContentionProfiling",
}
_ELECTION_FIELDS = {
    "leader-elect": "leaderElect",
    "leader-elect-lease-duration": "leaseDuration",
    "leader-elect-renew-deadline": "renewDeadline",
    "leader-elect-retry-period": "retryPeriod",
    "leader-elect-resource-lock": "resourceLock",
    "leader-elect-resource-name": "resourceName",
    "leader-elect-resource-namespace": "resourceNamespace",
}


@dataclass(slots=True)
class Preparation:
    """The scheduler to run. Nothing runs if there are `problems`; these and `warnings` are lines for the user."""

    configuration: KubeSchedulerConfiguration = field(default_factory=KubeSchedulerConfiguration)
    plugins: list[ExtraPlugin] = field(default_factory=list)
    gates: FeatureGates = DEFAULT_GATES
    """The version of Kubernetes to decide as, and what is on in it."""
    as_version: Callable[[Version], Preparation] | None = None
    """Prepare the same for the version of a cluster; None if --emulated-version names one."""
    document: Document | None = None
    """The file with the profiles."""
    unschedulable_timeout: float = 300.0
    serving: Serving | None = None
    """How to serve endpoints; None for no endpoints."""
    metrics: MetricSelection = field(default_factory=MetricSelection)
    """Which metrics to expose."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """The values of all flags that work."""
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    doubtful: list[str] = field(default_factory=list)
    """Those of the warnings that another version may not have, until the cluster's is known."""

    def settings(self, seed: int | None) -> Settings:
        """The settings of the scheduler."""
        return Settings(
            initial_backoff=self.configuration.podInitialBackoffSeconds,
            max_backoff=self.configuration.podMaxBackoffSeconds,
            unschedulable_timeout=self.unschedulable_timeout,
            delay_cache_until_active=self.configuration.delayCacheUntilActive,
            seed=seed,
            freeze=True,
        )

    @property
    def election(self) -> LeaderElectionSettings | None:
        """The lease for leader election; None without leader election."""
        election = self.configuration.leaderElection
        if not election.leaderElect:
            return None
        return LeaderElectionSettings(
            name=election.resourceName,
            namespace=election.resourceNamespace,
            lease_duration=durations.parse(election.leaseDuration),
            renew_deadline=durations.parse(election.renewDeadline),
            retry_period=durations.parse(election.retryPeriod),
        )

    def build_profiles(self, handle: Handle) -> Mapping[str, Profile]:
        """The profiles by name. Raises ConfigurationError or PluginLoadError if plugins can't be built."""
        if self.document is not None:
            try:
                return build_profiles(self.configuration, handle, self.plugins, self.gates)
            except ConfigurationError as error:
                source, line_of = self.document.source, self.document.line_of
                raise ConfigurationError(self.document.in_order(error.faults), source, line_of) from None
        name = self.configuration.profiles[0].schedulerName
        return {name: default_profile(name, handle, self.plugins, self.gates)}

    @property
    def added(self) -> Sequence[str]:
        """The names of the plugins that aren't in-tree: the user's, and those that the profiles enable."""
        enabled = (name for each in self.configuration.profiles for name in each.plugins.enabled_names())
        own = (plugin.name for plugin in self.plugins)
        return list(dict.fromkeys((*own, *(name for name in enabled if name not in in_tree_names()))))

    @property
    def catalog(self) -> Catalog:
        """The plugins that the configuration may name."""
        return Catalog(self.plugins, self.gates)


def prepare(flags: Mapping[str, Any], plugins: Sequence[str], scheduler_name: str | None) -> Preparation:
    """Read and validate everything. `flags` are kube-scheduler's by parameter (None or empty: not given).

    Without --emulated-version, the first version in which nothing is wrong is taken until the cluster's is known.
    """
    given = [(flag, flags[flag.parameter]) for flag in FLAGS if flags.get(flag.parameter) not in {None, (), ""}]
    loaded: list[ExtraPlugin] | PluginLoadError
    try:
        loaded = load_plugins(plugins)
        Catalog(loaded)
    except PluginLoadError as error:
        loaded = error
    make = partial(_prepare, flags, given, loaded, scheduler_name)
    wanted = next((value for flag, value in given if flag.name == "emulated-version"), None)
    if wanted is not None:
        try:
            return make(emulated_version(",".join(wanted)))
        except ValueError as error:
            prepared = make(OLDEST)
            prepared.problems.insert(0, f"bayplan run: --emulated-version: {error}")
            return prepared
    prepared = make(OLDEST)
    if prepared.problems:
        prepared = next((other for each in VERSIONS[1:] if not (other := make(each)).problems), prepared)
    prepared.as_version = make
    if prepared.warnings:
        others = [other for each in VERSIONS if each != prepared.gates.version and not (other := make(each)).problems]
        prepared.doubtful = [each for each in prepared.warnings if any(each not in other.warnings for other in others)]
    return prepared


def _prepare(
    flags: Mapping[str, Any],
    given: Sequence[tuple[Flag, Any]],
    plugins: list[ExtraPlugin] | PluginLoadError,
    scheduler_name: str | None,
    version: Version,
) -> Preparation:
    prepared = Preparation(gates=gates_of(version))
    _check_flags(given, prepared)
    loaded = not isinstance(plugins, PluginLoadError)
    if isinstance(plugins, PluginLoadError):
        prepared.problems.append(f"bayplan run: {plugins}")
    else:
        prepared.plugins = list(plugins)
    if scheduler_name is not None and not (len(scheduler_name) <= 253 and SUBDOMAIN.fullmatch(scheduler_name)):
        prepared.problems.append(f"bayplan run: --scheduler-name {scheduler_name!r}: {SUBDOMAIN_RULE}")
    values = {flag.name: value for flag, value in given}
    prepared.serving = serving(values, prepared.problems)
    prepared.metrics = metrics_selection(values, prepared.problems, version)
    prepared.flags = flag_values(flags)
    if "config" in values:
        _read_configuration(Path(values["config"]), loaded, prepared)
        _name_the_profile(values["config"], scheduler_name, prepared)
    else:
        name = scheduler_name or OUR_SCHEDULER_NAME
        prepared.configuration = KubeSchedulerConfiguration(profiles=[profile_of_all(name, prepared.catalog)])
        # To try something, you need no lease, and no permissions for it.
        prepared.configuration.leaderElection.leaderElect = False
    _apply(values, prepared)
    return prepared


def _check_flags(given: Sequence[tuple[Flag, Any]], prepared: Preparation) -> None:
    unused: dict[str, list[str]] = {}
    for flag, value in given:
        if flag.treatment is Treatment.REJECTED:
            prepared.problems.append(f"bayplan run: --{flag.name} is not supported: {flag.text}")
        elif flag.treatment is Treatment.WARNED and not _is_off(flag, value):
            unused.setdefault(flag.text, []).append(f"--{flag.name}")
        elif flag.name == "feature-gates":
            read = read_gates(value, prepared.gates.version)
            prepared.problems += [f"bayplan run: --feature-gates: {problem}" for problem in read.problems]
            prepared.warnings += [f"bayplan run: warning: --feature-gates: {warning}" for warning in read.warnings]
            prepared.gates = read.gates
        elif flag.name == "logging-format" and value not in FORMATS:
            prepared.problems.append(f"bayplan run: --logging-format: expected text or json, got {value!r}")
        elif flag.type is FlagType.FLOAT and not math.isfinite(value):
            prepared.problems.append(f"bayplan run: --{flag.name}: expected a number, not {value}")
        elif flag.name == "pod-max-in-unschedulable-pods-duration":
            prepared.unschedulable_timeout = durations.parse(value)
            if prepared.unschedulable_timeout <= 0:
                prepared.problems.append(f"bayplan run: --{flag.name}: must be greater than zero, not {value}")
    for reason, names in unused.items():
        verb = "has" if len(names) == 1 else "have"
        prepared.warnings.append(f"bayplan run: warning: {', '.join(names)} {verb} no effect: {reason}")


def _is_off(flag: Flag, value: Any) -> bool:
    """Whether a flag has the value that always applies."""
    if flag.type is FlagType.BOOL:
        return value is False
    return (flag.name, value) == ("kube-api-content-type", "application/json")


def _read_configuration(path: Path, plugins_loaded: bool, prepared: Preparation) -> None:
    reading = None
    try:
        if plugins_loaded:
            reading = read_configuration(path, prepared.plugins, prepared.gates)
    except PluginLoadError as error:
        prepared.problems.append(f"bayplan run: {error}")
    except ConfigurationError as error:
        prepared.problems += str(error).splitlines()
        return
    if reading is None:  # then it isn't known which plugins exist, but the rest can be validated
        try:
            load_configuration(path, prepared.gates)
        except ConfigurationError as error:
            prepared.problems += str(error).splitlines()
        return
    prepared.configuration, prepared.document = reading.configuration, reading.document
    prepared.plugins = list(reading.plugins)
    prepared.warnings += reading.warning_lines()
    problem = f"is not enabled in any profile of {path}: enable it in plugins.multiPoint"
    prepared.warnings += [f"bayplan run: warning: plugin {name!r} {problem}" for name in reading.unused_plugins()]


def _name_the_profile(path: str, scheduler_name: str | None, prepared: Preparation) -> None:
    """Apply --scheduler-name, which requires a single profile."""
    if scheduler_name is None:
        return
    problem = single_profile_problem(prepared.configuration, path)
    if problem:
        prepared.problems.append(f"bayplan run: {problem}")
    else:
        prepared.configuration.profiles[0].schedulerName = scheduler_name


def _apply(values: Mapping[str, Any], prepared: Preparation) -> None:
    """Apply flags to the configuration. They override the file where they do upstream.

    Mirrors ApplyTo, ApplyDeprecated and ApplyLeaderElectionTo (cmd/kube-scheduler/app/options/options.go), except that
    --kubeconfig overrides the file's.
    """
    configuration = prepared.configuration
    connection = configuration.clientConnection
    if "config" in values:
        prepared.warnings += [
            f"bayplan run: warning: --{name} has no effect with --config: set {place} there"
            for name, place in _IGNORED_WITH_CONFIG.items()
            if name in values
        ]
    else:
        connection.qps = values.get("kube-api-qps")
        connection.burst = values.get("kube-api-burst")
        connection.contentType = values.get("kube-api-content-type", connection.contentType)
        configuration.enableProfiling = values.get("profiling", True)
        configuration.enableContentionProfiling = values.get("contention-profiling", True)
    if "kubeconfig" in values:
        if connection.kubeconfig not in {"", values["kubeconfig"]}:
            prepared.warnings.append(
                f"bayplan run: warning: --kubeconfig overrides clientConnection.kubeconfig: "
                f"{connection.kubeconfig} is not used"
            )
        connection.kubeconfig = values["kubeconfig"]
    for name, attribute in _ELECTION_FIELDS.items():
        if name in values:
            setattr(configuration.leaderElection, attribute, values[name])
    if not prepared.problems:
        prepared.problems += [f"bayplan run: {fault}" for fault in configuration_faults(configuration)]
    _warn_about_the_stock_lease(prepared)


def _warn_about_the_stock_lease(prepared: Preparation) -> None:
    """Warn if the scheduler would wait forever for the lease of the stock kube-scheduler."""
    configuration = prepared.configuration
    election, usual = configuration.leaderElection, LeaderElection()
    names = [profile.schedulerName for profile in configuration.profiles]
    same = (election.resourceNamespace, election.resourceName) == (usual.resourceNamespace, usual.resourceName)
    if election.leaderElect and same and DEFAULT_SCHEDULER_NAME not in names:
        prepared.warnings.append(
            f"bayplan run: warning: the lease {usual.resourceNamespace}/{usual.resourceName} belongs to the "
            f"stock kube-scheduler, and only its holder schedules: set leaderElection.resourceName, such as {names[0]}"
        )
