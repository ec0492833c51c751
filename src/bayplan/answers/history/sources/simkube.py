"""Makes a history from a trace of SimKube: workloads as they were applied and deleted, and how long their pods ran.

A trace has no pods of workloads, so that they are made as a controller would: as many as there were lifecycles, or
replicas. It is msgpack (`.sktrace`), or the same as JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bayplan.answers.history.following import key_of
from bayplan.answers.history.format import HistoryError, HistoryManifest
from bayplan.answers.history.sources.arrivals import Arrivals
from bayplan.answers.history.sources.problems import Problems
from bayplan.answers.history.sources.trace import MOST
from bayplan.answers.history.sources.versions import NO_PLACEMENTS, VersionedObjects, kept_kind
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kinds import (
    DEPLOYMENT,
    JOB,
    POD,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
    Kind,
)
from bayplan.core.api.objects import encode
from bayplan.foundations.bounded_files import UnusableFileError, is_dense, read_whole

VERSION = 2
"""The version of the format that is read, which SimKube writes since 1.2."""
_HEAD = 1 << 16
_LATEST = 4_000_000_000
_MSGPACK_MAP = range(0x80, 0x90)
_MARKS = (b"trackedObjects", b"applied_objs")
_TEMPLATES = {
    "v1.Pod": "",
    "v1.ReplicationController": "/spec/template",
    "batch/v1.CronJob": "/spec/jobTemplate/spec/template",
    **{f"apps/v1.{kind}": "/spec/template" for kind in ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")},
    "batch/v1.Job": "/spec/template",
}
"""Where the pod templates of an object are, unless the configuration in the trace says so."""
_SCALED = frozenset({DEPLOYMENT, REPLICA_SET, REPLICATION_CONTROLLER, STATEFUL_SET})
_BAD_OBJECT = "an object has no apiVersion, kind or name: left out"
_NO_PODS = "of an object, neither replicas nor lifecycles of pods are known: its pods are missing"
_TEMPLATE_MISSING = "an object has no pod template where the trace says: its pods are missing"
_SEVERAL = "an object has several pod templates: all its pods count as those of the first"
_STARTED = "pods with a lifecycle arrive when their containers started: how long they waited before is not in the trace"
_ENDLESS = "how long pods of Jobs run is not in the trace: they run until their Job is deleted"


class _Lifecycle(NamedTuple):
    """When the containers of a pod started and ended. `end`: None if they ran on."""

    start: int
    end: int | None


@dataclass(slots=True)
class _Workload:
    """An object with pods. `template`: a digest of its pod template. `pods`: those that run now, oldest first."""

    template: str
    pods: list[str] = field(default_factory=list)
    made: int = 0


def is_simkube(path: Path) -> bool:
    """Whether a file is a trace of SimKube."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return False
    binary = bool(head) and head[0] in _MSGPACK_MAP and b"version" in head
    return (binary or head.lstrip().startswith(b"{")) and any(mark in head for mark in _MARKS)


def import_simkube(path: Path, folder: Path, *, snapshot: Snapshot | None = None) -> tuple[HistoryManifest, list[str]]:
    """Write the history of a trace. Returns its manifest, and what can't be used, one line each.

    `snapshot`: nodes, and other objects that are not in the trace. Raises HistoryError.
    """
    problems = Problems()
    trace = _read(path)
    events = [event for event in trace["events"] if isinstance(event, dict) and _is_time(event.get("ts"))]
    if not events:
        raise HistoryError(f"{path}: there are no events in the trace")
    objects = VersionedObjects(_moment(events[0]["ts"]), problems, snapshot)
    pods = _Pods(trace, objects, Arrivals(snapshot or Snapshot(), objects.following))
    for event in events:
        time = _moment(event["ts"])
        for obj in _objects(event, "applied_objs", problems):
            pods.applied(obj, time, initial=event["ts"] == events[0]["ts"])
        for obj in _objects(event, "deleted_objs", problems):
            pods.deleted(obj, time)
    end = _moment(max([events[-1]["ts"], *pods.ends]))
    return objects.write(folder, f"SimKube trace {path.name}", [NO_PLACEMENTS, *sorted(pods.notes)], end)


def _read(path: Path) -> dict[str, Any]:
    try:
        data = read_whole(path)
        if is_dense(data):
            raise ValueError("it has a value for every few bytes")
        trace = (msgspec.json if data.lstrip().startswith(b"{") else msgspec.msgpack).decode(data)
    except OSError as error:
        raise HistoryError(f"{path}: {error.strerror or error}") from None
    except UnusableFileError as error:
        raise HistoryError(str(error)) from None
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        raise HistoryError(f"{path} is a truncated or damaged trace of SimKube: {error}") from None
    if not isinstance(trace, dict) or not isinstance(trace.get("events"), list):
        raise HistoryError(f"{path} is no trace of SimKube: it has no list of events")
    if trace.get("version") != VERSION:
        raise HistoryError(
            f"{path} has version {trace.get('version')} of SimKube's format, and this Bayplan reads {VERSION}"
        )
    return trace


