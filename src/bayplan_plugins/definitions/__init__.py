"""The CustomResourceDefinitions that these plugins need, as scheduler-plugins has them."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import yaml


def definition(plural: str) -> dict[str, Any]:
    """Return the definition of a resource."""
    text = (files(__name__) / f"{plural}.yaml").read_text(encoding="utf-8")
    document: dict[str, Any] = yaml.safe_load(text)
    return document


def permissions(plural: str) -> tuple[dict[str, list[str]], ...]:
    """Return the rules for reading these resources and writing their status."""
    group = ["scheduling.x-k8s.io"]
    return (
        {"apiGroups": group, "resources": [plural], "verbs": ["list", "watch"]},
        {"apiGroups": group, "resources": [f"{plural}/status"], "verbs": ["patch"]},
    )
