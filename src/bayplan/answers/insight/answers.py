"""Answer: what all answers have in common: JSON, a data frame, a table for terminals, and HTML for notebooks.

An answer is a frozen dataclass, complete when it is made. `to_dict` has its fields (`json_values.py`), `render` its
tables (`tables.py`), which `rendering.py` makes text or HTML. Keys of the JSON are stable: programs read them.
`QuestionError` has a message for the user. Imports no slow modules.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bayplan.answers.insight.json_values import fields_of
from bayplan.foundations.lazy import library, on_use

with on_use():
    from bayplan.answers.insight import rendering

if TYPE_CHECKING:
    from rich.console import RenderableType


class QuestionError(Exception):
    """A question that can't be answered, such as one about a pod that doesn't exist. The message is for the user."""


INTERRUPTED = "interrupted: this is what was known by then"
"""The note of an answer that is not complete."""


class Stopped(Exception):
    """Raised by a progress callback to end a question early."""


Progress = Callable[[str], None]
"""Called between the steps of a question with what is known so far, as text. May raise Stopped."""


def silent(_: str) -> None:
    """Report no progress."""


class Answer(ABC):
    """An immutable answer to a question."""

    @property
    def interrupted(self) -> bool:
        """Whether the question was stopped early, so that the answer has only what was known by then."""
        return False

    @property
    def forms(self) -> Mapping[str, str]:
        """Further forms of it as text, by name: those that other tools read."""
        return {}

    @property
    def next_steps(self) -> Sequence[str]:
        """What to do next, the best first: changes that were tried, or questions to ask. None if nothing is wrong."""
        return ()

    @property
    def passes(self) -> bool:
        """Whether what was asked about is as one would like it, so that a command exits with 0, and not with 1."""
        return True

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as in docs/insight.md, as JSON-compatible values. Keys are stable; new ones may come."""
        return fields_of(self)

    @abstractmethod
    def rows(self) -> list[dict[str, Any]]:
        """Return the main table of the answer, one dict per row."""

    @abstractmethod
    def render(self, *, wide: bool = False) -> RenderableType:
        """Return what a terminal shows. `wide` shows all nodes, pods and reasons."""

    def to_frame(self) -> Any:
        """Return `rows` as a pandas DataFrame. Raises ImportError without pandas."""
        try:
            pd = library("pandas")
        except ImportError:
            raise ImportError("to_frame needs pandas: pip install pandas") from None
        return pd.DataFrame(self.rows())

    def text(self, *, width: int = 120, wide: bool = False) -> str:
        """Return what a terminal of `width` columns shows, without colors."""
        return rendering.text_of(self.render(wide=wide), width)

    def html(self, *, wide: bool = False) -> str:
        """Return the answer as an HTML fragment."""
        return rendering.html_of(self.render(wide=wide))

    def _repr_html_(self) -> str:
        return self.html()

    def __str__(self) -> str:
        return self.text()


def listed(names: Sequence[str], limit: int = 5) -> str:
    """Join names for people: the first few, and how many more there are."""
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


def plural(number: int, noun: str) -> str:
    """Return a number with its noun: `1 node`, `2 nodes`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def first_line(text: str) -> str:
    """Return the first line of a message: the API server's errors may go on with how two objects differ."""
    return text.partition("\n")[0].rstrip()
