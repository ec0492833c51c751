"""`bayplan run --record`: opens the recording of a scheduler."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from bayplan.cli.run_preparation import Preparation
    from bayplan.recording.recorder import Recorder
    from bayplan.service.scheduler import Settings


def open_recorder(
    folder: str, prepared: Preparation, settings: Settings, references: Sequence[str], cluster: str
) -> Recorder:
    """A recorder for the scheduler with these settings, which have a seed. `references`: the values of `--plugin`.

    Raises RecordingError.
    """
    from bayplan.config.writing import to_yaml
    from bayplan.recording.recorder import Recorder
    from bayplan.replay.policies import setting_of

    configuration = to_yaml(prepared.configuration, prepared.catalog)
    setting = replace(
        setting_of(configuration, prepared.gates, references, prepared.plugins),
        seed=settings.seed,
        initial_backoff=settings.initial_backoff,
        max_backoff=settings.max_backoff,
        unschedulable_timeout=settings.unschedulable_timeout,
        cluster=cluster,
    )
    return Recorder(Path(folder), setting, settings.clock)


def with_seed(settings: Settings) -> Settings:
    """The settings with a seed: a recording has to know it."""
    import dataclasses

    return settings if settings.seed is not None else dataclasses.replace(settings, seed=random.getrandbits(53))
