"""Makes a history from a trace: a CSV or Parquet file with a row per pod, or per group of equal pods.

docs/history.md says what the columns mean. The arrival and the requests are needed, the others may be left out.
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from io import TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from bayplan.answers.history.following import Following, HistoryChange, date_of
from bayplan.answers.history.format import LAST_TIME, HistoryError, HistoryManifest, import_pyarrow
from bayplan.answers.history.parquet_files import opened_parquet, rows_in, too_large
from bayplan.answers.history.sources.arrivals import Arrivals, at_begin
from bayplan.answers.history.sources.problems import Problems
from bayplan.answers.history.writing import write_history
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api import quantity
from bayplan.core.api.kinds import NODE, custom_kind
from bayplan.core.api.pod_groups import POD_GROUPS
from bayplan.core.api.requests import is_extended
from bayplan.core.api.suggestions import did_you_mean
from bayplan.foundations.bounded_files import Allowance, UnusableFileError, inflating

SUFFIXES = (".csv", ".csv.gz", ".parquet")
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
"""The begin of a trace whose arrivals are seconds."""
MOST = 1_000_000
"""The most pods of one row."""
MOST_PODS = 500_000
"""The most pods of a trace, unless the caller says another number. Each takes 3 KB while the history is made."""
_LONGEST_LINE = 2**20
_LATEST = (LAST_TIME - BEGIN).total_seconds()

_COLUMNS = (
    "arrival_seconds",
    "arrival_utc",
    "duration_seconds",
    "requests",
    "labels",
    "priority",
    "gang",
    "count",
    "namespace",
    "name",
)
_PAGES = "hugepages-"
_UNBOUND = "the trace has no placements, so nothing can be said of how well a simulation agrees with it"
_NO_NODES = "the trace has no nodes, and none were given: add --snapshot with a snapshot, or name node pools"


@dataclass(frozen=True, slots=True)
class _Pods:
    """A row. `arrival`: seconds since the start of the trace, or a time."""

    arrival: float | datetime
    runs: float | None
    requests: dict[str, str]
    labels: dict[str, str]
    priority: int
    gang: str
    count: int
    namespace: str
    name: str


class _BadRow(ValueError):
    """What is wrong with a row."""


def is_trace(path: Path) -> bool:
    """Whether a file is a trace, by its name."""
    return path.name.lower().endswith(SUFFIXES)


def import_trace(
    paths: Iterable[Path], folder: Path, *, snapshot: Snapshot | None = None, most_pods: int = MOST_PODS
) -> tuple[HistoryManifest, list[str]]:
    """Write the history of traces to a folder. Returns its manifest, and the faults of the trace, one line each.

    `snapshot`: the nodes and everything else but the pods of the trace. `most_pods`: a trace with more is refused
    before its rows are read. Raises HistoryError.
    """
    problems = Problems()
    files = list(paths)
    _check_size(files, most_pods)
    names: Counter[str] = Counter()
    found = [row for path in files for row in _rows(path, names, problems)]
    if not found:
        lines = list(problems.lines())
        raise HistoryError("there is no pod in the trace" + (f": {lines[0]}" if lines else ""))
    begin = min((row.arrival for row in found if isinstance(row.arrival, datetime)), default=BEGIN)
    rows = sorted(((_moment(row.arrival, begin), row) for row in found), key=lambda pair: pair[0])
    known = snapshot or Snapshot()
    following = Following()
    changes = [
        *at_begin(known, following, begin),
        *_gangs(rows, following),
        *_arrivals(rows, Arrivals(known, following), problems),
    ]
    notes = [_UNBOUND] if known.of_kind(NODE) else [_UNBOUND, _NO_NODES]
    manifest = write_history(
        folder,
        changes,
        source=f"trace {', '.join(path.name for path in files)}",
        begin=begin,
        end=max(time + timedelta(seconds=row.runs or 0.0) for time, row in rows),
        notes=[*notes, *problems.lines()],
    )
    return manifest, list(problems.lines())


def _check_size(paths: Iterable[Path], most: int) -> None:
    """Count the pods of traces. Raises HistoryError if they are too many."""
    pods = 0
    for path in paths:
        for count in _counts(path):
            pods += count
            if pods > most:
                raise HistoryError(f"the trace has more than {most:,} pods: raise --most-pods, or split the trace")


def _counts(path: Path) -> Iterator[int]:
    """The pods of the rows of a file. A row with an odd count counts as one: it will be left out."""
    if path.suffix.lower() == ".parquet":
        for _, found in _read(path):
            yield _count(found.get("count"))
        return
    with _opened(path) as lines:
        reader = csv.reader(lines, strict=True)
        names = next(reader, [])
        _check(path, names)
        place = names.index("count") if "count" in names else None
        for row in reader:
            yield 1 if place is None or place >= len(row) else _count(row[place])


def _count(value: Any) -> int:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return 1
    return int(number) if 1 <= number <= MOST else 1


def _moment(arrival: float | datetime, begin: datetime) -> datetime:
    return arrival if isinstance(arrival, datetime) else begin + timedelta(seconds=arrival)


def _gangs(rows: Iterable[tuple[datetime, _Pods]], following: Following) -> Iterator[HistoryChange]:
    """The pod groups of gangs, which come with their first pod and need all of them."""
    sizes: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], datetime] = {}
    for time, row in rows:
        if row.gang:
            sizes[row.namespace, row.gang] += row.count
            first.setdefault((row.namespace, row.gang), time)
    kind = custom_kind(POD_GROUPS)
    for (namespace, name), size in sizes.items():
        group = {
            "apiVersion": kind.api_version,
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"schedulingPolicy": {"gang": {"minCount": size}}},
        }
        yield from following.put(kind, group, first[namespace, name])


def _arrivals(
    rows: Iterable[tuple[datetime, _Pods]], arrivals: Arrivals, problems: Problems
) -> Iterator[HistoryChange]:
    for time, row in rows:
        limits = {name: amount for name, amount in row.requests.items() if is_extended(name) or name.startswith(_PAGES)}
        resources = {"requests": row.requests, "limits": limits}  # the API server wants limits of these
        spec: dict[str, Any] = {
            "containers": [{"name": "main", "image": "trace", "resources": resources}],
            "terminationGracePeriodSeconds": 0,
        }
        if row.priority:
            spec["priority"] = row.priority
        if row.gang:
            spec["schedulingGroup"] = {"podGroupName": row.gang}
        template = {"metadata": {"namespace": row.namespace, "labels": row.labels}, "spec": spec}
        key = repr((row.namespace, row.requests, row.labels, row.priority, row.gang))
        refused = arrivals.pod(key, template)
        if refused:
            problems.add(f"the API server would refuse a pod: {refused}: left out", row.name)
            continue
        for number in range(row.count):
            name = row.name if row.count == 1 else f"{row.name}-{number}"
            yield from arrivals.arrive(key, row.namespace, name, time, row.runs)


def _rows(path: Path, names: Counter[str], problems: Problems) -> Iterator[_Pods]:
    """The rows of a file that can be used. Raises HistoryError for a file that is no trace."""
    for number, found in _read(path):
        where = f"{path} line {number}"
        try:
            row = _row(found, number)
        except _BadRow as error:
            problems.add(f"{error}: left out", where)
            continue
        key = f"{row.namespace}/{row.name}"
        names[key] += 1
        if names[key] > 1:
            problems.add("a name occurs twice: its pod gets another name", where)
            row = replace(row, name=f"{row.name}-again-{names[key]}")
        yield row


def _read(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a file as they are, with their numbers: lines of a CSV file with its heading."""
    if path.suffix.lower() == ".parquet":
        yield from _read_parquet(path)
        return
    with _opened(path) as lines:
        reader = csv.DictReader(lines, strict=True)
        _check(path, reader.fieldnames or ())
        for row in reader:
            yield reader.line_num, row


