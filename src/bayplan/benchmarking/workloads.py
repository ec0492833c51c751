"""Reads `performance-config.yaml`: test cases, each a list of operations, and workloads, which set its parameters.

Mirrors test/integration/scheduler_perf/{scheduler_perf,operations}.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import yaml

from bayplan.benchmarking.templates import BenchmarkError, ObjectTemplate, Unsupported
from bayplan.core.api import durations
from bayplan.core.versions import DEFAULT_GATES

CONFIG_NAME = "performance-config.yaml"


class _Workload(msgspec.Struct):
    name: str
    params: dict[str, Any] = {}
    labels: list[str] = []
    featureGates: dict[str, bool] = {}


class _TestCase(msgspec.Struct):
    name: str
    workloadTemplate: list[dict[str, Any]]
    workloads: list[_Workload]
    defaultPodTemplatePath: str = ""
    schedulerConfigPath: str = ""
    labels: list[str] = []
    featureGates: dict[str, bool] = {}


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation with the parameters of its workload filled in."""

    code: str
    fields: Mapping[str, Any]
    folder: Path

    def count(self) -> int:
        """The number of objects to create."""
        return self.number("count")

    def number(self, field: str) -> int:
        """A field that is a number; 0 if it isn't set. Raises BenchmarkError."""
        number = self.fields.get(field) or 0
        if not isinstance(number, int) or number < 0:
            raise BenchmarkError(f"{self.folder}: {self.code}: {field} is {number!r}, expected a number")
        return number

    def duration(self, field: str) -> float:
        """A field that is a duration, in seconds. Raises BenchmarkError."""
        try:
            return durations.parse(str(self.fields.get(field)))
        except ValueError as error:
            raise BenchmarkError(f"{self.folder}: {self.code}: {field}: {error}") from None

    def template(self, field: str) -> ObjectTemplate | None:
        """The object template that a field names; None if it isn't set."""
        path = self.fields.get(field)
        return ObjectTemplate.read(self.folder / path) if path else None

    def require_only(self, *known: str) -> None:
        """Raises Unsupported for any other field, which would change the meaning of the operation."""
        for name, value in self.fields.items():
            if name not in {"opcode", *known} and value not in (None, False, "", [], {}):
                raise Unsupported(f"{self.code} with {name}")


@dataclass(frozen=True, slots=True)
class Workload:
    """A test case with the parameters of one of its workloads, called `TestCase/Workload`.

    `labels` and `feature_gates` are those of the test case and the workload.
    """

    name: str
    operations: tuple[Operation, ...]
    default_pod_template: ObjectTemplate | None
    scheduler_config: Path | None
    labels: frozenset[str] = frozenset()
    feature_gates: Mapping[str, bool] = field(default_factory=dict)

    @property
    def unusual_gates(self) -> list[str]:
        """The feature gates that it needs and that are off by default."""
        return [name for name, value in self.feature_gates.items() if value and name not in DEFAULT_GATES.on]


def find_configs(place: str, folder: Path | None) -> list[Path]:
    """The configurations that `place` names: a file, a topic in the benchmark's folder, or a folder of topics."""
    candidates = [Path(place)] if folder is None else [Path(place), folder / place]
    for candidate in candidates:
        if candidate.is_file():
            return [candidate]
        if (candidate / CONFIG_NAME).is_file():
            return [candidate / CONFIG_NAME]
        if found := sorted(candidate.rglob(CONFIG_NAME)):
            return found
    if folder is None:
        raise BenchmarkError(
            f"{place}: no such file, and BAYPLAN_SCHEDULER_PERF does not say where topics are: set it (or --place) to "
            "a folder with Kubernetes' test/integration/scheduler_perf"
        )
    topics = ", ".join(sorted(str(path.parent.relative_to(folder)) for path in folder.rglob(CONFIG_NAME))) or "none"
    raise BenchmarkError(f"{place}: neither a file nor a topic in {folder}; topics there: {topics}")


def read_workloads(path: Path) -> list[Workload]:
    """All workloads of a configuration. Raises BenchmarkError."""
    try:
        cases = msgspec.convert(yaml.safe_load(path.read_text(encoding="utf-8")), list[_TestCase])
    except (OSError, yaml.YAMLError, msgspec.ValidationError) as error:
        raise BenchmarkError(f"{path}: {error}") from None
    return [_workload(case, workload, path.parent) for case in cases for workload in case.workloads]


def _workload(case: _TestCase, workload: _Workload, folder: Path) -> Workload:
    operations = tuple(
        Operation(str(fields.get("opcode")), _filled(fields, workload.params), folder)
        for fields in case.workloadTemplate
    )
    return Workload(
        f"{case.name}/{workload.name}",
        operations,
        ObjectTemplate.read(folder / case.defaultPodTemplatePath) if case.defaultPodTemplatePath else None,
        folder / case.schedulerConfigPath if case.schedulerConfigPath else None,
        frozenset(case.labels + workload.labels),
        case.featureGates | workload.featureGates,
    )


def _filled(fields: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """Replace `countParam: $initNodes` by `count`, and likewise every such field, in nested operations as well."""
    filled = dict(fields)
    for name, value in fields.items():
        if name.endswith("Param") and isinstance(value, str) and value.startswith("$"):
            del filled[name]
            filled[name.removesuffix("Param")] = params.get(value[1:])
        elif isinstance(value, dict):
            filled[name] = _filled(value, params)
    return filled
