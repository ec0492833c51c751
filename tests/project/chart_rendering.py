"""Renders the chart in deploy/chart, with the part of Go's text/template that its templates use.

It rejects everything else. It doesn't replace helm: it can't find errors that only helm would report.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

_ACTION = re.compile(r"(?P<left>\s*\{\{-|\{\{)\s*(?P<code>.*?)\s*(?P<right>-\}\}\s*|\}\})", re.DOTALL)
_FUNCTIONS = {
    "toYaml": lambda value: yaml.safe_dump(value, sort_keys=True).rstrip("\n"),
    "sha256sum": lambda value: hashlib.sha256(value.encode()).hexdigest(),
    "trunc": lambda length, value: value[:length],
    "quote": lambda value: json.dumps(value, ensure_ascii=False),
    "nindent": lambda width, value: "\n" + "\n".join(" " * width + line if line else "" for line in value.split("\n")),
    "default": lambda otherwise, value: value or otherwise,
    "and": lambda *values: next((value for value in values if not value), values[-1]),
    "list": lambda *values: list(values),
    "trim": str.strip,
    "int": int,
}


def render(chart: Path, values: Mapping[str, Any], namespace: str) -> list[dict[str, Any]]:
    """Return the objects of a chart, with `values` merged over its own."""
    scope = {
        "Values": _over(yaml.safe_load((chart / "values.yaml").read_text()), values),
        "Chart": {
            key[0].upper() + key[1:]: value for key, value in yaml.safe_load((chart / "Chart.yaml").read_text()).items()
        },
        "Release": {"Namespace": namespace, "Name": "release"},
        "Files": {"Get": lambda path: (chart / path).read_text()},
    }
    texts = [_Template(file.read_text()).render(scope) for file in sorted((chart / "templates").iterdir())]
    return [document for text in texts for document in yaml.safe_load_all(text) if document]


def _over(own: Any, given: Any) -> Any:
    if not isinstance(own, dict) or not isinstance(given, Mapping):
        return given
    return {**own, **{key: _over(own[key], value) if own.get(key) else value for key, value in given.items()}}


class _Template:
    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0
        self._nodes = self._block()
        if self._at != len(self._tokens):
            raise ValueError(f"unexpected {self._tokens[self._at]}")

    def render(self, scope: Mapping[str, Any]) -> str:
        return "".join(_run(self._nodes, scope, scope, {}))

    def _block(self) -> list[Any]:
        """Parse up to an `else`, an `end`, or the end of the text."""
        nodes: list[Any] = []
        while self._at < len(self._tokens):
            kind, code = self._tokens[self._at]
            if kind == "action" and code in {"else", "end"}:
                break
            self._at += 1
            if kind == "action" and code.partition(" ")[0] in {"if", "range"}:
                first, second = self._block(), []
                if self._tokens[self._at] == ("action", "else"):
                    self._at += 1
                    second = self._block()
                if self._tokens[self._at] != ("action", "end"):
                    raise ValueError(f"{code} has no end")
                self._at += 1
                nodes.append((code, first, second))
            else:
                nodes.append((kind, code))
        return nodes


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    end = 0
    for action in _ACTION.finditer(text):
        start = action.start() if action["left"].endswith("-") else action.start("left")
        yield "text", text[end:start]
        yield "action", action["code"]
        end = action.end()
    yield "text", text[end:]


def _run(nodes: list[Any], scope: Mapping[str, Any], dot: Any, variables: dict[str, Any]) -> Iterator[str]:
    for node in nodes:
        if len(node) == 2:
            kind, code = node
            yield code if kind == "text" else _shown(_pipeline(code, dot, variables))
            continue
        head, first, second = node
        word, _, rest = head.partition(" ")
        if word == "if":
            yield from _run(first if _pipeline(rest, dot, variables) else second, scope, dot, variables)
            continue
        names, _, what = rest.rpartition(":=")
        items = _pipeline(what.strip(), dot, variables)
        pairs = sorted(items.items()) if isinstance(items, dict) else list(enumerate(items))
        wanted = [name.strip() for name in names.split(",")] if names else []
        for pair in pairs:
            yield from _run(first, scope, pair[1], {**variables, **dict(zip(wanted, pair, strict=False))})


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _pipeline(code: str, dot: Any, variables: Mapping[str, Any]) -> Any:
    value: list[Any] = []
    for stage in code.split("|"):
        name, *arguments = stage.split()
        if name == ".Files.Get":
            value = [dot["Files"]["Get"](*map(json.loads, arguments))]
        elif name in _FUNCTIONS:
            value = [_FUNCTIONS[name](*(_operand(each, dot, variables) for each in arguments), *value)]
        else:
            value = [_operand(name, dot, variables)]
    return value[0]


def _operand(text: str, dot: Any, variables: Mapping[str, Any]) -> Any:
    if text.isdigit():
        return int(text)
    if text.startswith("$"):
        return variables[text]
    if not text.startswith("."):
        raise ValueError(f"{text!r} is not supported")
    for name in text.split("."):
        dot = dot[name] if name else dot
    return dot
