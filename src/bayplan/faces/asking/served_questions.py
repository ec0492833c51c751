"""The questions that a server answers, in whatever form its clients want the answers.

serve makes operations of them, and assistants make tools. Those about a history or a recording take long, so they have
a thread of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

import msgspec

from bayplan.answers.insight.answers import Answer, Progress, silent
from bayplan.answers.insight.insight import Insight
from bayplan.answers.insight.question_parameters import Question
from bayplan.answers.insight.question_types import QUESTIONS
from bayplan.answers.snapshots import Snapshot
from bayplan.faces.asking.answering import answered, ready
from bayplan.faces.asking.asking import Asking
from bayplan.faces.asking.sources import FileSource, stamp
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.backtest import questions, running


T = TypeVar("T")


class ServedQuestions:
    """The questions about a cluster, and about what was kept of the past. `types`: those that can be asked, by name."""

    def __init__(self, asking: Asking, *past: PastQuestions) -> None:
        self._past = {name: each for each in past for name in each.types}
        self.types: Mapping[str, type[Question]] = {
            **QUESTIONS,
            **{name: each.types[name] for name, each in self._past.items()},
        }
        self._asking = asking

    async def ready(self) -> None:
        """Wait until questions can be asked. Raises ServeError."""
        await ready(self._asking)

    async def ask(self, question: Question, form: Callable[[Answer], T], tell: Progress = silent) -> T:
        """Ask a question, and return its answer in a form, which is made in the worker thread. Raises ServeError.

        `form`: a function, always the same for one form, because equal questions in the same form are asked once.
        """
        past = self._past.get(question.name)
        if past is not None:
            asking, about = past.asking, past.stamp()
        else:
            await self.ready()
            asking, about = self._asking, ()
        key = question.name, msgspec.json.encode(question), form, about
        asked = asking.ask(key, lambda insight, told: form(question.ask(insight, told)), tell, ages=question.ages)
        return await answered(asked)


class PastQuestions:
    """Questions about a folder or a file of the past. They have a thread of their own, because they take long.

    `types`: by name. `insight`: has the scheduler of now; only these questions use it. `longest`: the most seconds of a
    question.
    """

    def __init__(self, types: Mapping[str, type[Question]], path: str, insight: Insight, longest: float) -> None:
        self.types = types
        self.asking = Asking(FileSource(Snapshot()), insight, longest)
        self._path = path

    def stamp(self) -> Hashable:
        """Return what changes with the folder or the file."""
        return stamp(self._path)

    def close(self) -> None:
        """End the question in progress, and drop those that wait."""
        self.asking.close()


class HistoryQuestions(PastQuestions):
    """The questions about the history in a folder. Raises BacktestError."""

    def __init__(self, folder: str, insight: Insight, longest: float) -> None:

        running.open_history(folder)
        super().__init__(questions.history_questions(folder), folder, insight, longest)
