"""The options that the commands about a cluster share: where it is read, how its scheduler is configured, what to show.

@click.command()
@click.argument("pod")
@cluster_options
def explain(asked: AskedCluster, pod: str) -> None: ...

Imports no slow modules, so that help and completion are fast.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from bayplan.faces.cli.insight.given_scheduler import read_scheduler, read_version, with_names
from bayplan.faces.cli.insight.messages import errors_reported, fail, warn
from bayplan.faces.cli.insight.progress import reporting
from bayplan.faces.cli.shared_options import YAML_FILE, FilesOfKind, plugin_option
from bayplan.foundations.collector import collecting_rarely
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan import client, insight
    from bayplan.answers.insight import other_schedulers
    from bayplan.answers.simulation import usual, world
    from bayplan.core import versions
    from bayplan.core.api import labels
    from bayplan.faces.cli.insight import moments


if TYPE_CHECKING:
    from bayplan.answers.simulation.handle import OfflineHandle
    from bayplan.answers.snapshots import Snapshot
    from bayplan.core.api.kinds import Kind
    from bayplan.core.api.labels import LabelSelector
    from bayplan.core.cluster.pod_info import PodInfo
    from bayplan.core.config import ExtraPlugin, KubeSchedulerConfiguration
    from bayplan.core.framework.feeds import Feed
    from bayplan.core.versions import FeatureGates
    from bayplan.faces.cli.insight.moments import MomentFile

OUTPUTS = ("table", "wide", "json", "html")
DEFAULT_LIMIT = 20

Command = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Where a cluster is read."""

    kubeconfig: str | None = None
    context: str | None = None
    path: str | None = None
    """A file, a folder, a recording or `-`, in place of a cluster."""

    def read(self, kinds: Iterable[Kind] = (), feeds: Iterable[Feed] = ()) -> Snapshot:
        """The snapshot, with progress and its gaps on stderr. `kinds` and `feeds` are those of plugins.

        Raises SnapshotError.
        """
        what = "the cluster" if self.path is None else "standard input" if self.path == "-" else self.path
        with reporting(f"Reading {what}") as progress:
            if self.path is not None:
                snapshot = insight.Snapshot.open(self.path, progress=progress)
            else:
                snapshot = insight.Snapshot.from_cluster(
                    self.kubeconfig, self.context, kinds=kinds, feeds=feeds, progress=progress
                )
        if self.path is not None and not len(snapshot):
            fail(f"there are no objects in {what} that decisions depend on: {_EXPECTED}")
        warn(map(str, snapshot.gaps))
        warn(f"{problem}; the object is left out" for problem in snapshot.problems)
        return snapshot

    def namespace(self) -> str:
        """The namespace in which kubectl looks: that of the context; `default` for files. Raises ConfigError."""
        if self.path is not None:
            return "default"

        return client.load_kubeconfig(self.kubeconfig, self.context).namespace


@dataclass(frozen=True, slots=True)
class AskedCluster:
    """The shared options of one call of a command, after reading the cluster and the configuration."""

    snapshot: Snapshot
    configuration: KubeSchedulerConfiguration | None
    """The scheduler's; None for one profile with the default plugins and `plugins`."""
    plugins: Sequence[ExtraPlugin]
    source: SourceOptions
    namespace: str | None
    """The namespace to look in; None if it isn't given (see `in_namespace`)."""
    selector: LabelSelector | None
    limit: int
    """The most rows to show; 0 for all."""
    output: str
    """One of OUTPUTS."""
    seed: int
    gates: FeatureGates
    """The version of Kubernetes to decide as, with its feature gates."""
    other: tuple[KubeSchedulerConfiguration | None, Sequence[ExtraPlugin]] | None = None
    """The configuration to compare with, and its plugins (see `comparing_options`)."""
    labels: str = ""
    """The selector as text."""

    @property
    def in_namespace(self) -> str:
        """The namespace of names without one."""
        return self.namespace or self.source.namespace()

    def selects(self, pod: PodInfo) -> bool:
        """Whether the selector, if there is one, selects a pod."""
        return self.selector is None or self.selector.matches(pod.labels)


