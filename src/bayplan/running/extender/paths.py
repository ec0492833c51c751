"""The verbs of the extender protocol and their paths. Imports nothing, because the command's help needs it."""

from __future__ import annotations

from collections.abc import Mapping

FILTER, PRIORITIZE, PREEMPT, BIND = VERBS = ("filter", "prioritize", "preempt", "bind")
"""Named as in the configuration of kube-scheduler (`filterVerb` and so on)."""

DEFAULT_PATHS: Mapping[str, str] = {verb: f"/{verb}" for verb in VERBS}
ALIASES: Mapping[str, str] = {"/priority": PRIORITIZE, "/priorities": PRIORITIZE, "/predicates": FILTER}
"""Other common names of the paths."""
