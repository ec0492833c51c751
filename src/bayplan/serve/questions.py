"""The questions that a server answers, in whatever form its clients want the answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from bayplan.insight.answers import Answer, Progress, silent
from bayplan.insight.question_parameters import Question
from bayplan.insight.question_types import QUESTIONS
from bayplan.serve.answering import answered, ready
from bayplan.ui.asking import Asking

T = TypeVar("T")


class ServedQuestions:
    """The questions about a cluster. `types`: those that can be asked, by name."""

    def __init__(self, asking: Asking) -> None:
        self.types: Mapping[str, type[Question]] = QUESTIONS
        self._asking = asking

    async def ready(self) -> None:
        """Wait until questions can be asked. Raises ServeError."""
        await ready(self._asking)

    async def ask(self, question: Question, form: Callable[[Answer], T], tell: Progress = silent) -> T:
        """Ask a question, and return its answer in a form, which is made in the worker thread. Raises ServeError.

        `form`: a function, always the same for one form, because equal questions in the same form are asked once.
        """
        await self.ready()
        key = question.name, msgspec.json.encode(question), form
        return await answered(self._asking.ask(key, lambda insight, told: form(question.ask(insight, told)), tell))
