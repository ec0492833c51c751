"""Runs a shadow for `bayplan shadow`: follows the cluster, prints, and keeps the files, until it is to stop."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.live import Live

from bayplan.answers.backtest.settings import with_settings
from bayplan.answers.shadow.comparisons import ShadowComparison
from bayplan.answers.shadow.following import ShadowFollower
from bayplan.answers.shadow.metrics import ShadowCollector
from bayplan.answers.shadow.record import ShadowFileError, ShadowRecord
from bayplan.answers.shadow.report import write_shadow_report
from bayplan.answers.shadow.shadow import Shadow
from bayplan.answers.shadow.shown import ShadowReport, line_of, percent, summary
from bayplan.answers.simulation.usual import usual_configuration
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import NODE, POD
from bayplan.core.config import ExtraPlugin, KubeSchedulerConfiguration
from bayplan.core.config.types import DEFAULT_SCHEDULER_NAME
from bayplan.core.versions import OLDEST, FeatureGates, gates_of, version_followed, with_gangs
from bayplan.faces.cli.following import check_readable, serving_metrics, stop_signal
from bayplan.faces.cli.insight.given_scheduler import read_scheduler, read_version, rename_profiles
from bayplan.faces.cli.insight.messages import warn
from bayplan.foundations.file_lock import AlreadyLocked, locked
from bayplan.running.client.client import Client
from bayplan.running.client.connection import connect
from bayplan.running.client.server_version import server_version

log = logging.getLogger(__name__)

SILENCE = 10.0
"""Seconds without a decision after which that is reported."""
SAVE, REPORT, LOOK = 10.0, 60.0, 0.25
"""Seconds between two writes of the state, of the reports, and between two looks at what was found."""
_TABLE_FRAME = 14
"""Lines of the table that are no differences."""


@dataclass(frozen=True, slots=True)
class ComparedSchedulers:
    """Who is compared: the names of the scheduler, Bayplan's configuration, and the scheduler's own.

    None stands for the default plugins; `theirs` is None if it has the same configuration. `version`: that to decide
    as; None for the cluster's.
    """

    names: tuple[str, ...]
    ours: tuple[KubeSchedulerConfiguration | None, Sequence[ExtraPlugin]] = (None, ())
    theirs: tuple[KubeSchedulerConfiguration | None, Sequence[ExtraPlugin]] | None = None
    version: str | None = None


def read_compared(
    names: Sequence[str],
    configs: Sequence[str],
    references: Sequence[str],
    version: str | None,
    settings: Sequence[str] = (),
) -> ComparedSchedulers:
    """Read the configurations. Raises ConfigurationError, PluginLoadError and BacktestError.

    `settings`: what the scheduler itself has. Ends the process for other bad input.
    """
    chosen = None if version is None else read_version(version)
    read = [read_scheduler(file, references, (), chosen) for file in configs] or [
        read_scheduler(None, references, (), chosen)
    ]
    if not names:
        last = read[-1][0]
        names = [each.schedulerName for each in last.profiles] if last is not None else [DEFAULT_SCHEDULER_NAME]
    for file, (configuration, _) in zip(configs, read, strict=False):
        if configuration is not None and not {each.schedulerName for each in configuration.profiles} >= {*names}:
            rename_profiles(file, configuration, names)
    theirs: tuple[KubeSchedulerConfiguration | None, Sequence[ExtraPlugin]] | None = None
    if configs or references:
        theirs = read[0] if len(configs) == 2 else (None, ())
    ours = read[-1]
    if settings:
        theirs = None if theirs is None else _with_settings(theirs, settings, names, chosen)
        ours = ours if configs else _with_settings(ours, settings, names, chosen)
    return ComparedSchedulers(tuple(dict.fromkeys(names)), ours, theirs, chosen)


def _with_settings(
    scheduler: tuple[KubeSchedulerConfiguration | None, Sequence[ExtraPlugin]],
    settings: Sequence[str],
    names: Sequence[str],
    version: str | None,
) -> tuple[KubeSchedulerConfiguration | None, Sequence[ExtraPlugin]]:
    """A scheduler with some settings. Raises BacktestError."""
    configuration, plugins = scheduler
    gates = with_gangs(gates_of(version or OLDEST))
    configuration = configuration or usual_configuration(plugins, gates, names)
    return with_settings(configuration, plugins, settings, gates), plugins


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowOptions:
    """Where a shadow reads, prints and writes, and when it stops. None stands for never or nowhere."""

    kubeconfig: str | None = None
    context: str | None = None
    output: str = "auto"
    every: bool = False
    reports: tuple[Path, ...] = ()
    state: Path | None = None
    address: str = "127.0.0.1"
    port: int | None = None
    duration: float | None = None
    decisions: int | None = None
    silence: float = SILENCE


@dataclass(slots=True)
class ShadowRun:
    """One run of the command. `record` has what was found, after `run`."""

    compared: ComparedSchedulers
    options: ShadowOptions
    record: ShadowRecord = field(init=False)
    _table: bool = field(init=False, default=False)
    _unwritable: str = field(init=False, default="")
    _stop: asyncio.Event = field(init=False)
    _reader_gone: bool = field(init=False, default=False)

    async def run(self) -> None:
        """Compare until the stop, or until the reader of stdout has gone.

        Raises ShadowError and ShadowFileError, and BrokenPipeError at the end if the reader has gone. Ends the process
        if nothing can be read.
        """
        logging.basicConfig(level=logging.WARNING, handlers=[_Warnings()])
        options, names = self.options, list(self.compared.names)
        self._table = options.output == "table" or (options.output == "auto" and sys.stdout.isatty())
        async with AsyncExitStack() as stack:
            if options.state is not None:
                stack.enter_context(_held(options.state))
            earlier = None if options.state is None else ShadowRecord.load(options.state, names)
            now = datetime.now(UTC)
            self.record = earlier or ShadowRecord(names, began=now, until=now)
            self.record.guesses = []  # they were about the configuration of that run
            self._stop = stop_signal()
            client = await stack.enter_async_context(connect(options.kubeconfig, options.context))
            await check_readable(client, NODE, POD)
            shadow = await self._shadow(client)
            since = None if earlier is None else earlier.until
            follower = ShadowFollower(client, shadow, self._report, since=since, names=names)
            if options.port is not None:
                collector = ShadowCollector(follower)
                served = serving_metrics(collector, follower.synced.is_set, options.address, options.port)
                await stack.enter_async_context(served)
            await self._follow(follower, client.access.server)
        if self._reader_gone:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    async def _shadow(self, client: Client) -> Shadow:
        compared, names = self.compared, self.compared.names
        version = compared.version
        if version is None:
            followed = version_followed(await server_version(client))
            version = followed.version
            warn([followed.note] if followed.note else [])
        gates = with_gangs(gates_of(version))
        ours = _configured(*compared.ours, gates, names)
        theirs = None if compared.theirs is None else _configured(*compared.theirs, gates, names)
        world = World(ours[0], ours[1], gates)
        return Shadow(world, names, ours[0], theirs, tally=self.record.tally)

    async def _follow(self, follower: ShadowFollower, server: str) -> None:
        """Follow until the stop, and print and write meanwhile and at the end."""
        following = asyncio.create_task(follower.run(), name="shadow")
        stopped = asyncio.create_task(self._stop.wait(), name="wait for the stop")
        synced = asyncio.create_task(follower.synced.wait(), name="wait for the first lists")
        shown = asyncio.create_task(self._show(follower, server), name="show")
        try:
            await asyncio.wait((following, stopped, shown), return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                following.result()
            if shown.done():
                shown.result()
        finally:
            for task in (following, stopped, synced, shown):
                task.cancel()
            await asyncio.wait((following, stopped, synced, shown))
        late = follower.late
        follower.finish()
        self._note_guesses(follower.shadow)
        self._save()
        self._write_reports()
        self._print_end(late)

    async def _show(self, follower: ShadowFollower, server: str) -> None:
        await follower.synced.wait()
        names, loop = ", ".join(self.compared.names), asyncio.get_running_loop()
        click.echo(f"Comparing {names} of {server} with Bayplan. Press Ctrl-C to stop.", err=True)
        began = saved = reported = loop.time()
        before, silent = self.record.tally.total(), False
        with Live(console=Console(), auto_refresh=False, screen=False) if self._table else nullcontext() as live:
            while not self._stop.is_set():
                await asyncio.sleep(LOOK)
                now, total = loop.time(), self.record.tally.total()
                self._note_guesses(follower.shadow)
                if not silent and total == before and now >= began + self.options.silence:
                    silent = True
                    log.warning("%s", self._silence(follower.schedulers()))
                if now >= saved + SAVE:
                    saved = now
                    self._save(follower)
                if now >= reported + REPORT:
                    reported = now
                    self._write_reports()
                if live is not None:
                    shown = max(1, live.console.height - _TABLE_FRAME)
                    live.update(ShadowReport(self.record, shown, follower.late).render(), refresh=True)
                options = self.options
                if options.decisions is not None and total - before >= options.decisions:
                    return
                if options.duration is not None and now >= began + options.duration:
                    return

    # Output

    def _silence(self, schedulers: dict[str, int]) -> str:
        """What to say where nothing was decided. `schedulers`: of how many pods without a node, by name."""
        waiting = ", ".join(f"{name} ({number:,})" for name, number in sorted(schedulers.items()))
        others = f"pods without a node are for {waiting}" if waiting else "no pod is without a node"
        return f"{', '.join(self.compared.names)} has decided nothing in {self.options.silence:g} s; {others}"

    def _report(self, found: ShadowComparison) -> None:
        self.record.add(found)
        if self._table or (found.equal and not self.options.every):
            return
        self._print(msgspec.json.encode(found).decode() if self.options.output == "json" else line_of(found))

    def _note_guesses(self, shadow: Shadow) -> None:
        """Keep the guesses about the configurations of the schedulers, and print those that say something new."""
        said = {each.scheduler: each.settings for each in self.record.guesses}
        self.record.guesses = shadow.guesses
        for each in self.record.guesses:
            if said.get(each.scheduler) == each.settings or self._table:
                continue
            guess = {"guess": msgspec.to_builtins(each)}
            self._print(json.dumps(guess) if self.options.output == "json" else each.text)

    def _print(self, line: str) -> None:
        """Print a line. A closed pipe ends the run."""
        try:
            if not self._reader_gone:
                click.echo(line)
        except BrokenPipeError:
            self._reader_gone = True
            self._stop.set()

    def _print_end(self, late: float) -> None:
        if self.options.output == "json":
            guesses = msgspec.to_builtins(self.record.guesses)
            counts = msgspec.to_builtins(self.record.tally)
            self._print(json.dumps({"summary": counts, "guesses": guesses, "lateSeconds": round(late, 1)}))
            return
        for each in self.record.guesses:
            self._print(each.text)
        self._print(f"{', '.join(self.compared.names)}: {summary(self.record.tally, late)}")

    def _save(self, follower: ShadowFollower | None = None) -> None:
        """Write the state. A full disk is reported once, and tried again."""
        if follower is None or not follower.problems:
            self.record.until = datetime.now(UTC)
        if self.options.state is None:
            return
        try:
            self.record.save(self.options.state)
            self._unwritable = ""
        except OSError as error:
            self._cannot_write(self.options.state, error)

    def _write_reports(self) -> None:
        for path in self.options.reports:
            try:
                write_shadow_report(self.record, path)
            except OSError as error:
                self._cannot_write(path, error)

    def _cannot_write(self, path: Path, error: OSError) -> None:
        problem = f"cannot write {path}: {error.strerror or error}"
        if problem != self._unwritable:
            self._unwritable = problem
            log.warning("%s", problem)

    def verdict(self, at_least: float | None, unknown_at_most: int | None) -> str:
        """Return which threshold was missed; "" if none was."""
        if self._unwritable:
            return self._unwritable
        share, unknown = self.record.tally.share(), self.record.tally.unknown
        if at_least is not None and share is None:
            return "nothing was compared"
        if at_least is not None and share is not None and share * 100 < at_least:
            return f"{percent(share)} of the decisions are equal, expected at least {at_least:g}%"
        if unknown_at_most is not None and unknown > unknown_at_most:
            return f"{unknown:,} differences have no known cause, expected at most {unknown_at_most:,}"
        return ""


@contextmanager
def _held(state: Path) -> Iterator[None]:
    """Keep the file of the state for this run. Raises ShadowFileError if another shadow has it."""
    file = Path(os.path.realpath(state))
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(file.with_name(f".{file.name}.lock")))
        except AlreadyLocked as error:
            raise ShadowFileError(f"{state} is in use by {error.holder}: end that one, or name another file") from None
        except OSError as error:
            raise ShadowFileError(f"cannot write {state}: {error.strerror or error}") from None
        yield


class _Warnings(logging.Handler):
    """Prints warnings to stderr as it is then: a live table replaces it. Kinds that the server lacks are no news."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record."""
        if record.name.startswith("bayplan.running.client") and record.levelno < logging.ERROR:
            return
        sys.stderr.write(f"{record.levelname.lower()}: {record.getMessage()}\n")


def _configured(
    configuration: KubeSchedulerConfiguration | None,
    plugins: Sequence[ExtraPlugin],
    gates: FeatureGates,
    names: Sequence[str],
) -> tuple[KubeSchedulerConfiguration, Sequence[ExtraPlugin]]:
    return configuration or usual_configuration(plugins, gates, names), plugins
