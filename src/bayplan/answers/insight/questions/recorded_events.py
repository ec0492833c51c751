"""The events of a snapshot about an object: pods that could not be created, and pods that were preempted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kinds import CORE_EVENT, EVENT, POD, Kind

PREEMPTED = "Preempted"
_FIELDS = (
    (CORE_EVENT, "involvedObject", "message", ("lastTimestamp", "eventTime", "firstTimestamp")),
    (EVENT, "regarding", "note", ("deprecatedLastTimestamp", "eventTime", "deprecatedFirstTimestamp")),
)


@dataclass(frozen=True, order=True, slots=True)
class RecordedEvent:
    """An event. `when`: its latest time, as text; "" if unknown. `related`: the other object, if it names one."""

    when: str
    text: str
    related: tuple[str, str] = ("", "")


def events_about(snapshot: Snapshot, kind: Kind, key: str, reason: str) -> list[RecordedEvent]:
    """Return the events with a reason about an object (`namespace/name`), the latest last."""
    found = []
    for event_kind, about, text, latest in _FIELDS:
        for name in snapshot.of_kind(event_kind):
            event = snapshot.document(event_kind, name) or {}
            regarding = event.get(about) or {}
            if (event.get("reason"), regarding.get("kind"), _key(regarding)) == (reason, kind.kind, key):
                related = event.get("related") or {}
                when = next((event[each] for each in latest if event.get(each)), "")
                found.append(RecordedEvent(when, event.get(text) or "", (related.get("kind", ""), _key(related))))
    return sorted(found)


def preempted_by(snapshot: Snapshot, world: World, key: str) -> str:
    """Return how a pod that is gone was preempted; "" if no event tells."""
    events = events_about(snapshot, POD, key, PREEMPTED)
    if not events:
        return ""
    last = events[-1]
    uid = last.text.removeprefix("Preempted by pod ").partition(" ")[0]
    pods = world.state.objects[POD]
    preemptor = next((pod for pod in pods.values() if pod.uid == uid), None) or (
        pods.get(last.related[1]) if last.related[0] == POD.kind else None
    )
    who = f": that is pod {preemptor.key} with priority {preemptor.priority}" if preemptor is not None else ""
    if not who and last.related[1]:
        who = f": that is {last.related[0].lower()} {last.related[1]}"
    return f"{last.text}{who}{f', at {last.when}' if last.when else ''}"


def _key(reference: Mapping[str, Any]) -> str:
    return f"{reference.get('namespace')}/{reference.get('name')}" if reference else ""
