"""`bayplan run --record`: opens the recording of a scheduler."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from bayplan.answers.history.format import HistoryError
from bayplan.answers.history.redacting import key_beside
from bayplan.answers.replay.policies import setting_of
from bayplan.answers.replay.redaction import RecordingRedactor
from bayplan.core.api import durations, quantity
from bayplan.core.config.writing import to_yaml
from bayplan.faces.cli.run_preparation import Preparation
from bayplan.running.recording.entries import RecordingRedaction
from bayplan.running.recording.files import RecordingError, next_run
from bayplan.running.recording.recorder import DecisionRecorder
from bayplan.running.recording.writing import Keep
from bayplan.running.service.settings import Settings


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """What to record to: the values of `--record`, `--record-keep`, `--record-redact` and `--plugin`."""

    folder: str
    keep: str | None
    redact: bool
    plugins: tuple[str, ...]


def open_recorder(
    asked: RecordOptions, prepared: Preparation, settings: Settings, cluster: str, answers: Collection[str] = ()
) -> DecisionRecorder:
    """A recorder for the scheduler with these settings, which have a seed. Raises RecordingError.

    `answers`: the classes of the provisioning requests that it answers.
    """
    configuration = to_yaml(prepared.configuration, prepared.catalog)
    setting = replace(
        setting_of(configuration, prepared.gates, asked.plugins, prepared.plugins),
        seed=settings.seed,
        initial_backoff=settings.initial_backoff,
        max_backoff=settings.max_backoff,
        unschedulable_timeout=settings.unschedulable_timeout,
        cluster=cluster,
        answers=tuple(answers),
    )
    folder, keep = Path(asked.folder), _keep(asked.keep)
    redaction = _redaction(folder) if asked.redact else None
    return DecisionRecorder(next_run(folder, redacted=asked.redact), setting, settings.clock, keep, redaction)


def _redaction(folder: Path) -> RecordingRedaction:
    """What replaces names, with the key beside the folder. Raises RecordingError."""
    try:
        return RecordingRedactor(key_beside(folder))
    except HistoryError as error:
        raise RecordingError(str(error)) from None


def _keep(text: str | None) -> Keep:
    """What `--record-keep` says. Raises RecordingError."""
    if text is None:
        return Keep()
    try:
        seconds = durations.parse(text)
    except ValueError:
        try:
            size = quantity.value(quantity.parse(text))
        except quantity.InvalidQuantity:
            raise RecordingError(
                f"--record-keep {text!r}: expected a duration such as 24h, or a size such as 2Gi"
            ) from None
        return Keep(bytes=size, segment_bytes=max(1 << 20, min(256 << 20, size // 4)))
    return Keep(seconds=seconds, segment_seconds=max(60.0, min(3600.0, seconds / 4)))


def with_seed(settings: Settings) -> Settings:
    """The settings with a seed: a recording has to know it."""
    return settings if settings.seed is not None else dataclasses.replace(settings, seed=random.getrandbits(53))
