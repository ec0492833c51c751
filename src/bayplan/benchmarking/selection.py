"""Selects workloads: by name, by a regular expression like that of `go test -bench`, and by labels."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Sequence

from bayplan.benchmarking.templates import BenchmarkError
from bayplan.benchmarking.workloads import Workload

_BENCHMARK = re.compile(r"\^?BenchmarkPerfScheduling\w*\$?")


def named(workloads: Sequence[Workload], patterns: Iterable[str]) -> list[Workload]:
    """Those called `TestCase/Workload`, or all of a `TestCase`; `*` matches anything. Raises BenchmarkError."""
    found: dict[str, Workload] = {}
    for pattern in patterns:
        whole = pattern if "/" in pattern else f"{pattern}/*"
        matching = {each.name: each for each in workloads if fnmatch.fnmatchcase(each.name, whole)}
        if not matching:
            case = [each for each in workloads if each.name.partition("/")[0] == pattern.partition("/")[0]]
            raise BenchmarkError(f"no workload {pattern}; {names_of(case or workloads)}")
        found |= matching
    return list(found.values())


def names_of(workloads: Iterable[Workload]) -> str:
    """The names of workloads for a message; of several test cases, only the names of these."""
    names = [each.name for each in workloads]
    cases = list(dict.fromkeys(name.partition("/")[0] for name in names))
    return f"there are {', '.join(names)}" if len(cases) == 1 else f"there are workloads of {', '.join(cases)}"


def matching(pattern: str) -> Callable[[Workload], bool]:
    """A filter: each part of `pattern` between slashes is searched for in the same part of a workload's name.

    The parts may begin with the name of upstream's benchmark. Raises BenchmarkError.
    """
    first, *rest = pattern.split("/")
    try:
        parts = [re.compile(part) for part in (rest if _BENCHMARK.fullmatch(first) else [first, *rest])]
    except re.error as error:
        raise BenchmarkError(f"--match {pattern}: {error}") from None

    def matches(workload: Workload) -> bool:
        elements = workload.name.split("/")
        pairs = zip(parts, elements, strict=False)
        return len(parts) <= len(elements) and all(part.search(element) for part, element in pairs)

    return matches


def labelled(labels: str) -> Callable[[Workload], bool]:
    """A filter like GitHub's: `performance,-short` selects what has the first label and lacks the second."""
    wanted = {each.strip().removeprefix("+") for each in labels.split(",") if each.strip()}

    def matches(workload: Workload) -> bool:
        return all(
            each[1:] not in workload.labels if each.startswith("-") else each in workload.labels for each in wanted
        )

    return matches
