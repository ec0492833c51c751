"""Kinds that older API servers have in another version, which the scheduler follows in its place."""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.api import pod_groups
from bayplan.api.kinds import DEVICE_TAINT_RULE, DEVICE_TAINT_RULE_V1BETA2, Kind

OLDER: Mapping[Kind, tuple[Kind, ...]] = {**pod_groups.OLDER, DEVICE_TAINT_RULE: (DEVICE_TAINT_RULE_V1BETA2,)}
"""The kind that plugins read -> the other versions in which servers have it, the newest one first."""
