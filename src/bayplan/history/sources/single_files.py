"""Files of other tools that are a whole history each. Which tool wrote one is known by its content."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from bayplan.history.format import HistoryManifest
from bayplan.history.sources.k8shark import import_k8shark, is_k8shark
from bayplan.history.sources.kwok import import_kwok, is_kwok_recording
from bayplan.history.sources.simkube import import_simkube, is_simkube
from bayplan.insight.snapshot import Snapshot


class ImportFile(Protocol):
    """Writes the history of a file to a folder. Returns its manifest, and what can't be used, one line each."""

    def __call__(
        self, path: Path, folder: Path, *, snapshot: Snapshot | None = None
    ) -> tuple[HistoryManifest, list[str]]:
        """Raises HistoryError."""
        ...


def importer_of(path: Path) -> ImportFile | None:
    """What imports a file; None if it is none of these."""
    if is_kwok_recording(path):
        return import_kwok
    if is_simkube(path):
        return import_simkube
    return import_k8shark if is_k8shark(path) else None
