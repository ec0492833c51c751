"""Finding: one thing that is wrong with a manifest: the rule, the object, where it stands, and what to do next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bayplan.answers.insight.checking.lines import FieldLines
from bayplan.answers.insight.checking.rules import LEVELS, RULES
from bayplan.answers.insight.json_values import fields_of
from bayplan.answers.insight.owners import WORKLOADS
from bayplan.answers.snapshots import SnapshotError
from bayplan.answers.snapshots.documents import identify
from bayplan.core.api.kinds import POD, Kind
from bayplan.foundations.manifest_files import PlacedDocument, file_and_line


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding of a rule. `object`: as in `deployment shop/web`. `file`, `line`: of the field that it is about, or of
    the object; "" and 0 if unknown.

    `next`: a command, or a change of the manifest, that is the next step.
    """

    rule: str
    object: str
    message: str
    next: str
    file: str = ""
    line: int = 0

    @property
    def level(self) -> str:
        """How bad it is: `error`, `warning` or `note`."""
        return RULES[self.rule].level

    @property
    def place(self) -> str:
        """Where it is, for people; "" if it stands in no file."""
        return f"{self.file}:{self.line}" if self.file else ""

    def to_dict(self) -> dict[str, Any]:
        """Return it as in docs/check.md."""
        return {"level": self.level, **fields_of(self)}


@dataclass(frozen=True, slots=True)
class Given:
    """An object of the manifests: its kind, its key (`namespace/name`), and where it stands."""

    kind: Kind
    key: str
    title: str
    """What it is called, as in `deployment shop/web`."""
    file: str = ""
    line: int = 0
    """Where its document begins."""
    named: tuple[str, str] = ("", "")
    """Its kind and its name, as they are written."""
    lines: FieldLines = field(default_factory=FieldLines, repr=False, compare=False)

    def finding(self, rule: str, message: str, next_step: str, of: str = "") -> Finding:
        """Return a finding about it, or about one `of` its fields, such as `spec.replicas`."""
        return Finding(rule, self.title, message, next_step, self.file, self.line_of(of))

    def line_of(self, path: str) -> int:
        """The line of a field, or of the object for ""."""
        return self.lines.line(self.file, self.line, self.named, path) if self.file else self.line


class GivenObjects:
    """The objects of the manifests, and which of them a pod belongs to."""

    def __init__(self, documents: Iterable[Mapping[str, Any]]) -> None:
        self.documents, lines = list(documents), FieldLines()
        self.twice: list[tuple[Given, Given]] = []
        """Those that come more than once: the former and the latter, which counts."""
        self._known: dict[tuple[Kind, str], Given] = {}
        self._at: dict[str, Given] = {}
        self._by_document: dict[int, Given] = {}
        self._titles: dict[str, Given] = {}
        self._names: dict[tuple[str, str], Given] = {}
        self._makers: dict[str, Given] = {}
        """key -> what may make pods; of several objects with one name, the workload"""
        for number, document in enumerate(self.documents, start=1):
            where = document.where if isinstance(document, PlacedDocument) else ""
            try:
                kind, key, _ = identify(document)
            except SnapshotError:
                continue  # the API server refuses it, which is a finding
            file, line = file_and_line(where)
            before = self._known.get((kind, key))
            title = f"{kind.singular if kind.model else str(document['kind']).lower()} {key}"
            name = key.rpartition("/")[2]
            given = Given(kind, key, title, file, line, (str(document["kind"]), name), lines)
            self._known[kind, key] = self._by_document[id(document)] = given
            if before is not None:
                self.twice.append((before, given))
            self._names[given.named] = given
            at = f"{where}: {' '.join(given.named)}" if where else f"object {number}"
            self._at[at] = self._titles[given.title] = given
            if kind is not POD and (key not in self._makers or kind in WORKLOADS):
                self._makers[key] = given

    def __iter__(self) -> Iterator[Given]:
        return iter(self._known.values())

    def __len__(self) -> int:
        return len(self.documents)

    def get(self, kind: Kind, key: str) -> Given | None:
        """Return an object; None if the manifests don't have it."""
        return self._known.get((kind, key))

    def of_document(self, document: Mapping[str, Any]) -> Given | None:
        """Return the object of a document; None if it is none that can exist."""
        return self._by_document.get(id(document))

    def called(self, title: str) -> Given | None:
        """Return the object with a title such as `deployment shop/web`."""
        return self._titles.get(title)

    def named(self, kind: str, name: str) -> Given | None:
        """Return an object by the name of its kind, as in `Deployment`, and its own, in any namespace."""
        return self._names.get((kind, name))

    def of_pod(self, key: str) -> Given | None:
        """Return the object that a pod (`namespace/name`) is or is made of: its name begins with that of the object."""
        if (pod := self.get(POD, key)) is not None:
            return pod
        while "-" in key:
            key = key.rpartition("-")[0]
            if key in self._makers:
                return self._makers[key]
        return None

    def refused(self, what: str) -> Given | None:
        """Return the object that a refusal names: it begins with the place or the number. None if it can't exist."""
        return self._at.get(what) or self._at.get(what.partition(" (")[0])


def by_level(findings: Iterable[Finding]) -> Sequence[Finding]:
    """Sort findings, the worst first; of one level, in the order of their files and lines. Equal ones count once."""
    return sorted(dict.fromkeys(findings), key=lambda each: (LEVELS.index(each.level), each.file, each.line))
