"""Which source a document is of: VerticalPodAutoscalers, KRR, Goldilocks, or a row of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bayplan.answers.insight.recommendations import goldilocks, krr, rows, vpa
from bayplan.answers.insight.recommendations.recommendation import Read, Recommendation
from bayplan.foundations.manifest_files import PlacedDocument

EXPECTED = (
    "expected VerticalPodAutoscaler objects, a report of KRR or Goldilocks in JSON, or rows with "
    f"{', '.join(rows.COLUMNS)}"
)
"""What can be read, for messages."""


@dataclass(frozen=True, slots=True)
class Recommendations:
    """What was read. `problems`: what can't be used, one line each."""

    found: tuple[Recommendation, ...]
    problems: tuple[str, ...]


def recommendations_in(documents: Iterable[Mapping[str, Any]]) -> Recommendations:
    """Read the recommendations of documents. One that says where it comes from has that in its problems."""
    read: list[Recommendation | str] = []
    for number, document in enumerate(documents, start=1):
        place = document.where if isinstance(document, PlacedDocument) else f"recommendation {number}"
        read += _read(document, place)
    found = tuple(each for each in read if isinstance(each, Recommendation))
    return Recommendations(found, tuple(dict.fromkeys(each for each in read if isinstance(each, str))))


def _read(document: Mapping[str, Any], where: str) -> Read:
    items = document.get("items")
    if str(document.get("kind")).endswith("List") and isinstance(items, list):
        return _listed(str(document["kind"]).removesuffix("List"), items, where)
    if document.get("kind") == vpa.KIND:
        return vpa.read(document, where)
    if krr.SCANS in document:
        return krr.read(document, where)
    if isinstance(document.get(goldilocks.NAMESPACES), Mapping):
        return goldilocks.read(document, where)
    if document.keys() >= rows.NEEDED:
        return rows.read(document, where)
    kind = document.get("kind")
    return iter([f"{where}{f': {kind}' if isinstance(kind, str) else ''}: {EXPECTED}"])


def _listed(kind: str, items: list[Any], where: str) -> Read:
    """The recommendations in the items of a list. These need no kind if the list has one."""
    for item in items:
        if isinstance(item, Mapping):
            yield from _read({**({"kind": kind} if kind else {}), **item}, where)
        else:
            yield f"{where}: {EXPECTED}"