def _objects(event: Mapping[str, Any], name: str, problems: Problems) -> Iterator[dict[str, Any]]:
    found = event.get(name)
    for obj in found if isinstance(found, list) else ():
        metadata = obj.get("metadata") if isinstance(obj, dict) else None
        if isinstance(metadata, dict) and metadata.get("name") and obj.get("apiVersion") and obj.get("kind"):
            yield obj
        else:
            problems.add(_BAD_OBJECT, f"ts {event['ts']}")


class _Pods:
    """Makes the pods of the objects of a trace. `ends`: when pods ended. `notes`: what the trace doesn't say."""

    def __init__(self, trace: Mapping[str, Any], objects: VersionedObjects, arrivals: Arrivals) -> None:
        self.ends: list[int] = []
        self.notes: set[str] = set()
        self._objects = objects
        self._problems = objects.problems
        self._arrivals = arrivals
        self._paths = _template_paths(trace.get("config"))
        self._lifecycles = dict(_lifecycles(trace.get("pod_lifecycles")))
        self._workloads: dict[tuple[str, str], _Workload] = {}

    def applied(self, obj: dict[str, Any], time: datetime, *, initial: bool) -> None:
        """An object was created or has changed."""
        kind, name = kept_kind(obj), f"{obj['apiVersion']}.{obj['kind']}"
        if kind is not None and kind is not POD:
            self._objects.put(kind, obj, time, key_of(obj), initial=initial)
        if name not in self._paths:
            return
        template = self._template(obj, name)
        if template is None:
            return
        identity = name, key_of(obj)
        digest = blake2b(encode(template), digest_size=5).hexdigest()
        workload = self._workloads.get(identity)
        refused = self._arrivals.pod(f"{identity} {digest}", template)
        if refused:
            self._problems.add(f"the API server would refuse a pod: {refused}: left out", " ".join(identity))
            return
        rolled_out = workload is not None and workload.template != digest
        if workload is None or rolled_out:
            if workload is not None:
                self._scale(identity, workload, obj, 0, time)
            workload = self._workloads[identity] = _Workload(digest, made=workload.made if workload else 0)
            if kind is DEPLOYMENT:
                self._replica_set(obj, template, digest, time, initial=initial)
        lifecycles = self._lifecycles.get(identity)
        if lifecycles:
            if not workload.made:
                self._live(identity, workload, obj, lifecycles, time)
        elif kind is POD:
            self._scale(identity, workload, obj, 1, time)
        else:
            replicas = _replicas(kind, obj.get("spec"))
            if replicas is None:
                self._problems.add(_NO_PODS, " ".join(identity))
                return
            if kind is JOB:
                self.notes.add(_ENDLESS)
            self._scale(identity, workload, obj, replicas, time)

    def deleted(self, obj: dict[str, Any], time: datetime) -> None:
        """An object was deleted, and its pods with it."""
        kind, identity = kept_kind(obj), (f"{obj['apiVersion']}.{obj['kind']}", key_of(obj))
        workload = self._workloads.pop(identity, None)
        if workload is not None:
            self._scale(identity, workload, obj, 0, time)
            if kind is DEPLOYMENT:
                self._objects.removed(REPLICA_SET, f"{identity[1]}-{workload.template}", time)
        if kind is not None and kind is not POD:
            self._objects.removed(kind, identity[1], time)

    def _live(
        self,
        identity: tuple[str, str],
        workload: _Workload,
        obj: dict[str, Any],
        lifecycles: list[_Lifecycle],
        time: datetime,
    ) -> None:
        """Let the pods arrive that had a lifecycle."""
        self.notes.add(_STARTED)
        for each in lifecycles:
            runs = None if each.end is None else float(max(each.end - each.start, 0))
            key = self._arrive(identity, workload, obj, max(_moment(each.start), time), runs)
            if each.end is None:
                workload.pods.append(key)
            else:
                self.ends.append(each.end)

    def _scale(
        self, identity: tuple[str, str], workload: _Workload, obj: dict[str, Any], replicas: int, time: datetime
    ) -> None:
        while len(workload.pods) > replicas:
            self._objects.removed(POD, workload.pods.pop(), time)
        while len(workload.pods) < replicas:
            workload.pods.append(self._arrive(identity, workload, obj, time, None))

    def _arrive(
        self, identity: tuple[str, str], workload: _Workload, obj: dict[str, Any], time: datetime, runs: float | None
    ) -> str:
        namespace, _, name = identity[1].rpartition("/")
        owner = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": name}
        if identity[0] == "apps/v1.Deployment":
            name = f"{name}-{workload.template}"
            owner |= {"kind": "ReplicaSet", "name": name}
        bare = identity[0] == "v1.Pod"
        own = name if bare else f"{name}-{workload.made}"
        workload.made += 1
        key = f"{identity} {workload.template}"
        self._objects.changes += self._arrivals.arrive(key, namespace, own, time, runs, None if bare else owner)
        return f"{namespace}/{own}"

    def _replica_set(
        self, obj: dict[str, Any], template: dict[str, Any], digest: str, time: datetime, *, initial: bool
    ) -> None:
        """The ReplicaSet that the controller makes: pods are spread by its selector."""
        spec, metadata = obj.get("spec") or {}, obj["metadata"]
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": metadata["name"], "controller": True}
        made = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": f"{metadata['name']}-{digest}",
                "namespace": metadata.get("namespace"),
                "labels": template["metadata"].get("labels") or {},
                "ownerReferences": [owner],
            },
            "spec": {"replicas": spec.get("replicas", 1), "selector": spec.get("selector"), "template": template},
        }
        self._objects.put(REPLICA_SET, made, time, key_of(obj), initial=initial)

    def _template(self, obj: dict[str, Any], name: str) -> dict[str, Any] | None:
        """The pod template of an object, with its namespace; None if it isn't there."""
        found = [each for path in self._paths[name] for each in _at(obj, path.split("/")[1:]) if isinstance(each, dict)]
        if not found or not isinstance(found[0].get("spec"), dict):
            self._problems.add(_TEMPLATE_MISSING, f"{name} {key_of(obj)}")
            return None
        if len(found) > 1:
            self._problems.add(_SEVERAL, f"{name} {key_of(obj)}")
        metadata = found[0].get("metadata") if isinstance(found[0].get("metadata"), dict) else {}
        kept = {field: metadata[field] for field in ("labels", "annotations") if metadata and metadata.get(field)}
        spec = {field: value for field, value in found[0]["spec"].items() if field != "nodeName"}
        return {"metadata": {**kept, "namespace": obj["metadata"].get("namespace")}, "spec": spec}


