"""What happened in a cluster over time, in a folder of Parquet files. Public; see docs/history.md."""

from typing import TYPE_CHECKING

from bayplan.foundations.lazy import lazily

if TYPE_CHECKING:
    from bayplan.answers.history.events import (
        Event,
        NodeAdded,
        NodeChanged,
        NodeRemoved,
        ObjectAdded,
        ObjectChanged,
        ObjectRemoved,
        Owner,
        PodArrived,
        PodBound,
        PodChanged,
        PodEnded,
    )
    from bayplan.answers.history.format import HistoryError, MissingEvents
    from bayplan.answers.history.reading import History

__all__ = [
    "Event",
    "History",
    "HistoryError",
    "MissingEvents",
    "NodeAdded",
    "NodeChanged",
    "NodeRemoved",
    "ObjectAdded",
    "ObjectChanged",
    "ObjectRemoved",
    "Owner",
    "PodArrived",
    "PodBound",
    "PodChanged",
    "PodEnded",
]

__getattr__, __dir__ = lazily(__name__)
