"""The events about an object: those of a snapshot, or of the API server, which is asked when a page shows them.

Only the few events that questions read are watched: a large cluster has thousands a minute.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import msgspec

from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kinds import CORE_EVENT, EVENT, Kind
from bayplan.running.client.client import Client
from bayplan.running.client.errors import ApiError, ConfigError, TransportError

MOST_EVENTS = 500
"""The most events to read about an object."""
ONLY_SOME = "A snapshot has only the events about pods that could not be created or were preempted."


@dataclass(frozen=True, slots=True)
class ShownEvent:
    """An event. `when` and `first`: its latest and its first time, as text; "" if unknown. `count`: how often."""

    when: str
    first: str
    type: str
    reason: str
    count: int
    origin: str
    message: str


@dataclass(frozen=True, slots=True)
class Events:
    """The events about an object, the latest first. `note`: which ones are missing, and why; "" if none are."""

    found: tuple[ShownEvent, ...] = ()
    note: str = ""


def snapshot_events(snapshot: Snapshot, kind: Kind, key: str) -> Events:
    """Return the events about an object that a snapshot has."""
    namespace, _, name = key.rpartition("/")
    found = []
    for event_kind, field in ((CORE_EVENT, "involvedObject"), (EVENT, "regarding")):
        for each, raw in snapshot.of_kind(event_kind).items():
            if name.encode() not in raw:
                continue
            document = snapshot.document(event_kind, each) or {}
            about = mapping(document.get(field))
            if (about.get("kind"), about.get("name"), about.get("namespace") or "") == (kind.kind, name, namespace):
                found.append(document)
    return Events(_in_order(found), ONLY_SOME)


async def server_events(client: Client, kind: Kind, key: str, uid: str) -> Events:
    """Ask an API server for the events about an object, with one list. What fails is the note.

    `uid`: that of the object. Events about a former object of the same name in a namespace are left out; those about
    nodes have other uids.
    """
    namespace, _, name = key.rpartition("/")
    fields = {"kind": kind.kind, "name": name, "namespace": namespace}
    selector = ",".join(f"involvedObject.{field}={value}" for field, value in fields.items() if value)
    found: list[Mapping[str, Any]] = []
    try:
        pages = client.pages(CORE_EVENT, namespace or None, field_selector=selector, decode=msgspec.json.decode)
        async with aclosing(pages):
            async for page in pages:
                found += page.items
                if len(found) >= MOST_EVENTS:
                    break
    except ApiError as error:
        denied = error.status == HTTPStatus.FORBIDDEN
        return Events(note="There is no right to list events." if denied else f"The events can't be read: {error}.")
    except (TransportError, ConfigError) as error:
        return Events(note=f"The events can't be read: {error}.")
    if namespace and uid:
        found = [each for each in found if mapping(each.get("involvedObject")).get("uid", uid) in {uid, ""}]
    more = f"There are more than {MOST_EVENTS} events." if len(found) > MOST_EVENTS else ""
    return Events(_in_order(found)[:MOST_EVENTS], more)


def _in_order(documents: Iterable[Mapping[str, Any]]) -> tuple[ShownEvent, ...]:
    return tuple(sorted(map(_shown, documents), key=lambda event: event.when, reverse=True))


def _shown(document: Mapping[str, Any]) -> ShownEvent:
    """An event of v1 or events.k8s.io/v1."""
    series, source = mapping(document.get("series")), mapping(document.get("source"))

    def first(*values: Any) -> str:
        return next((str(value) for value in values if value), "")

    begin = first(document.get("firstTimestamp"), document.get("eventTime"), document.get("deprecatedFirstTimestamp"))
    last = first(
        series.get("lastObservedTime"), document.get("lastTimestamp"), document.get("deprecatedLastTimestamp"), begin
    )
    count = series.get("count") or document.get("count") or document.get("deprecatedCount")
    return ShownEvent(
        last,
        begin,
        first(document.get("type")),
        first(document.get("reason")),
        count if isinstance(count, int) else 1,
        first(source.get("component"), document.get("reportingComponent"), document.get("reportingController")),
        first(document.get("message"), document.get("note")).strip(),
    )


def mapping(value: Any) -> Mapping[str, Any]:
    """The value, if it is an object, as in Kubernetes' API: those of files may be odd."""
    return value if isinstance(value, Mapping) else {}
