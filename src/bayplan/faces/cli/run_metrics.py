"""Reads the flags that select metrics. Mirrors k8s.io/component-base/metrics/api/v1/config.go."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from bayplan.core.versions import OLDEST, Version
from bayplan.running.service.metrics.selection import MetricSelection

_NAME = "[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = "[a-zA-Z_][a-zA-Z0-9_]*"
_KEY = re.compile(f"({_NAME}),({_LABEL})")


def metrics_selection(values: Mapping[str, Any], problems: list[str], version: Version = OLDEST) -> MetricSelection:
    """The metrics that the flags (by name) select, as in a version of Kubernetes. Adds errors to `problems`."""
    allowed: dict[str, dict[str, frozenset[str]]] = {}
    disabled: list[str] = []

    def wrong(flag: str, problem: object) -> None:
        problems.append(f"bayplan run: --{flag}: {problem}")

    for name in _each(values.get("disabled-metrics", ())):
        if re.fullmatch(_NAME, name):
            disabled.append(name)
        else:
            wrong("disabled-metrics", f"{name!r} is not the full name of a metric")
    major, minor = version.split(".")
    before = f"{major}.{int(minor) - 1}"
    shown = values.get("show-hidden-metrics-for-version", "")
    if shown not in {"", before}:
        wrong(
            "show-hidden-metrics-for-version", f"must be omitted or {before}, the previous minor version, not {shown}"
        )
    given, manifest = values.get("allow-metric-labels", ()), values.get("allow-metric-labels-manifest", "")
    flag = "allow-metric-labels" if given else "allow-metric-labels-manifest"
    if given and manifest:
        wrong("allow-metric-labels", "cannot be given together with --allow-metric-labels-manifest")
    try:
        lists = dict(_pairs(given)) if given else _in_manifest(Path(manifest)) if manifest else {}
        for key, text in lists.items():
            match = _KEY.fullmatch(key)
            if match is None:
                raise ValueError(f"{key!r} is not METRIC,LABEL")
            allowed.setdefault(match[1], {})[match[2]] = frozenset(text.split(","))
    except ValueError as error:
        wrong(flag, error)
    return MetricSelection(frozenset(disabled), allowed)


def _each(values: Sequence[str]) -> Iterator[str]:
    for value in values:
        yield from value.split(",") if value else ()


def _pairs(values: Sequence[str]) -> Iterator[tuple[str, str]]:
    """`METRIC,LABEL=V1,V2`, or several as CSV, each in double quotes. Mirrors pflag's stringToString."""
    for value in values:
        several = next(csv.reader([value])) if value.count("=") > 1 else [value.strip('"')]
        for pair in several:
            key, equals, text = pair.partition("=")
            if not equals:
                raise ValueError(f"{pair!r} is not METRIC,LABEL=VALUE,...")
            yield key, text


def _in_manifest(path: Path) -> dict[str, str]:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not YAML: {error}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ValueError(f"{path}: expected a mapping of METRIC,LABEL to values")  # noqa: TRY004 - a value is wrong
    for key, text in document.items():
        if not isinstance(key, str) or not isinstance(text, str):
            raise ValueError(f'{path}: {key}: expected a text of values, as in "metric,label": "v1,v2"')  # noqa: TRY004
    return document
