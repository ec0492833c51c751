"""A guess at the configuration that a scheduler has, as a value and in words."""

from __future__ import annotations

import shlex
from datetime import datetime
from typing import Annotated

import msgspec

from bayplan.answers.insight.answers import plural
from bayplan.answers.shadow.comparisons import Count


class ShadowGuess(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Settings with which a scheduler's latest bindings would have the highest scores. A guess, from a sample.

    `settings`: as for `--set`; empty if none of the `tried` ones explains enough. `bindings`: how many were looked at.
    `known`: how many of these fit the configuration that the scheduler was taken to have, and `explained`: how many fit
    it with the settings. `configuration`: the settings as a KubeSchedulerConfiguration, in YAML.
    """

    scheduler: str
    time: Annotated[datetime, msgspec.Meta(tz=True)]
    bindings: Count
    known: Count
    explained: Count = 0
    settings: tuple[str, ...] = ()
    configuration: str = ""
    tried: Count = 0

    @property
    def options(self) -> str:
        """The options of the command that let Bayplan decide with these settings."""
        return " ".join(f"--set {shlex.quote(each)}" for each in self.settings)

    @property
    def text(self) -> str:
        """The guess in one line."""
        seems = f"{self.scheduler} seems to score otherwise: "
        known = f"{self.known:,} of {plural(self.bindings, 'binding')}"
        if not self.settings:
            return (
                f"{seems}{known} fit the configuration that it is taken to have, and none of {self.tried:,} likely "
                "ones explains the others; give its own with --config"
            )
        return (
            f"{seems}the differences are explained by {', '.join(self.settings)}. This is a guess: "
            f"{self.explained:,} of {plural(self.bindings, 'binding')} fit it, and {self.known:,} fit the "
            f"configuration that it is taken to have. To try it: {self.options}"
        )
