"""The questions that a server answers, in whatever form its clients want the answers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

import msgspec

from bayplan.asking.answering import answered, ready
from bayplan.asking.asking import Asking
from bayplan.asking.sources import FileSource, stamp
from bayplan.insight import Insight, Snapshot
from bayplan.insight.answers import Answer, Progress, silent
from bayplan.insight.question_parameters import Question
from bayplan.insight.question_types import QUESTIONS

T = TypeVar("T")


class ServedQuestions:
    """The questions about a cluster, and about a history. `types`: those that can be asked, by name."""

    def __init__(self, asking: Asking, history: HistoryQuestions | None = None) -> None:
        self.types: Mapping[str, type[Question]] = {**QUESTIONS, **({} if history is None else history.types)}
        self._asking = asking
        self._history = history

    async def ready(self) -> None:
        """Wait until questions can be asked. Raises ServeError."""
        await ready(self._asking)

    async def ask(self, question: Question, form: Callable[[Answer], T], tell: Progress = silent) -> T:
        """Ask a question, and return its answer in a form, which is made in the worker thread. Raises ServeError.

        `form`: a function, always the same for one form, because equal questions in the same form are asked once.
        """
        if self._history is not None and question.name in self._history.types:
            asking, about = self._history.asking, self._history.stamp()
        else:
            await self.ready()
            asking, about = self._asking, ()
        key = question.name, msgspec.json.encode(question), form, about
        return await answered(asking.ask(key, lambda insight, told: form(question.ask(insight, told)), tell))


class HistoryQuestions:
    """The questions about the history in a folder. They have a thread of their own, because they take long.

    `insight`: has the scheduler of now; only these questions use it. `longest`: the most seconds of a question. Raises
    BacktestError.
    """

    def __init__(self, folder: str, insight: Insight, longest: float) -> None:
        from bayplan.backtest.questions import history_questions
        from bayplan.backtest.running import open_history

        open_history(folder)
        self.types = history_questions(folder)
        self.asking = Asking(FileSource(Snapshot()), insight, longest)
        self._folder = folder

    def stamp(self) -> Hashable:
        """Return what changes with the history."""
        return stamp(self._folder)

    def close(self) -> None:
        """End the question in progress, and drop those that wait."""
        self.asking.close()