_CLUSTER = (
    click.option(
        "--kubeconfig",
        type=FilesOfKind("file", ""),
        metavar="FILE",
        help="The kubeconfig. Default: KUBECONFIG, or ~/.kube/config.",
    ),
    click.option("--context", metavar="NAME", help="The context of the kubeconfig. Default: the current one."),
)
SOURCE = (
    *_CLUSTER,
    click.option(
        "--from",
        "path",
        type=FilesOfKind("path", ""),
        metavar="PATH",
        help="Read a saved snapshot, a history, a recording, YAML or JSON such as `kubectl get -o json` and `kubectl "
        "cluster-info dump` print, or a folder or an archive of these, instead of a cluster. - is standard input.",
    ),
)
AT = click.option(
    "--at",
    metavar="TIME",
    help="With --from and a recording of `bayplan run --record`, or a history: the moment, as in 03:12 (UTC). "
    "Default: its end.",
)
SCHEDULER = (
    click.option(
        "--config",
        type=YAML_FILE,
        metavar="FILE",
        help="The KubeSchedulerConfiguration of the scheduler. Default: the default plugins.",
    ),
    plugin_option("Your own plugins: a file, or a module. May be repeated."),
    click.option(
        "--scheduler-name",
        "names",
        metavar="NAME",
        multiple=True,
        help="Also answer for pods with this schedulerName. With --config: the name of its profile. May be repeated.",
    ),
    click.option("--seed", type=int, default=0, show_default=True, help="Chooses among nodes with equal scores."),
)
version_option = click.option(
    "--emulated-version",
    "version",
    metavar="VERSION",
    help="The version of Kubernetes to decide as: 1.36 or 1.37. Default: that of the cluster or of the file.",
)
"""The option of commands that decide as a version of Kubernetes: `version` is the text, or None."""
_SHOWN = (
    click.option("-n", "--namespace", metavar="NAME", help="The namespace. Default: that of the context, or all."),
    click.option("-l", "--selector", metavar="LABELS", help="A label selector, as in app=web,tier!=test."),
    click.option(
        "--limit", type=click.IntRange(0), default=DEFAULT_LIMIT, show_default=True, help="Rows to show; 0: all."
    ),
)


def _shown(forms: Sequence[str] = ()) -> Sequence[Callable[[Command], Command]]:
    """The options of what to show. `forms`: further formats of the answer."""
    formats = click.Choice((*OUTPUTS, *forms))
    output = click.option(
        "-o", "--output", type=formats, default="table", show_default=True, help="Format of the answer."
    )
    return (*_SHOWN, output)


_EXPECTED = "expected what `kubectl get nodes,pods --all-namespaces -o json` prints, or a snapshot"


def source_options(command: Command) -> Command:
    """Add the options of the source. The command's first argument is the `SourceOptions`."""

    @functools.wraps(command)
    def call(kubeconfig: str | None, context: str | None, path: str | None, **others: Any) -> Any:
        with errors_reported():
            return command(source_of(kubeconfig, context, path), **others)

    return with_options(call, SOURCE)


def kubeconfig_options(command: Command) -> Command:
    """Add `--kubeconfig` and `--context`. Bad input ends the command with one message."""

    @functools.wraps(command)
    def call(**arguments: Any) -> Any:
        with errors_reported():
            return command(**arguments)

    return with_options(call, _CLUSTER)


def cluster_options(command: Command, forms: Sequence[str] = ()) -> Command:
    """Add all shared options. The command's first argument is the `AskedCluster`. Bad input ends it with one line.

    `forms`: the formats that its answer has besides the usual ones.
    """
    return with_options(_asking(command), (*SOURCE, AT, *SCHEDULER, version_option, *_shown(forms)))


def state_options(command: Command) -> Command:
    """Add the same options to a command that decides nothing: it needs no plugins of a recording."""
    return with_options(_asking(command, decides=False), (*SOURCE, AT, *SCHEDULER, version_option, *_shown()))


def comparing_options(config_help: str, path_argument: str = "") -> Callable[[Command], Command]:
    """Add all shared options, with a `--config` that may be given twice: the second one is `AskedCluster.other`.

    If it is given once, it is the second one, and the first one is the default. `path_argument`: an argument of the
    command that may replace `--from`.
    """
    config = click.option(
        "--config",
        type=YAML_FILE,
        metavar="FILE",
        multiple=True,
        callback=lambda _context, _option, files: _two(files),
        help=config_help,
    )
    return lambda command: with_options(
        _asking(command, path_argument), (*SOURCE, AT, config, *SCHEDULER[1:], version_option, *_shown())
    )


