"""Files with durations: YAML or JSON with a mapping, or a table.

    workload,p50,p90
    job default/train,20m,1h

What a duration is, and what a workload is called: see `durations.py`. A line of a table that can't be read is left
out.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bayplan.answers.insight.answers import QuestionError
from bayplan.answers.insight.separated import header_of, separator_of
from bayplan.foundations.manifest_files import ManifestError, read_text, yaml_in

_CSV = ".csv"
_SHOWN = 60
_HEADER = "workload"


class DurationsFileError(QuestionError):
    """A file with durations that can't be read. The message is one line for the user."""


def read_durations(path: Path) -> tuple[dict[str, Any], list[str]]:
    """Return the durations by workload, and the lines that were left out, one line of text each.

    Raises DurationsFileError.
    """
    problems: list[str] = []
    try:
        text = read_text(path)
        if path.suffix.lower() == _CSV or header_of(text)[0] == _HEADER:  # the name of a pipe has no suffix
            document = dict(_rows(path, text, problems))
        else:
            document = yaml_in(str(path), text)
    except ManifestError as error:
        raise DurationsFileError(str(error)) from None
    except csv.Error as error:
        raise DurationsFileError(f"{path}: not CSV: {error}") from None
    if not isinstance(document, Mapping) or not (document or problems):
        raise DurationsFileError(f"{path}: expected durations by workload, as in `job default/train: 30m`")
    return {str(key): value for key, value in document.items()}, problems


def _rows(path: Path, text: str, problems: list[str]) -> Iterator[tuple[str, Any]]:
    """The rows of a table. Raises csv.Error."""
    known: dict[str, int] = {}
    reader = csv.reader(text.splitlines(), delimiter=separator_of(text))
    for row in reader:
        cells = [cell.strip() for cell in row]
        if not any(cells) or (reader.line_num == 1 and cells[0].lower() == _HEADER):
            continue
        where = f"{path} (line {reader.line_num})"
        if len(cells) not in {2, 3} or not all(cells):
            shown = ",".join(row)
            problems.append(f"{where}: {shown:.{_SHOWN}}: expected a workload and a duration, or p50 and p90")
            continue
        name, *values = cells
        if name in known:
            problems.append(f"{where}: {name:.{_SHOWN}} is on line {known[name]} already: this line counts")
        known[name] = reader.line_num
        yield name, values[0] if len(values) == 1 else {"p50": values[0], "p90": values[1]}
