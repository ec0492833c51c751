"""What a scheduler asks an extender, and under which paths. Imports nothing: the command's help needs it too."""

from __future__ import annotations

from collections.abc import Mapping

FILTER, PRIORITIZE, PREEMPT, BIND = VERBS = ("filter", "prioritize", "preempt", "bind")
"""With the names of the scheduler's configuration (`filterVerb` and so on)."""

DEFAULT_PATHS: Mapping[str, str] = {verb: f"/{verb}" for verb in VERBS}
ALIASES: Mapping[str, str] = {"/priority": PRIORITIZE, "/priorities": PRIORITIZE, "/predicates": FILTER}
"""What articles call them."""
