"""Files of recommendations: YAML or JSON, or a table in CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bayplan.answers.insight.answers import QuestionError
from bayplan.answers.insight.recommendations import rows
from bayplan.answers.insight.recommendations.reading import EXPECTED
from bayplan.foundations.manifest_files import ManifestError, PlacedDocument, read_text, yaml_documents


def read_documents(path: Path) -> list[dict[str, Any]]:
    """Return the documents of a file, which know their places. Raises QuestionError for a file that has none."""
    try:
        text = read_text(path)
        found = list(_documents(text, str(path)))
    except (ManifestError, csv.Error) as error:
        where = "" if isinstance(error, ManifestError) else f"{path}: "
        raise QuestionError(f"{where}{error}") from None
    if not found:
        raise QuestionError(f"{path} is empty: {EXPECTED}")
    return found


def _documents(text: str, source: str) -> Iterator[dict[str, Any]]:
    if rows.is_table(text):
        yield from rows.rows_of(text, source)
        return
    for line, document in yaml_documents(source, text):
        where = f"{source} (line {line})" if line > 1 else source
        for each in document if isinstance(document, list) else [document]:
            if isinstance(each, Mapping):
                yield PlacedDocument(each, where)
            elif each is not None:
                raise QuestionError(f"{where}: {EXPECTED}")
