"""The completion indexes of Indexed Jobs. Mirrors pkg/controller/job/indexed_job_utils.go."""

from __future__ import annotations

from collections.abc import Iterable

from bayplan.core.api.served import Job, Pod
from bayplan.core.api.well_known_labels import COMPLETION_INDEX
from bayplan.core.expansion import pods


def completion_index(pod: Pod) -> int | None:
    """The completion index of a pod."""
    text = (pod.metadata.annotations or {}).get(COMPLETION_INDEX, "")
    return int(text) if text.isascii() and text.isdigit() else None


def succeeded(job: Job, owned: Iterable[Pod]) -> set[int]:
    """The indexes that these pods have completed."""
    done = (completion_index(pod) for pod in owned if pods.phase(pod) == "Succeeded")
    return {index for index in done if index is not None and index < (job.spec.completions or 0)}


def pending(job: Job, active: Iterable[Pod], done: set[int], count: int) -> list[int]:
    """The first `count` indexes that aren't completed and have no active pod."""
    taken = done | {index for pod in active if (index := completion_index(pod)) is not None}
    free = (index for index in range(job.spec.completions or 0) if index not in taken)
    return [index for index, _ in zip(free, range(count), strict=False)]


def parse(text: str | None) -> set[int]:
    """Parse `status.completedIndexes`, as in "1,3-5,7"."""
    indexes: set[int] = set()
    for part in filter(None, (text or "").split(",")):
        first, _, last = part.partition("-")
        indexes.update(range(int(first), int(last or first) + 1))
    return indexes


def text(indexes: Iterable[int]) -> str | None:
    """Format indexes for `status.completedIndexes`; None if there are none."""
    ranges: list[list[int]] = []
    for index in sorted(indexes):
        if ranges and ranges[-1][1] == index - 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    # Upstream also writes a range of two as two numbers.
    parts = [
        str(first) if first == last else f"{first},{last}" if last == first + 1 else f"{first}-{last}"
        for first, last in ranges
    ]
    return ",".join(parts) or None
