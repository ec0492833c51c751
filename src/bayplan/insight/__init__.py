"""Answers to questions about scheduling on any cluster, which is only read. Public; see docs/insight.md."""

from typing import TYPE_CHECKING

from bayplan.lazy import lazily

if TYPE_CHECKING:
    from bayplan.insight.answers import Answer, QuestionError
    from bayplan.insight.insight import Insight
    from bayplan.insight.questions.edits import Changes
    from bayplan.insight.snapshot import Snapshot
    from bayplan.insight.sources.reading import Gap, SnapshotError

__all__ = ["Answer", "Changes", "Gap", "Insight", "QuestionError", "Snapshot", "SnapshotError"]

__getattr__ = lazily(
    __name__,
    {
        "bayplan.insight.answers": ("Answer", "QuestionError"),
        "bayplan.insight.insight": ("Insight",),
        "bayplan.insight.questions.edits": ("Changes",),
        "bayplan.insight.snapshot": ("Snapshot",),
        "bayplan.insight.sources.reading": ("Gap", "SnapshotError"),
    },
)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
