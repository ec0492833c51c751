"""The form in which decisions with the device allocator of 1.37 were recorded, as the form of other recordings.

No complete kube-scheduler 1.37 could be built, so that one of 1.36.2 decided with the allocator and the CEL of a day
before the release. A line is `{"scenario": ..., "decided": {"steps": [...]}}`. It doesn't say which of the changes of
1.37 were in it: that depends on the family.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

VERSION = "1.37"
_MADE_LATER = (
    "AllDevicesWithCapacity",
    "DeviceFieldsOfDisabledGates",
    "LimitsOfCapacityRequests",
    "ShareWithoutConsumedCapacity",
)
"""Changes that came after the day whose allocator was recorded."""
_WITHOUT: Mapping[str, tuple[str, ...]] = {
    "mixed": ("CountersOfRejectedCandidates", "CountersOfPoolsWithTheSameName", "DistinctDevicesOfARequest"),
    "counters": ("CountersOfPoolsWithTheSameName", "DistinctDevicesOfARequest"),
}
"""More changes that a family lacks. Other families have them: they were put into the allocator."""
_GATES = {"DRAFractionalCapacityRange": False}
"""Gates that are on in 1.37, and that the allocator didn't have yet."""


class _Form(msgspec.Struct):
    decided: msgspec.Raw = msgspec.Raw()


class _Decided(msgspec.Struct):
    steps: list[dict[str, Any]]


class _Line(msgspec.Struct):
    scenario: dict[str, Any]
    decided: _Decided


def in_own_form(line: bytes, family: str) -> bytes:
    """Return a line of any recording in the form of recordings with 1.36. Raises msgspec.MsgspecError."""
    if not bytes(msgspec.json.decode(line, type=_Form).decided):
        return line
    recorded = msgspec.json.decode(line, type=_Line)
    scenario = {
        **recorded.scenario,
        "version": VERSION,
        "gates": {**_GATES, **(recorded.scenario.get("gates") or {})},
        "without": [*_MADE_LATER, *_WITHOUT.get(family, ())],
    }
    return msgspec.json.encode({"scenario": scenario, "decisions": [_step(step) for step in recorded.decided.steps]})


def _step(step: Mapping[str, Any]) -> dict[str, Any]:
    """A step whose message lacks what PostFilter adds, and which says that it allocated nothing if so."""
    added = step.get("postFilterMessage") or ""
    message = (step.get("message") or "").removesuffix(added).rstrip()
    nothing: dict[str, Any] = {"allocations": {}} if step["outcome"] == "scheduled" else {}
    return {**nothing, **step, "message": message}
