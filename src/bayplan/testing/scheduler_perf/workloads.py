"""Reads `performance-config.yaml`: test cases, each a list of operations, and workloads, which set its parameters.

Mirrors test/integration/scheduler_perf/{scheduler_perf,operations}.go.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml

from bayplan.testing.scheduler_perf.templates import BenchmarkError, Template, Unsupported

CONFIG_NAME = "performance-config.yaml"


class _Workload(msgspec.Struct):
    name: str
    params: dict[str, Any] = {}


class _TestCase(msgspec.Struct):
    name: str
    workloadTemplate: list[dict[str, Any]]
    workloads: list[_Workload]
    defaultPodTemplatePath: str = ""
    schedulerConfigPath: str = ""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation with the parameters of its workload filled in."""

    code: str
    fields: Mapping[str, Any]
    folder: Path

    def count(self) -> int:
        """How many objects it makes."""
        return self.number("count")

    def number(self, field: str) -> int:
        """A field that is a number; 0 where it is not set. Raises BenchmarkError."""
        number = self.fields.get(field) or 0
        if not isinstance(number, int) or number < 0:
            raise BenchmarkError(f"{self.folder}: {self.code}: {field} is {number!r}, expected a number")
        return number

    def template(self, field: str) -> Template | None:
        """The object template that a field names, if it is set."""
        path = self.fields.get(field)
        return Template.read(self.folder / path) if path else None

    def require_only(self, *known: str) -> None:
        """Raises Unsupported for any other field, which would change what the operation means."""
        for name, value in self.fields.items():
            if name not in {"opcode", "count", *known} and value not in (None, False, "", [], {}):
                raise Unsupported(f"{self.code} with {name}")


@dataclass(frozen=True, slots=True)
class Workload:
    """A test case with its parameters, called `TestCase/Workload`."""

    name: str
    operations: tuple[Operation, ...]
    default_pod_template: Template | None
    scheduler_config: Path | None


def find_config(place: str, folder: Path | None) -> Path:
    """The configuration that `place` names: a file, a folder, or a topic in the benchmark's folder."""
    candidates = [Path(place), Path(place) / CONFIG_NAME]
    if folder is not None:
        candidates += [folder / place, folder / place / CONFIG_NAME]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    if folder is None:
        raise BenchmarkError(
            f"{place}: no such file, and BAYPLAN_SCHEDULER_PERF does not say where topics are: set it (or --place) to "
            "a folder with Kubernetes' test/integration/scheduler_perf"
        )
    topics = ", ".join(sorted(path.parent.name for path in folder.glob(f"*/{CONFIG_NAME}"))) or "none"
    raise BenchmarkError(f"{place}: neither a file nor a topic in {folder}; topics there: {topics}")


def read_workloads(path: Path) -> list[Workload]:
    """All workloads of a configuration. Raises BenchmarkError."""
    try:
        cases = msgspec.convert(yaml.safe_load(path.read_text(encoding="utf-8")), list[_TestCase])
    except (OSError, yaml.YAMLError, msgspec.ValidationError) as error:
        raise BenchmarkError(f"{path}: {error}") from None
    return [_workload(case, workload, path.parent) for case in cases for workload in case.workloads]


def select(workloads: Sequence[Workload], patterns: Sequence[str]) -> Iterator[Workload]:
    """Those called `TestCase/Workload`, or all of a `TestCase`; `*` stands for anything. Raises BenchmarkError."""
    for pattern in patterns:
        found = [each for each in workloads if fnmatch.fnmatchcase(each.name, _whole(pattern))]
        if not found:
            raise BenchmarkError(f"no workload {pattern}; there are {', '.join(each.name for each in workloads)}")
        yield from found


def _whole(pattern: str) -> str:
    return pattern if "/" in pattern else f"{pattern}/*"


def _workload(case: _TestCase, workload: _Workload, folder: Path) -> Workload:
    operations = tuple(
        Operation(str(fields.get("opcode")), _filled(fields, workload.params), folder)
        for fields in case.workloadTemplate
    )
    default = Template.read(folder / case.defaultPodTemplatePath) if case.defaultPodTemplatePath else None
    config = folder / case.schedulerConfigPath if case.schedulerConfigPath else None
    return Workload(f"{case.name}/{workload.name}", operations, default, config)


def _filled(fields: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """`countParam: $initNodes` becomes `count`, and likewise for every field, also of operations within operations."""
    filled = dict(fields)
    for name, value in fields.items():
        if name.endswith("Param") and isinstance(value, str) and value.startswith("$"):
            del filled[name]
            filled[name.removesuffix("Param")] = params.get(value[1:])
        elif isinstance(value, dict):
            filled[name] = _filled(value, params)
    return filled
