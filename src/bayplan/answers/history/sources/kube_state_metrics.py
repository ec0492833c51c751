"""Makes a history from the metrics of kube-state-metrics in Prometheus.

They have what pods request, their owners, nodes and times; and what nodes have. They lack affinity, spreading,
tolerations and volumes, which come from the pods' owners in a snapshot, as far as it has them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from bayplan.answers.history.following import Following, HistoryChange, key_of
from bayplan.answers.history.format import HistoryError, HistoryManifest, MissingEvents
from bayplan.answers.history.recording import KINDS
from bayplan.answers.history.sources.metric_names import label_keys, resource_names, safe
from bayplan.answers.history.sources.problems import Problems
from bayplan.answers.history.sources.prometheus import STEP, Prometheus, Series
from bayplan.answers.history.writing import write_history
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api import quantity
from bayplan.core.api.kinds import (
    DAEMON_SET,
    JOB,
    NODE,
    POD,
    PRIORITY_CLASS,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
    Kind,
)

SCRAPES = timedelta(minutes=5)
"""How long samples may be missing before that is a gap, and how long a pod isn't seen before it counts as gone."""

_WINDOW = f"[{STEP.total_seconds():.0f}s]"
_SEEN = f"[{STEP.total_seconds():.0f}s:60s]"
_PHASE = 'kube_pod_status_phase{phase=~"Succeeded|Failed"}'
QUERIES = {
    "pods": f"last_over_time(kube_pod_info{_WINDOW})",
    "pods_seen": f"max_over_time(timestamp(kube_pod_info){_SEEN})",
    "created": f"last_over_time(kube_pod_created{_WINDOW})",
    "scheduled": f"last_over_time(kube_pod_status_scheduled_time{_WINDOW})",
    "completed": f"last_over_time(kube_pod_completion_time{_WINDOW})",
    "deleted": f"last_over_time(kube_pod_deletion_timestamp{_WINDOW})",
    "phase": f"max_over_time({_PHASE}{_WINDOW}) == 1",
    "reason": f"max_over_time(kube_pod_status_reason{_WINDOW}) == 1",
    "requests": f"last_over_time(kube_pod_container_resource_requests{_WINDOW})",
    "init_requests": f"last_over_time(kube_pod_init_container_resource_requests{_WINDOW})",
    "labels": f"last_over_time(kube_pod_labels{_WINDOW})",
    "nodes": f"max_over_time(timestamp(kube_node_info){_SEEN})",
    "nodes_created": f"last_over_time(kube_node_created{_WINDOW})",
    "allocatable": f"last_over_time(kube_node_status_allocatable{_WINDOW})",
    "node_labels": f"last_over_time(kube_node_labels{_WINDOW})",
    "taints": f"last_over_time(kube_node_spec_taint{_WINDOW})",
}
"""name -> query, which is asked for each hour"""
PRESENCE = "count(kube_node_info)"
"""The query that shows where samples are missing."""

_UNITS = {"core": 1.0, "byte": 1.0, "integer": 1.0}
_OWNERS: Mapping[str, Kind] = {
    kind.kind: kind for kind in (REPLICA_SET, STATEFUL_SET, DAEMON_SET, JOB, REPLICATION_CONTROLLER)
}
_SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


@dataclass(slots=True)
class _Pod:
    """What the metrics say of a pod."""

    labels: dict[str, str] = field(default_factory=dict)
    """Those of kube_pod_info."""
    node: str = ""
    created: float | None = None
    scheduled: float | None = None
    completed: float | None = None
    deleted: float | None = None
    seen: float = 0.0
    reason: str = ""
    requests: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    init_requests: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    own_labels: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Node:
    """What the metrics say of a node."""

    created: float | None = None
    first: float = float("inf")
    seen: float = 0.0
    allocatable: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    taints: list[dict[str, str]] = field(default_factory=list)


