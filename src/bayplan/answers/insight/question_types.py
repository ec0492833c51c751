"""The questions about a cluster as types, by name.

QUESTIONS["drain"]      # AskDrain, which is imported now
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bayplan.answers.insight.question_list import LISTED
from bayplan.answers.insight.question_parameters import Question
from bayplan.foundations.lazy import import_named


class _Questions(Mapping[str, type[Question]]):
    """The structs of the list, each imported when it is asked for."""

    def __getitem__(self, name: str) -> type[Question]:
        found: type[Question] = import_named(LISTED[name].place)
        return found

    def __contains__(self, name: object) -> bool:
        return name in LISTED

    def __iter__(self) -> Iterator[str]:
        return iter(LISTED)

    def __len__(self) -> int:
        return len(LISTED)


QUESTIONS: Mapping[str, type[Question]] = _Questions()
"""name -> the question"""
