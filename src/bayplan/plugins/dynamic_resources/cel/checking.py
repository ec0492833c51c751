"""What is wrong with an expression before any device is looked at."""

from __future__ import annotations

from typing import Any

import lark


def check(tree: lark.Tree[Any]) -> str:
    """Why an expression is no selector; nothing for one that may be."""
    return ""
