"""The report of a shadow as a file: a page, JSON, or a table in Parquet, by the ending of its name."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import msgspec

from bayplan.answers.history.format import import_pyarrow
from bayplan.answers.shadow.record import ShadowRecord
from bayplan.answers.shadow.shown import ShadowReport
from bayplan.foundations.file_replacement import replacing

ENDINGS = (".html", ".json", ".parquet")
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>bayplan shadow</title>
<style>body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2em; }} pre {{ overflow-x: auto; }}
.agreement {{ width: 100%; height: 8em; background: #eee; }}
.same, .best {{ fill: #15803d; }} .best {{ opacity: .7; }}
.other {{ fill: #d97706; }} .not_placed {{ fill: #b91c1c; }}</style>
</head>
<body>
<h1>What Bayplan would have decided</h1>
<p>From {began:%Y-%m-%d %H:%M:%S} to {until:%Y-%m-%d %H:%M:%S} UTC.</p>
{chart}
{tables}
{guesses}
</body>
</html>
"""


def check_report_name(path: Path) -> str:
    """Return why a report can't be written to a file of this name; "" if it can. Raises HistoryError."""
    if path.suffix not in ENDINGS:
        return f"{path}: expected a name that ends with {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}"
    if not path.resolve().parent.is_dir():
        return f"{path}: there is no folder {path.parent}"
    if path.suffix == ".parquet":
        import_pyarrow()
    return ""


def write_shadow_report(record: ShadowRecord, path: Path) -> None:
    """Replace a file with the report, which only its owner can read. Raises OSError.

    A Parquet file has only the differences that were kept.
    """
    report = ShadowReport(record)
    with replacing(path, private=True) as file:
        if path.suffix == ".json":
            file.write(msgspec.json.format(msgspec.json.encode(report.to_dict()), indent=2) + b"\n")
        elif path.suffix == ".html":
            page = _PAGE.format(
                began=record.began,
                until=record.until,
                tables=report.html(wide=True),
                chart=_chart(record),
                guesses=_guesses(record),
            )
            file.write(page.encode())
        else:
            _write_parquet(record, file)


def _chart(record: ShadowRecord) -> str:
    agreement = record.agreement
    if not agreement.intervals:
        return ""
    first, last = agreement.intervals[0].begin, agreement.intervals[-1].begin
    return (
        f"<h2>Agreement over time</h2>{agreement.chart()}<p>Each bar has the decisions of {agreement.length}, "
        f"from {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC: from the bottom, the same node, one as good, "
        "another one, and none.</p>"
    )


def _guesses(record: ShadowRecord) -> str:
    """The likely configurations, to try. The tables have them in words."""
    likely = [each for each in record.guesses if each.configuration]
    return "".join(
        f"<h2>A configuration that {escape(each.scheduler)} may have</h2><pre>{escape(each.configuration)}</pre>"
        for each in likely
    )


def _write_parquet(record: ShadowRecord, file: Any) -> None:
    pa = import_pyarrow()
    text, number = pa.string(), pa.int64()
    plugins = pa.list_(pa.struct([("plugin", text), ("difference", number)]))
    schema = pa.schema(
        [
            ("time_utc", pa.timestamp("us", tz="UTC")),
            *((name, text) for name in ("subject", "pod", "uid", "theirs", "ours", "outcome", "cause", "between")),
            ("difference", number),
            ("margin", number),
            ("reason", text),
            ("plugins", plugins),
            ("their_victims", pa.list_(text)),
            ("our_victims", pa.list_(text)),
            ("feeds", text),
        ]
    )
    rows = [
        {
            **{name: getattr(each, name) for name in each.__struct_fields__ if name in schema.names},
            "time_utc": each.time,
            "subject": each.subject.value,
            "outcome": each.outcome.value,
            "cause": each.cause.value,
            "feeds": msgspec.json.encode(each.feeds).decode(),
            "plugins": [{"plugin": name, "difference": difference} for name, difference in each.plugins],
        }
        for each in record.differences
    ]
    pa.parquet.write_table(pa.Table.from_pylist(rows, schema=schema), file)
