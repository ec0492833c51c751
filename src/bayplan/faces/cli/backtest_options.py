"""The options that `simulate` and `compare` share. Imports no slow modules, so that help and completion are fast."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bayplan.faces.cli.insight.answering import show
from bayplan.faces.cli.insight.cluster_options import with_options
from bayplan.faces.cli.insight.given_scheduler import read_scheduler, read_version
from bayplan.faces.cli.insight.messages import errors_reported, fail
from bayplan.faces.cli.shared_options import YAML_FILE, FilesOfKind, memory_option
from bayplan.foundations.file_replacement import replace_text
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.backtest import errors, limited, lookahead, report, running
    from bayplan.answers.backtest import settings as scheduler_settings
    from bayplan.answers.insight import answers
    from bayplan.answers.insight import prices as node_prices
    from bayplan.answers.simulation.models import parameters
    from bayplan.core import versions


if TYPE_CHECKING:
    from bayplan.answers.backtest.comparison import Comparison
    from bayplan.answers.backtest.lookahead import Lookahead
    from bayplan.answers.backtest.running import SimulatedScheduler, SimulationRun
    from bayplan.answers.backtest.simulated import Simulated
    from bayplan.answers.history.reading import History

Command = Callable[..., Any]
T = TypeVar("T")
Progress = Callable[[str], None]
AUTOSCALERS = ("auto", "none", "cluster-autoscaler", "karpenter")

LIMITS = (
    click.option(
        "--call-seconds",
        type=click.FloatRange(0.1),
        default=30.0,
        show_default=True,
        metavar="N",
        help="The longest that one call of your own plugins may take.",
    ),
    memory_option("The most memory that a simulation with your own plugins may take."),
)

_OPTIONS = (
    click.option(
        "--history",
        "folder",
        required=True,
        type=FilesOfKind("path", ""),
        metavar="DIR",
        help="The history, which `bayplan record` and `bayplan history` write.",
    ),
    click.option(
        "--autoscaler",
        type=click.Choice(AUTOSCALERS),
        default="auto",
        show_default=True,
        help="Whose rules add and remove nodes. auto: those that the nodes' labels tell of, for the pools whose nodes "
        "came and went; any other one manages all pools but the control plane.",
    ),
    click.option("--models", type=YAML_FILE, metavar="FILE", help="The parameters of the models, in YAML."),
    click.option(
        "--prices", type=YAML_FILE, metavar="FILE", help="Dollars for an hour by instance type or pool, in YAML."
    ),
    click.option(
        "--report",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        help="Write a report with plots, one file in HTML. Needs the extra `plots`.",
    ),
    click.option("--seed", type=int, default=0, show_default=True, help="Chooses where chance decides."),
    click.option(
        "--emulated-version",
        "version",
        metavar="VERSION",
        help="The version of Kubernetes to decide as: 1.36 or 1.37. Default: 1.36.",
    ),
    *LIMITS,
)


@dataclass(frozen=True, slots=True)
class BacktestOptions:
    """The values of the shared options."""

    folder: str
    autoscaler: str
    models: str | None
    prices: str | None
    report: str | None
    seed: int
    version: str | None
    call_seconds: float
    memory: int

    def limited(
        self, work: Callable[[Progress], T], plugins: Sequence[str], progress: Progress, what: str = "the candidate"
    ) -> T:
        """The result of work: in a process with limits if it calls plugins of the user. Raises BacktestError."""
        if not plugins or not limited.can_fork():
            return work(progress)
        try:
            return limited.run_limited(work, limited.RunLimits(self.call_seconds, self.memory), progress)
        except errors.BacktestError as error:
            raise errors.BacktestError(f"{what} can't be simulated: {error}") from None

    def run(self, scheduler: SimulatedScheduler) -> SimulationRun:
        """The simulation of a scheduler. Raises BacktestError and ParametersError."""
        models = parameters.Parameters() if self.models is None else parameters.read_parameters(Path(self.models))
        try:
            prices = node_prices.Prices({}) if self.prices is None else node_prices.Prices.read(Path(self.prices))
        except node_prices.PricesError as error:
            raise errors.BacktestError(str(error)) from None
        return running.SimulationRun(scheduler, running.FleetChoice(self.autoscaler), models, prices, self.seed)

    def history(self, run: SimulationRun) -> tuple[History, Lookahead]:
        """The history, and what has to be known of it. Raises BacktestError."""
        history = running.open_history(self.folder)
        return history, lookahead.Lookahead(history, run.prices.of)

    def show(self, found: Simulated | Comparison, output: str, report: Callable[[], str] | None = None) -> None:
        """Print an answer, and write its report if one is wanted. Raises BacktestError. `report`: makes it."""
        if self.report is not None:
            write_text("--report", self.report, (report or found.report)())
        show(found, output)


def backtest_options(command: Command) -> Command:
    """Add the options. The command's first argument is the `BacktestOptions`. Bad input ends it with one line."""

    @functools.wraps(command)
    def call(**options: Any) -> Any:
        with errors_reported(), replay_errors():
            asked = BacktestOptions(**{field.name: options.pop(field.name) for field in fields(BacktestOptions)})
            _check_report(asked.report)
            return command(asked, **options)

    return with_options(call, _OPTIONS)


@contextmanager
def replay_errors() -> Iterator[None]:
    """End the process with status 2 and one line for what can't be simulated."""
    try:
        yield
    except (errors.BacktestError, parameters.ParametersError) as error:
        fail(str(error))
    except answers.Stopped:
        raise KeyboardInterrupt from None


def _check_report(path: str | None) -> None:
    """Check that a report can be written, before what it is about takes its time. Raises BacktestError."""
    if path is not None:
        report.check_libraries()
        if not Path(path).parent.is_dir():
            fail(f"--report {path}: there is no folder {Path(path).parent}")


def write_text(option: str, path: str, text: str) -> None:
    """Write the file that an option names, for its owner only: it has the names of a cluster."""
    try:
        replace_text(Path(path), text, private=True)
    except OSError as error:
        fail(f"{option} {path}: {error.strerror or error}")


def read_simulated(
    config: str | None, plugins: Sequence[str], version: str | None, settings: Sequence[str] = ()
) -> SimulatedScheduler:
    """The scheduler to simulate. Raises BacktestError, ConfigurationError or PluginLoadError."""
    chosen = versions.OLDEST if version is None else read_version(version)
    gates = versions.with_gangs(versions.gates_of(chosen))
    configuration, loaded = read_scheduler(config, plugins, (), chosen)
    return running.SimulatedScheduler(
        scheduler_settings.with_settings(configuration, loaded, settings, gates), loaded, gates
    )
