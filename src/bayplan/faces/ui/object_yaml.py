"""An object as YAML, as `kubectl get -o yaml` prints it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import yaml

_STRING = "tag:yaml.org,2002:str"
_OTHER_IN_GO = re.compile(r"[ynYN]|[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?0o[0-7_]+")
"""Texts that Go's library takes for something else than a string, and PyYAML doesn't."""


def object_yaml(document: Mapping[str, Any]) -> str:
    """Return a document as YAML: keys in order, texts that look like another type in double quotes."""
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=True, allow_unicode=True)
    return text


class _Dumper(yaml.SafeDumper):
    """Chooses the style of texts as Go's library does. Mirrors stringv of gopkg.in/yaml.v2."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_resolve: Callable[..., str] = yaml.SafeDumper.resolve


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None
    if "\n" in text:
        style = "|"
    elif _OTHER_IN_GO.fullmatch(text) or _resolve(dumper, yaml.ScalarNode, text, (True, False)) != _STRING:
        style = '"'
    return dumper.represent_scalar(_STRING, text, style=style)


_Dumper.add_representer(str, _text)
