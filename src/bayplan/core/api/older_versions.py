"""Kinds that servers may have in another version than the one that Bayplan reads them as."""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.core.api.kinds import DEVICE_TAINT_RULE, DEVICE_TAINT_RULE_V1BETA2, Kind, custom_kind
from bayplan.core.api.pod_groups import OLDER_POD_GROUPS, POD_GROUPS

OLDER: Mapping[Kind, tuple[Kind, ...]] = {
    custom_kind(POD_GROUPS): OLDER_POD_GROUPS,
    DEVICE_TAINT_RULE: (DEVICE_TAINT_RULE_V1BETA2,),
}
"""kind -> the same kind in older versions, the newest one first"""