def _two(files: tuple[str, ...]) -> tuple[str | None, ...]:
    if len(files) > 2:
        raise click.BadParameter(f"expected at most two configurations, got {len(files)}")
    return files if len(files) == 2 else (None, *files)


def _asking(command: Command, path_argument: str = "", *, decides: bool = True) -> Command:
    @functools.wraps(command)
    def call(
        kubeconfig: str | None,
        context: str | None,
        path: str | None,
        at: str | None,
        config: str | tuple[str | None, ...] | None,
        plugins: tuple[str, ...],
        names: tuple[str, ...],
        seed: int,
        version: str | None,
        namespace: str | None,
        selector: str | None,
        limit: int,
        output: str,
        **others: Any,
    ) -> Any:
        with collecting_rarely(), errors_reported():
            given = others.get(path_argument)
            if given is not None and path is not None:
                raise click.UsageError(f"--from {path} and {given}: expected only one of them")
            source = source_of(kubeconfig, context, path if given is None else given)
            files = config if isinstance(config, tuple) else (config,)
            chosen = None if version is None else read_version(version)
            moment, policy = moment_of(source, at, plugins), None
            references = plugins if moment is None else moment.other_plugins()
            if moment is not None:
                with reporting(f"Reading {source.path}"):
                    policy = moment.policy(needed=decides and not (all(files) or references or names))
                    snapshot = moment.read()
            recorded = () if policy is None else policy.plugins
            read = {file: read_scheduler(file, references, names, chosen, recorded) for file in files}
            schedulers = [read[file] for file in files]  # given twice, a file is one configuration
            labels = _selector(selector)
            if policy is not None:
                known = (policy.configuration, policy.plugins)
                schedulers = [known if each == (None, ()) and not names else each for each in schedulers]
            elif moment is None:
                handles = [found for each in schedulers if (found := _handle(*each)) is not None]
                kinds = {kind for handle in handles for kind in handle.served}
                feeds = [feed for handle in handles for feed in handle.feeds.values()]
                snapshot = source.read(sorted(kinds, key=lambda kind: kind.resource), feeds)
            if chosen is None and snapshot.followed.note:
                warn([snapshot.followed.note])
            gates = versions.with_gangs(versions.gates_of(chosen or snapshot.followed.version))
            if policy is not None and chosen is None:
                gates = policy.gates
            if not any(files) and policy is None:
                warn(other_schedulers.unknown_schedulers(snapshot, (*usual.SERVED_NAMES, *names)))
            schedulers = [with_names(each, names, gates) for each in schedulers]
            first, other = schedulers[0], schedulers[1] if len(schedulers) > 1 else None
            return command(
                AskedCluster(
                    snapshot, *first, source, namespace, labels, limit, output, seed, gates, other, selector or ""
                ),
                **others,
            )

    return call


def moment_of(source: SourceOptions, at: str | None, references: tuple[str, ...]) -> MomentFile | None:
    """The moment of a recording or a history that is the source; None for any other source. See `MomentFile`."""
    found = moments.moment_source(source.path, at, references)
    if found is None and at is not None:
        raise click.UsageError("--at names a moment of a recording or a history: use it with --from and one")
    return found


def with_options(command: Command, options: Sequence[Callable[[Command], Command]]) -> Command:
    """Add options, in this order."""
    for option in reversed(options):
        command = option(command)
    return command


def source_of(kubeconfig: str | None, context: str | None, path: str | None) -> SourceOptions:
    """The source that the options name. Raises UsageError if they name two."""
    if path is not None and (kubeconfig is not None or context is not None):
        raise click.UsageError("--from replaces the cluster: use it without --kubeconfig and --context")
    return SourceOptions(kubeconfig, context, path)


def _handle(configuration: KubeSchedulerConfiguration | None, plugins: Sequence[ExtraPlugin]) -> OfflineHandle | None:
    """A handle that knows what the user's plugins read; None if there are none."""
    return None if configuration is None and not plugins else world.World(configuration, plugins).handle


def _selector(text: str | None) -> LabelSelector | None:
    if text is None:
        return None

    try:
        return labels.parse_label_selector(text)
    except labels.InvalidSelector as error:
        fail(f"--selector {text!r}: {error}")