def _read_parquet(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    pa = import_pyarrow()
    try:
        with opened_parquet(pa, path) as file:
            _check(path, file.schema_arrow.names)
            if beyond := too_large(file, path):
                raise HistoryError(f"{path} is no trace: {beyond}")
            yield from enumerate(rows_in(pa, file), start=1)
    except (pa.ArrowException, UnicodeDecodeError) as error:  # the latter: of a column's name
        raise HistoryError(f"{path} is truncated or damaged: {error}") from None
    except OSError as error:
        raise HistoryError(f"{path}: {error.strerror or error}") from None


@contextmanager
def _opened(path: Path) -> Iterator[Iterator[str]]:
    """The lines of a CSV file. In the context, every fault of it is a HistoryError."""
    try:
        with ExitStack() as stack:
            file: BinaryIO = stack.enter_context(path.open("rb"))
            if path.suffix.lower() == ".gz":
                allowance = Allowance(str(path), path.stat().st_size)
                file = stack.enter_context(inflating(str(path), file, allowance))
            yield _short(path, stack.enter_context(TextIOWrapper(file, "utf-8", newline="")))
    except UnusableFileError as error:
        raise HistoryError(str(error)) from None
    except (csv.Error, UnicodeDecodeError, EOFError) as error:
        raise HistoryError(f"{path}: not a CSV file: {error}") from None
    except OSError as error:
        raise HistoryError(f"{path}: {error.strerror or error}") from None


def _short(path: Path, text: TextIOWrapper) -> Iterator[str]:
    """The lines of a file. Raises HistoryError for one that has no end."""
    while line := text.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE:
            raise HistoryError(f"{path} is no trace: a line is longer than {_LONGEST_LINE:,} characters")
        yield line


def _check(path: Path, names: Iterable[str]) -> None:
    names = list(names)
    if not {"arrival_seconds", "arrival_utc"} & set(names) or "requests" not in names:
        raise HistoryError(
            f"{path} is no trace: it needs the column requests, and arrival_seconds or arrival_utc; it has "
            f"{', '.join(names) or 'no columns'}"
        )
    unknown = [name for name in names if name not in _COLUMNS]
    if unknown:
        raise HistoryError(f"{path}: unknown column {unknown[0]}{did_you_mean(unknown[0], _COLUMNS)}")


def _row(found: dict[str, Any], number: int) -> _Pods:
    if None in found:  # csv.DictReader keeps what has no column there
        raise _BadRow("a row has more fields than the heading")
    utc = found.get("arrival_utc")
    arrival: float | datetime
    if utc not in {None, ""}:
        parsed = date_of(utc.isoformat() if isinstance(utc, datetime) else utc)
        if parsed is None:
            raise _BadRow("arrival_utc is not a time such as 2026-01-01T12:00:00Z")
        arrival = parsed
    else:
        seconds = _number(found, "arrival_seconds")
        if seconds is None:
            raise _BadRow("a row has no arrival")
        arrival = seconds
    count = _number(found, "count", 1.0)
    priority = _number(found, "priority", 0.0)
    assert count is not None
    assert priority is not None
    if count != int(count) or not 1 <= count <= MOST:
        raise _BadRow(f"count is not a whole number from 1 to {MOST:,}")
    if priority != int(priority) or abs(priority) >= 2**31:
        raise _BadRow("priority is not a whole number of 32 bits")
    requests = _pairs(found, "requests")
    for name, amount in requests.items():
        try:
            quantity.parse(amount)
        except quantity.InvalidQuantity:
            raise _BadRow(f"requests of {name} are not a quantity such as 500m, 2 or 1.5Gi") from None
    return _Pods(
        arrival,
        _number(found, "duration_seconds"),
        requests,
        _pairs(found, "labels"),
        int(priority),
        str(found.get("gang") or ""),
        int(count),
        str(found.get("namespace") or "default"),
        str(found.get("name") or f"pod-{number}"),
    )


def _number(found: dict[str, Any], column: str, default: float | None = None) -> float | None:
    value = found.get(column)
    if value is None or value == "":
        return default
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    most = _LATEST if column.endswith("_seconds") else math.inf
    if not math.isfinite(number) or (number < 0 and column != "priority") or number >= most:
        raise _BadRow(f"{column} is not a number{' of seconds' if column.endswith('_seconds') else ''}")
    return number


def _pairs(found: dict[str, Any], column: str) -> dict[str, str]:
    """The pairs of `a=1,b=2`, of a JSON object, or of a struct or map of Parquet."""
    value = found.get(column)
    if value is None or value == "":
        return {}
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            value = msgspec.json.decode(value)
        except (msgspec.MsgspecError, RecursionError):
            raise _BadRow(f"{column} is not a JSON object") from None
    if isinstance(value, list):
        value = dict(value)
    if isinstance(value, str):
        pairs = [pair.partition("=") for pair in value.split(",")]
        if any(not equals or not key.strip() for key, equals, _ in pairs):
            raise _BadRow(f"{column} are not pairs such as a=1,b=2")
        return {key.strip(): item.strip() for key, _, item in pairs}
    if not isinstance(value, dict):
        raise _BadRow(f"{column} are not pairs such as a=1,b=2")
    return {str(key): str(item) for key, item in value.items() if item is not None}
