"""Formats objects as a readable stream of YAML documents, with comments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml


class _Dumper(yaml.SafeDumper):
    """Writes multi-line text as blocks, and indents lists."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def stream(documents: Iterable[tuple[str, dict[str, Any]]], head: str = "") -> str:
    """The documents with their comments, after a comment about all of them."""
    parts = [f"# {head}\n" if head else ""]
    for comment, document in documents:
        parts.append("---\n" + (f"# {comment}\n" if comment else ""))
        parts.append(yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True))
    return "".join(parts)
