"""`bayplan conformance`: compares decisions with recorded decisions of kube-scheduler."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.table import Table

from bayplan.testing.conformance import ScenarioResult, replay
from bayplan.testing.scenarios import UnreadableScenarios, family_of, read_scenarios

EXIT_DIFFERENT = 1
EXIT_UNREADABLE = 2
_MOST_FIELDS = 6
"""Fields that are shown of one difference."""


@dataclass(slots=True)
class FamilyReport:
    """The results of a family."""

    scenarios: int = 0
    agreeing_scenarios: int = 0
    steps: int = 0
    agreeing_steps: int = 0

    def add(self, result: ScenarioResult) -> None:
        """Count a scenario."""
        self.scenarios += 1
        self.agreeing_scenarios += result.agrees
        self.steps += len(result.steps)
        self.agreeing_steps += result.agreeing


@dataclass(slots=True)
class ConformanceReport:
    """All results, and the first steps that differ."""

    families: dict[str, FamilyReport] = field(default_factory=dict)
    total: FamilyReport = field(default_factory=FamilyReport)
    differences: list[dict[str, Any]] = field(default_factory=list)

    @property
    def agrees(self) -> bool:
        """Whether everything agrees."""
        return self.total.agreeing_steps == self.total.steps

    def add(self, result: ScenarioResult, most: int) -> None:
        """Count a scenario, and keep its differences, up to `most` steps in total."""
        scenario = result.scenario
        self.families.setdefault(scenario.family, FamilyReport()).add(result)
        self.total.add(result)
        for number, step in enumerate(result.steps, 1):
            if step.differences and len(self.differences) < most:
                self.differences.append(
                    {
                        "family": scenario.family,
                        "scenario": scenario.name,
                        "place": scenario.place,
                        "step": number,
                        "pod": step.pod,
                        "fields": [
                            {
                                "field": difference.field,
                                "expected": msgspec.to_builtins(difference.expected),
                                "got": msgspec.to_builtins(difference.got),
                                "plugin": difference.plugin,
                            }
                            for difference in step.differences
                        ],
                    }
                )


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE.jsonl.gz...")
@click.option(
    "--family", "families", multiple=True, help="Only this family (a file name without extensions). May be repeated."
)
@click.option("--limit", type=click.IntRange(min=1), help="The most scenarios to run of each file.")
@click.option(
    "--differences",
    "most",
    default=5,
    show_default=True,
    type=click.IntRange(min=0),
    help="Number of steps to explain.",
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def conformance(files: tuple[Path, ...], families: tuple[str, ...], limit: int | None, most: int, form: str) -> None:
    """Run recorded scenarios and compare every decision with kube-scheduler's.

    A FILE may be a directory of such files. The exit status is 0 if everything agrees, 1 if something differs, and 2
    if a file cannot be read.
    """
    report = ConformanceReport()
    try:
        for path in _selected(files, families):
            for scenario in read_scenarios(path, limit):
                report.add(replay(scenario), most)
    except UnreadableScenarios as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_UNREADABLE)
    if form == "json":
        click.echo(json.dumps(_as_json(report), indent=2))
    else:
        _print(report)
    sys.exit(0 if report.agrees else EXIT_DIFFERENT)


def _selected(files: tuple[Path, ...], families: tuple[str, ...]) -> Iterator[Path]:
    """The files of the selected families, also in directories. Raises UnreadableScenarios if there are none."""
    paths = [
        path
        for given in files
        for path in (sorted((*given.glob("*.jsonl"), *given.glob("*.jsonl.gz"))) if given.is_dir() else [given])
    ]
    chosen = [path for path in paths if not families or family_of(path) in families]
    if not chosen:
        there = ", ".join(family_of(path) for path in paths) or "none"
        raise UnreadableScenarios(f"no file of the family {', '.join(families)}; available families: {there}")
    yield from chosen


def _as_json(report: ConformanceReport) -> dict[str, Any]:
    return {
        "agrees": report.agrees,
        "total": msgspec.to_builtins(report.total),
        "families": msgspec.to_builtins(report.families),
        "differences": report.differences,
    }


def _print(report: ConformanceReport) -> None:
    console = Console(highlight=False, soft_wrap=True)
    table = Table("family", "steps that agree", "scenarios that agree", "", box=None, pad_edge=False)
    for name, family in (*report.families.items(), ("total", report.total)):
        agrees = family.agreeing_steps == family.steps
        table.add_row(
            name,
            f"{family.agreeing_steps} of {family.steps}",
            f"{family.agreeing_scenarios} of {family.scenarios}",
            "[green]agrees[/]" if agrees else "[red]differs[/]",
        )
    console.print(table)
    for difference in report.differences:
        _print_difference(console, difference)
    hidden = report.total.steps - report.total.agreeing_steps - len(report.differences)
    if hidden:
        console.print(f"\n{hidden} more steps differ; --differences shows more of them.")


def _print_difference(console: Console, difference: dict[str, Any]) -> None:
    console.print(
        f"\n[bold]{difference['family']}[/] scenario {difference['scenario']}, step {difference['step']}, "
        f"pod {difference['pod']}  ({difference['place']})"
    )
    fields = difference["fields"]
    for each in fields[:_MOST_FIELDS]:
        console.print(f"  {each['field']}", markup=False)
        console.print(f"    expected {_short(each['expected'])}", markup=False)
        console.print(f"    got      {_short(each['got'])}", markup=False)
    if len(fields) > _MOST_FIELDS:
        console.print(f"  and {len(fields) - _MOST_FIELDS} more fields")
    plugins = dict.fromkeys(each["plugin"] for each in fields if each["plugin"])
    if plugins:
        console.print(f"  look at {next(iter(plugins))}")


def _short(value: Any) -> str:
    if value is None:
        return "nothing"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 300 else f"{text[:297]}..."