def import_prometheus(
    url: str,
    folder: Path,
    begin: datetime,
    end: datetime,
    *,
    headers: Mapping[str, str] | None = None,
    snapshot: Snapshot | None = None,
) -> tuple[HistoryManifest, list[str]]:
    """Write the history of a time to a folder. Returns its manifest, and the faults of the metrics, one line each.

    `snapshot`: what metrics lack: the owners of pods with their templates, and all other objects. Raises HistoryError.
    """
    problems = Problems()
    server = Prometheus(url, headers or {}, problems)
    presence = server.ranges([PRESENCE], begin, end, SCRAPES)[PRESENCE]
    times = sorted(time for series in presence for time, _ in series.values)
    if not times:
        raise HistoryError(
            f"{url} has no kube_node_info from {begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC: "
            "kube-state-metrics isn't scraped, or its metrics are kept for a shorter time"
        )
    found = server.ranges(QUERIES.values(), begin, end)
    metrics = _Metrics({name: found[query] for name, query in QUERIES.items()}, snapshot or Snapshot(), problems)
    first = max(begin, _moment(times[0]) - SCRAPES)
    changes = list(metrics.changes(first, end))
    manifest = write_history(
        folder,
        changes,
        source=f"Prometheus {url}",
        begin=first,
        end=end,
        gaps=list(_gaps(times, first, end)),
        notes=[*metrics.notes(begin, first), *problems.lines()],
    )
    return manifest, list(problems.lines())


def _gaps(times: list[float], begin: datetime, end: datetime) -> Iterator[MissingEvents]:
    """The times without samples."""
    moments = [begin, *map(_moment, times), end]
    for before, after in pairwise(moments):
        if after - before > 2 * SCRAPES:
            yield MissingEvents(before, after, "Prometheus has no samples of kube-state-metrics")


