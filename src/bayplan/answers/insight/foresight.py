"""Foresight: what a question about the future is told, beside the snapshot: run times, an autoscaler, how often to try.

insight.when("default/train-0", foresight=Foresight(durations={"job default/train": "30m"}))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bayplan.answers.simulation.models.autoscaler.rules import PRESETS
from bayplan.answers.simulation.models.parameters import Parameters

NO_AUTOSCALER = "none"
AUTOSCALERS = (NO_AUTOSCALER, *PRESETS)
"""Whose rules may add and remove nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Foresight:
    """What is known of the future.

    `durations`: how long pods run, by workload: `30m`, seconds, or `{"p50": "20m", "p90": "1h"}`. `seen`: the seconds
    that pods of a history ran, by what they have in common (`run_times_seen` of a history). `autoscaler`: the rules by
    which nodes come and go; `none` for the nodes of now. `parameters`: of the models. `runs`: how often to simulate;
    None for as often as the size of the cluster allows.
    """

    durations: Mapping[str, Any] = field(default_factory=dict)
    seen: Mapping[str, Sequence[float]] = field(default_factory=dict)
    autoscaler: str = NO_AUTOSCALER
    parameters: Parameters = field(default_factory=Parameters)
    runs: int | None = None
