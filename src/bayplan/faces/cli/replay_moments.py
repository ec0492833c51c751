"""The options that name a moment of a recording."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from bayplan.faces.cli.insight.cluster_options import with_options
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.replay import wanted


def moment_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options. The command gets `wanted`, a `DecisionSelector`."""

    @functools.wraps(command)
    def call(*arguments: Any, until: str | None, pod: str | None, preemption_of: str | None, **others: Any) -> Any:

        if pod and preemption_of:
            raise click.UsageError("--pod and --preemption-of: expected only one of them")
        return command(
            *arguments,
            wanted=wanted.DecisionSelector(until, wanted.qualified(pod), wanted.qualified(preemption_of)),
            **others,
        )

    return with_options(call, _OPTIONS)


_OPTIONS = (
    click.option(
        "--until", metavar="TIME", help="Stop before the first decision after TIME: 2026-03-02T03:12:00Z, or 03:12."
    ),
    click.option("--pod", metavar="POD", help="Stop before the last decision about POD ([NAMESPACE/]NAME)."),
    click.option(
        "--preemption-of", metavar="POD", help="Stop before the decision that evicted POD ([NAMESPACE/]NAME)."
    ),
)
