"""Makes a history from the audit log of kube-apiserver, of any level.

At level RequestResponse, the log has every object as it was stored. At level Request, it has what clients sent, which
`audit_objects` completes. At level Metadata, it has names and times.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import timedelta
from itertools import accumulate
from pathlib import Path

from bayplan.answers.history.following import key_of
from bayplan.answers.history.format import HistoryError, HistoryManifest
from bayplan.answers.history.sources.audit_files import AuditEvent, audit_files, events_in
from bayplan.answers.history.sources.audit_log import AuditLog
from bayplan.answers.history.sources.audit_objects import Document, listed, stored
from bayplan.answers.history.sources.problems import Problems
from bayplan.answers.history.sources.versions import KEPT, version_of
from bayplan.answers.history.writing import write_history
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kinds import PRIORITY_CLASS, Kind

_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_READS = frozenset({"get", "list"})
_ONE_VERSION = _WRITES - {"deletecollection"}
"""What replies with the version that it has stored. Everything else shows versions that were stored before."""
CLOCK_JUMP = timedelta(seconds=60)
"""How far time may go back from line to line: several API servers write to one stream."""


def import_audit(
    paths: Iterable[Path], folder: Path, *, snapshot: Snapshot | None = None
) -> tuple[HistoryManifest, list[str]]:
    """Write the history of audit logs to a folder. Returns its manifest, and the faults of the log, one line each.

    `snapshot`: what is known of the cluster otherwise: nodes and other objects, and pods that are older than the log.
    Raises HistoryError, also if no event is about pods or nodes.
    """
    problems = Problems()
    files = list(audit_files(paths))
    seen: set[tuple[object, ...]] = set()
    events = [
        event for path in files for event in _in_order(_relevant(events_in(path, problems), seen), path, problems)
    ]
    if not events:
        lines = list(problems.lines())
        raise HistoryError("there is no audit event about pods or nodes" + (f": {lines[0]}" if lines else ""))
    events.sort(key=lambda event: event.time)
    events = _as_stored(events)
    log = AuditLog(events[0].time, problems, snapshot, _classes(events))
    changes = [change for event in events for change in log.changes(event)]
    changes += log.rest(events[-1].time)
    lines = list(problems.lines())
    if not changes:
        why = lines[0] if lines else "nothing in it is about pods or nodes"
        raise HistoryError(f"there is no history to write: {why}")
    manifest = write_history(
        folder,
        changes,
        source=f"audit log of {len(files)} {'file' if len(files) == 1 else 'files'}",
        begin=events[0].time,
        end=events[-1].time,
        notes=lines,
    )
    return manifest, lines


def _relevant(events: Iterable[AuditEvent], seen: set[tuple[object, ...]]) -> Iterator[AuditEvent]:
    """The successful writes of objects that are recorded, each once, and what reads of them show."""
    for event in events:
        if (event.group, event.resource) == ("", "bindings"):  # the older way to bind a pod
            event.resource, event.subresource = "pods", "binding"
        if (event.group, event.resource) not in KEPT or event.failed or event.is_dry_run:
            continue
        if event.verb not in _WRITES and not (event.verb in _READS and event.response is not None):
            continue
        if event.id:  # rotated files overlap, and clients may choose the ID
            same = (event.id, event.time, event.verb, event.resource, event.subresource, event.namespace, event.name)
            if same in seen:
                continue
            seen.add(same)
        yield event


def _in_order(events: Iterable[AuditEvent], path: Path, problems: Problems) -> list[AuditEvent]:
    """The events of a file. Where its clock was set back, time stands still; an export may begin with the newest."""
    found = list(events)
    if found and found[0].time > found[-1].time:
        return found
    last = None
    for event in found:
        if last is not None and last - event.time > CLOCK_JUMP:
            problems.add("the clock goes back: time counts as if it had stood still", f"{path} at {last:%F %T} UTC")
            event.time = last
        last = event.time if last is None else max(last, event.time)
    return found


def _as_stored(events: list[AuditEvent]) -> list[AuditEvent]:
    """The events with those of a name in the order of its versions, although a reply is logged when it was sent.

    A version that is logged after a newer one, after the delete that has replied with it, or after a list that shows
    it, was stored before that one was logged, at the latest. Versions that are far from each other stay where they
    are: they may be from before and after a restored backup.
    """
    versions: defaultdict[tuple[Kind, str], list[tuple[int, bool, int]]] = defaultdict(list)
    lists = {place for place, event in enumerate(events) if event.verb not in _ONE_VERSION}
    for place, event in enumerate(events):
        kind = KEPT[event.group, event.resource]
        shown = listed(kind, event.response) if place in lists else (stored(kind, event, None),)
        for obj in shown:
            version = version_of(obj) if obj is not None else None
            if obj is not None and version is not None:
                versions[kind, key_of(obj)].append((version, event.verb == "delete" or place in lists, place))
    order = [(event.time, place, 0) for place, event in enumerate(events)]
    for found in versions.values():
        ordered = [place for _, _, place in sorted(found)]
        latest = list(accumulate(reversed(ordered), min))[::-1]  # the places are in the order of time
        if all(events[old].time - events[new].time <= CLOCK_JUMP for old, new in zip(ordered, latest, strict=True)):
            for rank, (old, new) in enumerate(zip(ordered, latest, strict=True)):
                if old in lists:
                    order[old] = events[old].time, old, max(rank, order[old][2])
                else:
                    order[old] = events[new].time, new, rank
    for event, (time, _, _) in zip(events, order, strict=True):
        event.time = time
    return [events[place] for place in sorted(range(len(events)), key=order.__getitem__)]


def _classes(events: Iterable[AuditEvent]) -> dict[str, Document]:
    """The PriorityClasses that the log shows somewhere, by name: at level Request, pods only name theirs."""
    found: dict[str, Document] = {}
    for event in events:
        if KEPT[event.group, event.resource] is PRIORITY_CLASS:
            for obj in (*listed(PRIORITY_CLASS, event.response), *listed(PRIORITY_CLASS, event.request)):
                found.setdefault(obj["metadata"]["name"], obj)
    return found