class _Metrics:
    """The pods and nodes that the metrics show."""

    def __init__(self, found: Mapping[str, list[Series]], snapshot: Snapshot, problems: Problems) -> None:
        self._problems = problems
        self._snapshot = snapshot
        self._resources = resource_names(snapshot)
        self._label_keys = label_keys(snapshot)
        self._pods: dict[str, _Pod] = defaultdict(_Pod)
        self._nodes: dict[str, _Node] = defaultdict(_Node)
        self._without_owner = self._guessed_labels = 0
        self._read_pods(found)
        self._read_nodes(found)

    def _read_pods(self, found: Mapping[str, list[Series]]) -> None:
        for labels, _ in _of_pods(found["pods"]):
            pod = self._pods[labels["uid"]]
            pod.labels = labels if labels.get("node") or not pod.labels else pod.labels
            pod.node = labels.get("node") or pod.node
        for labels, value in _of_pods(found["pods_seen"]):
            pod = self._pods[labels["uid"]]
            pod.seen = max(pod.seen, value)
        for name in ("created", "scheduled", "completed", "deleted"):
            for labels, value in _of_pods(found[name]):
                setattr(self._pods[labels["uid"]], name, value)
        for labels, _ in _of_pods(found["phase"]):
            self._pods[labels["uid"]].reason = labels.get("phase", "")
        for labels, _ in _of_pods(found["reason"]):
            self._pods[labels["uid"]].reason = labels.get("reason", "")
        for name in ("requests", "init_requests"):
            for labels, value in _of_pods(found[name]):
                resource, amount = self._amount(labels, value)
                if resource:
                    getattr(self._pods[labels["uid"]], name)[labels.get("container", "")][resource] = amount
        for labels, _ in _of_pods(found["labels"]):
            self._pods[labels["uid"]].own_labels = self._labels(labels)

    def _read_nodes(self, found: Mapping[str, list[Series]]) -> None:
        for series in found["nodes"]:
            node = self._nodes[series.labels.get("node", "")]
            for time, value in series.values:
                node.first, node.seen = min(node.first, time - STEP.total_seconds()), max(node.seen, value)
        for labels, value in _of_nodes(found["nodes_created"]):
            self._nodes[labels["node"]].created = value
        for labels, value in _of_nodes(found["allocatable"]):
            resource, amount = self._amount(labels, value)
            if resource:
                self._nodes[labels["node"]].allocatable[resource] = amount
        for labels, _ in _of_nodes(found["node_labels"]):
            self._nodes[labels["node"]].labels = self._labels(labels)
        for labels, _ in _of_nodes(found["taints"]):
            taint = {each: labels[each] for each in ("key", "value", "effect") if labels.get(each)}
            if taint not in self._nodes[labels["node"]].taints:
                self._nodes[labels["node"]].taints.append(taint)

    def _amount(self, labels: Mapping[str, str], value: float) -> tuple[str, str]:
        """A resource and an amount of it; "" for one whose unit is unknown."""
        resource, unit = labels.get("resource", ""), labels.get("unit", "")
        if unit not in _UNITS:
            self._problems.add(f"the unit {unit!r} of {resource or 'a resource'} is unknown: left out", _name(labels))
            return "", ""
        name = self._resources.get(safe(resource), resource)
        return name, quantity.format_quantity(round(value * quantity.NANO), binary=False)

    def _labels(self, labels: Mapping[str, str]) -> dict[str, str]:
        found = {}
        for name, value in labels.items():
            if name.startswith("label_"):
                safe = name.removeprefix("label_")
                if "_" in safe and safe not in self._label_keys:
                    self._guessed_labels += 1
                found[self._label_keys.get(safe, safe)] = value
        return found

    def changes(self, begin: datetime, end: datetime) -> Iterator[HistoryChange]:
        """What happened: first what was there at the start."""
        following = Following()
        for kind in KINDS:
            if kind not in {POD, NODE}:
                for key in self._snapshot.of_kind(kind):
                    document = self._snapshot.document(kind, key)
                    assert document is not None
                    yield from following.put(kind, document, begin, initial=True)
        for name in sorted(self._nodes):
            if name and self._nodes[name].seen:
                yield from self._node(following, name, self._nodes[name], begin, end)
        by_key: dict[str, list[tuple[str, _Pod]]] = defaultdict(list)
        for uid, pod in self._pods.items():
            if not pod.labels:
                self._problems.add("a pod has no kube_pod_info: left out", uid)
            elif pod.created is None:
                self._problems.add(
                    "a pod has no kube_pod_created, so its arrival is unknown: left out", _name(pod.labels)
                )
            else:
                by_key[_name(pod.labels)].append((uid, pod))
        for key in sorted(by_key):
            pods = sorted(by_key[key], key=lambda pair: (pair[1].created or 0.0, pair[0]))
            for (uid, pod), later in zip(pods, [*(pod for _, pod in pods[1:]), None], strict=True):
                yield from self._pod(following, uid, pod, begin, end, later)

    def _node(
        self, following: Following, name: str, node: _Node, begin: datetime, end: datetime
    ) -> Iterator[HistoryChange]:
        known = self._snapshot.document(NODE, name)
        document = {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **node.labels}},
            "spec": {"taints": node.taints} if node.taints else {},
            "status": {"allocatable": node.allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
        }
        if known is not None:
            labels = {**(known["metadata"].get("labels") or {}), **node.labels}
            document = {**known, "metadata": {**known["metadata"], "labels": labels}}
        elif not node.allocatable:
            self._problems.add("a node has no kube_node_status_allocatable: left out", name)
            return
        came = _moment(node.created if node.created is not None else node.first)
        yield from following.put(NODE, document, max(came, begin), initial=came <= begin)
        if _moment(node.seen) < end - SCRAPES:
            yield from following.removed(NODE, name, _moment(node.seen))

    def _pod(
        self, following: Following, uid: str, pod: _Pod, begin: datetime, end: datetime, later: _Pod | None
    ) -> Iterator[HistoryChange]:
        assert pod.created is not None
        created, over = _moment(pod.created), self._end(pod, end)
        if later is not None and later.created is not None:
            over = min(over or end, _moment(later.created))
        if created >= end or (over is not None and over <= begin):
            return
        initial = created <= begin
        document = self._document(uid, pod)
        arrival = max(created, begin)
        yield from following.put(POD, document, arrival, initial=initial)
        if pod.node:
            bound = _moment(pod.scheduled if pod.scheduled is not None else pod.created)
            on_node = {**document, "spec": {**document["spec"], "nodeName": pod.node}}
            yield from following.put(POD, on_node, max(bound, arrival), initial=initial and bound <= begin)
        if over is not None:
            yield from following.removed(POD, key_of(document), max(over, arrival), pod.reason or "Deleted")

    def _end(self, pod: _Pod, end: datetime) -> datetime | None:
        """When a pod ended: it completed, was deleted, or was not seen any longer."""
        if pod.completed is not None:
            return _moment(pod.completed)
        if pod.seen and _moment(pod.seen) >= end - SCRAPES:
            return None
        if pod.deleted is not None:
            return _moment(min(pod.deleted, pod.seen or pod.deleted))
        return _moment(pod.seen) if pod.seen else None

    def _document(self, uid: str, pod: _Pod) -> dict[str, Any]:
        info = pod.labels
        template = self._template(info)
        if template is None:
            self._without_owner += 1
        spec: dict[str, Any] = dict((template or {}).get("spec") or {})
        for field_name, requests in (("initContainers", pod.init_requests), ("containers", pod.requests)):
            known = {each.get("name"): each for each in spec.get(field_name) or ()}
            known |= {
                name: {**known.get(name, {"name": name, "image": "unknown"}), "resources": {"requests": dict(amounts)}}
                for name, amounts in requests.items()
            }
            if known:
                spec[field_name] = list(known.values())
        spec.setdefault("containers", [{"name": "main", "image": "unknown"}])
        spec.setdefault("schedulerName", "default-scheduler")
        if info.get("priority_class"):
            spec["priorityClassName"] = info["priority_class"]
            spec["priority"] = self._priority(info["priority_class"])
        if info.get("host_network") == "true":
            spec["hostNetwork"] = True
        labels = {**(((template or {}).get("metadata") or {}).get("labels") or {}), **pod.own_labels}
        metadata: dict[str, Any] = {
            "name": info["pod"],
            "namespace": info["namespace"],
            "uid": uid,
            "labels": labels,
            "creationTimestamp": _moment(pod.created or 0.0).isoformat(),
        }
        kind = info.get("created_by_kind", "")
        if kind not in {"", "<none>"}:
            owner = {"kind": kind, "name": info.get("created_by_name", ""), "controller": True}
            owner |= {"apiVersion": _OWNERS[kind].api_version if kind in _OWNERS else "v1", "uid": owner["name"]}
            metadata["ownerReferences"] = [owner]
        started = {"startTime": _moment(pod.scheduled).isoformat()} if pod.scheduled is not None else {}
        return {"metadata": metadata, "spec": spec, "status": started}

    def _template(self, info: Mapping[str, str]) -> dict[str, Any] | None:
        """The pod template of the owner, or the pod itself, in the snapshot."""
        itself = self._snapshot.document(POD, _name(info))
        if itself is not None:
            return {**itself, "spec": {each: value for each, value in itself["spec"].items() if each != "nodeName"}}
        kind = _OWNERS.get(info.get("created_by_kind", ""))
        owner = kind and self._snapshot.document(kind, f"{info['namespace']}/{info.get('created_by_name')}")
        template = ((owner or {}).get("spec") or {}).get("template")
        return template if isinstance(template, dict) else None

    def _priority(self, name: str) -> int:
        document = self._snapshot.document(PRIORITY_CLASS, name)
        value = document.get("value") if document is not None else _SYSTEM.get(name)
        if not isinstance(value, int):
            self._problems.add("a priority class isn't in the snapshot: its pods have priority 0", name)
            return 0
        return value

    def notes(self, asked: datetime, begin: datetime) -> Iterator[str]:
        """What the metrics don't say."""
        if begin > asked + 2 * SCRAPES:
            yield f"Prometheus has metrics since {begin:%Y-%m-%d %H:%M} UTC only, not since {asked:%Y-%m-%d %H:%M} UTC"
        if self._without_owner:
            share = self._without_owner / len(self._pods)
            yield (
                f"{share:.0%} of the pods have no owner in a snapshot: their affinity, spreading, tolerations, volumes "
                "and claims are unknown and left out"
            )
        if self._guessed_labels:
            yield (
                f"the keys of {self._guessed_labels:,} labels are known only as Prometheus writes them, with _ for "
                "other characters"
            )


def _of_pods(found: Iterable[Series]) -> Iterator[tuple[dict[str, str], float]]:
    """The labels and the last value of each series of a pod."""
    for series in found:
        if series.values and all(series.labels.get(each) for each in ("uid", "pod", "namespace")):
            yield dict(series.labels), series.values[-1][1]


def _of_nodes(found: Iterable[Series]) -> Iterator[tuple[dict[str, str], float]]:
    for series in found:
        if series.values and series.labels.get("node"):
            yield dict(series.labels), series.values[-1][1]


def _name(labels: Mapping[str, str]) -> str:
    return f"{labels.get('namespace')}/{labels.get('pod')}" if labels.get("pod") else labels.get("node", "")


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
