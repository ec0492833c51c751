"""Recommendations of rows, as of a file in CSV: namespace, kind, name, container, cpu and memory."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from typing import Any

from bayplan.answers.insight.recommendations.recommendation import RESOURCES, Read, RecommendedWorkload, recommended
from bayplan.answers.insight.separated import header_of, separator_of
from bayplan.foundations.manifest_files import PlacedDocument

COLUMNS = ("namespace", "kind", "name", "container", *RESOURCES)
NEEDED = frozenset({"name", "container"})


def read(document: Mapping[str, Any], where: str) -> Read:
    """Yield the recommendation of a row."""
    unknown = [str(column) for column in document if column not in COLUMNS]
    if "" in document:
        yield f"{where}: there are more cells than columns"
        return
    if unknown:
        yield f"{where}: there is no column {unknown[0]}: expected {', '.join(COLUMNS)}"
        return
    target = RecommendedWorkload(
        where, document.get("namespace") or "default", document.get("kind") or "", document.get("name") or ""
    )
    yield recommended(target, document.get("container"), {name: document.get(name) for name in RESOURCES})


def rows_of(text: str, source: str) -> Iterator[PlacedDocument]:
    """Yield the rows of a text in CSV, with a header. Raises csv.Error for a text that isn't that."""
    lines = text.splitlines()
    reader = csv.DictReader(lines, delimiter=separator_of(text), skipinitialspace=True, restkey="")
    names = [str(name).strip().lower() for name in reader.fieldnames or ()]
    reader.fieldnames = names
    for row in reader:
        yield PlacedDocument(
            {name: value.strip() if isinstance(value, str) else value for name, value in row.items() if name or value},
            f"{source}, line {reader.line_num}",
        )


def is_table(text: str) -> bool:
    """Return whether a text is a table: its first line names columns."""
    return set(header_of(text)) >= NEEDED
