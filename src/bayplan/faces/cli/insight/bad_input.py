"""The errors that say that input can't be used, and what a command prints for them."""

from __future__ import annotations

from bayplan.answers.history.format import HistoryError
from bayplan.answers.snapshots.reading import SnapshotError
from bayplan.core.config import ConfigurationError, PluginLoadError
from bayplan.foundations.bounded_files import UnusableFileError
from bayplan.running.client.errors import ConfigError, NoKubeconfigError
from bayplan.running.recording.files import RecordingError

_HOW_TO_BEGIN = "--kubeconfig names a file, --from reads files instead, and `bayplan cluster` starts a cluster"
_ERRORS = (SnapshotError, HistoryError, RecordingError, ConfigError, PluginLoadError, UnusableFileError)


def message_of(error: Exception) -> str | None:
    """What is wrong with the input; None for an error of another kind."""
    if not isinstance(error, _ERRORS):
        return None
    missing = isinstance(error, NoKubeconfigError) or isinstance(error.__cause__, NoKubeconfigError)
    return f"{error}; {_HOW_TO_BEGIN}" if missing else str(error)


def lines_of(error: Exception) -> str | None:
    """One line per error of a configuration, each with the file and the line; None for an error of another kind."""
    return str(error) if isinstance(error, ConfigurationError) else None