def _template_paths(config: Any) -> dict[str, list[str]]:
    """Where the templates of each kind of object are, by `group/version.kind`."""
    tracked = config.get("trackedObjects") if isinstance(config, dict) else None
    paths = {name: [path] for name, path in _TEMPLATES.items()}
    for name, each in tracked.items() if isinstance(tracked, dict) else ():
        given = each.get("podSpecTemplatePaths") if isinstance(each, dict) else None
        if isinstance(given, list) and given:
            paths[str(name).removeprefix("/")] = [str(path) for path in given]
    return paths


def _lifecycles(found: Any) -> Iterator[tuple[tuple[str, str], list[_Lifecycle]]]:
    """The lifecycles of pods by the object that owns them: its `group/version.kind` and `namespace/name`."""
    for owner, by_hash in found.items() if isinstance(found, dict) else ():
        if not isinstance(owner, tuple | list) or len(owner) != 2 or not isinstance(by_hash, dict):
            continue
        lists = [each for each in by_hash.values() if isinstance(each, list)]
        lives = [life for each in lists for life in map(_lifecycle, each) if life is not None]
        yield (str(owner[0]).removeprefix("/"), str(owner[1])), sorted(lives, key=lambda life: life.start)


def _lifecycle(value: Any) -> _Lifecycle | None:
    """`{"Finished": [start, end]}` or `{"Running": start}`; None for a pod that never started."""
    match value:
        case {"Finished": [start, end]} if _is_time(start) and _is_time(end):
            return _Lifecycle(start, end)
        case {"Running": start} if _is_time(start):
            return _Lifecycle(start, None)
    return None


def _at(value: Any, path: list[str]) -> Iterator[Any]:
    """What is at a JSON pointer, in which `*` stands for all items of a list."""
    if not path:
        yield value
    elif path[0] == "*" and isinstance(value, list):
        for item in value:
            yield from _at(item, path[1:])
    elif isinstance(value, dict) and path[0] in value:
        yield from _at(value[path[0]], path[1:])


def _replicas(kind: Kind | None, spec: Any) -> int | None:
    """How many pods an object wants; None if that isn't known."""
    spec = spec if isinstance(spec, dict) else {}
    if kind is JOB and spec.get("suspend"):
        return 0
    fields = ("parallelism", "completions") if kind is JOB else ("replicas",) if kind in _SCALED else ()
    wanted = [1 if spec.get(field) is None else spec[field] for field in fields]
    known = all(isinstance(each, int) and 0 <= each <= MOST for each in wanted)
    return min(wanted) if wanted and known else None


def _is_time(value: Any) -> bool:
    """Whether a value is seconds since 1970 that a date can have."""
    return isinstance(value, int) and 0 <= value < _LATEST


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
