"""Files with durations: YAML or JSON with a mapping, or CSV.

    workload,p50,p90
    job default/train,20m,1h

What a duration is, and what a workload is called: see `durations.py`. A line of a CSV file that can't be read is left
out.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bayplan.answers.insight.answers import QuestionError
from bayplan.foundations.manifest_files import ManifestError, read_yaml

_CSV = ".csv"
_SHOWN = 60
_HEADER = "workload"


class DurationsFileError(QuestionError):
    """A file with durations that can't be read. The message is one line for the user."""


def read_durations(path: Path) -> tuple[dict[str, Any], list[str]]:
    """Return the durations by workload, and the lines that were left out, one line of text each.

    Raises DurationsFileError.
    """
    if path.suffix.lower() == _CSV:
        problems: list[str] = []
        return dict(_rows(path, problems)), problems
    try:
        document = read_yaml(path)
    except ManifestError as error:
        raise DurationsFileError(str(error)) from None
    if not isinstance(document, Mapping) or not document:
        raise DurationsFileError(f"{path}: expected durations by workload, as in `job default/train: 30m`")
    return {str(key): value for key, value in document.items()}, []


def _rows(path: Path, problems: list[str]) -> Iterator[tuple[str, Any]]:
    known: dict[str, int] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            for row in reader:
                cells = [cell.strip() for cell in row]
                if not any(cells) or (reader.line_num == 1 and cells[0].lower() == _HEADER):
                    continue
                where = f"{path} (line {reader.line_num})"
                if len(cells) not in {2, 3} or not all(cells):
                    text = ",".join(row)
                    problems.append(f"{where}: {text:.{_SHOWN}}: expected a workload and a duration, or p50 and p90")
                    continue
                name, *values = cells
                if name in known:
                    problems.append(f"{where}: {name:.{_SHOWN}} is on line {known[name]} already: this line counts")
                known[name] = reader.line_num
                yield name, values[0] if len(values) == 1 else {"p50": values[0], "p90": values[1]}
    except UnicodeDecodeError as error:
        raise DurationsFileError(f"{path}: not a text in UTF-8: byte {error.start}") from None
    except csv.Error as error:
        raise DurationsFileError(f"{path}: not CSV: {error}") from None
    except OSError as error:
        raise DurationsFileError(f"{path}: {error.strerror or error}") from None
