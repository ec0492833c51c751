"""Whatever happens to pods, the audit log of it and the watch events of it are the same history."""

import asyncio
import json
import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.history.audit_logs import lines
from tests.history.auditing import AuditingTransport
from tests.history.small_histories import BEGIN

from bayplan.answers.history.following import Following, HistoryChange
from bayplan.answers.history.format import Row
from bayplan.answers.history.reading import History
from bayplan.answers.history.sources.audit import import_audit
from bayplan.core.api.kinds import NODE, POD, PRIORITY_CLASS, Kind
from bayplan.foundations.clock import ManualClock
from bayplan.running.client.transport import ApiRequest, Response
from bayplan_devcluster.apiserver import ApiServer

FOLLOWED = (NODE, POD, PRIORITY_CLASS)
PODS = "/api/v1/namespaces/default/pods"
STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}
ON_NODES = 3600
"""A grace period that no test waits for: a pod that hangs is a pod whose last deletion isn't in the log."""


class Cluster:
    """An embedded API server, the audit log of all writes, and what a watch would have reported after each."""

    def __init__(self, level_of: Any) -> None:
        self.clock = ManualClock(BEGIN)
        self.server = ApiServer(address=None, clock=self.clock)
        self.audit = AuditingTransport(self.server, level_of, self.clock)
        self.changes: list[HistoryChange] = []
        self._following = Following()
        self._seen: dict[Kind, dict[str, Any]] = {kind: {} for kind in FOLLOWED}
        self._pause = 1.0

    async def send(self, method: str, path: str, body: Any = None, user: str = "admin", **params: str) -> Response:
        """One request, a moment after the one before, and what changes with it."""
        self.clock.advance(self._pause)
        self.audit.user = user
        headers = STRATEGIC if method == "PATCH" else {}
        data = json.dumps(body).encode() if body is not None else None
        response = await self.audit.send(ApiRequest(method, path, params, headers, data))
        now = self.clock.now()
        reason = "EvictionByEvictionAPI" if path.endswith("/eviction") else "Deleted"  # a condition says so before
        for kind, before in self._seen.items():
            found = {key: entry.load() for key, entry in self.server.store.collection(kind.resource).objects.items()}
            for key in before.keys() - found.keys():
                self.changes += self._following.removed(kind, key, now, reason)
            for key, obj in found.items():
                if obj != before.get(key):
                    self.changes += self._following.put(kind, obj, now)
            self._seen[kind] = found
        return response

    async def begin(self) -> None:
        await self.send("POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
        urgent = {"metadata": {"name": "urgent"}, "value": 1000}
        await self.send("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", urgent)
        for name in ("a", "b"):
            await self.send("POST", "/api/v1/nodes", {"metadata": {"name": name}})

    def pod(self, name: str) -> dict[str, Any]:
        """What is stored of a pod; {} if there is none."""
        return self._seen[POD].get(f"default/{name}", {})

    def node(self, name: str) -> dict[str, Any]:
        """What is stored of a node."""
        return self._seen[NODE][name]


def created(name: str, **spec: Any) -> dict[str, Any]:
    requests = {"cpu": "100m", "memory": "1Mi"}
    containers = [{"name": "main", "image": "app", "resources": {"limits": requests}}]
    return {
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": containers, "terminationGracePeriodSeconds": ON_NODES, **spec},
    }


async def step(cluster: Cluster, action: str, name: str, variant: int) -> None:
    """Something that a user, a controller, the scheduler or a kubelet does to a pod, whether it can be done or not."""
    pod = cluster.pod(name)
    node = pod.get("spec", {}).get("nodeName", "a")
    kubelet = f"system:node:{node}"
    path = f"{PODS}/{name}"
    match action:
        case "create":
            body = created(name, **({"priorityClassName": "urgent"} if variant % 2 else {}))
            if variant in {1, 2}:
                body["metadata"]["finalizers"] = ["batch.kubernetes.io/job-tracking", "example.com/other"][:variant]
            await cluster.send("POST", PODS, body)
        case "dry run":
            wanted = created(name) if variant % 2 else None
            await cluster.send("POST" if wanted else "DELETE", PODS if wanted else path, wanted, dryRun="All")
        case "bind":
            binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "ab"[variant % 2]}}
            if pod.get("status", {}).get("phase") not in {
                "Failed",
                "Succeeded",
            }:  # no scheduler binds one that has ended
                await cluster.send("POST", f"{path}/binding", binding)
        case "status":
            phase = ("Running", "Running", "Failed", "Succeeded")[variant % 4]
            if node and pod.get("status", {}).get("phase") not in {"Failed", "Succeeded"}:
                await cluster.send("PATCH", f"{path}/status", {"status": {"phase": phase}}, kubelet)
        case "condition":
            conditions = [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]
            await cluster.send("PATCH", f"{path}/status", {"status": {"conditions": conditions}})
        case "label":
            await cluster.send("PATCH", path, {"metadata": {"labels": {"extra": str(variant)}}})
        case "delete":
            options = ({}, {"gracePeriodSeconds": ON_NODES - 5}, {"gracePeriodSeconds": 0}, {})[variant % 4]
            await cluster.send("DELETE", path, options or None)
        case "last delete":
            if pod.get("metadata", {}).get("deletionTimestamp") or pod.get("spec", {}).get("nodeName"):
                await cluster.send("DELETE", path, {"gracePeriodSeconds": 0}, kubelet)
        case "evict":
            options = {"dryRun": ["All"]} if variant == 3 else {}
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": options}
            await cluster.send("POST", f"{path}/eviction", body)
        case "take finalizer":
            for finalizer in pod.get("metadata", {}).get("finalizers", ())[:1]:
                removed = {"metadata": {"$deleteFromPrimitiveList/finalizers": [finalizer]}}
                await cluster.send("PATCH", path, removed)
        case "delete many":
            await cluster.send("DELETE", PODS, labelSelector=f"app={name}" if variant % 2 else "")
        case "cordon":
            cordoned = cluster.node("a").get("spec", {}).get("unschedulable")
            await cluster.send("PATCH", "/api/v1/nodes/a", {"spec": {"unschedulable": None if cordoned else True}})


ACTIONS = (
    *("create",) * 4,
    *("bind",) * 3,
    *("status",) * 2,
    "condition",
    "label",
    *("delete",) * 2,
    *("last delete",) * 2,
    "evict",
    *("take finalizer",) * 3,
    "delete many",
    "dry run",
    "cordon",
)
steps = st.lists(st.tuples(st.sampled_from(ACTIONS), st.sampled_from(["x", "y", "z"]), st.integers(0, 3)), max_size=40)


def lived(happened: Any, level_of: Any) -> Cluster:
    cluster = Cluster(level_of)

    async def live() -> None:
        await cluster.begin()
        for action, name, variant in happened:
            await step(cluster, action, name, variant)
        await cluster.send("POST", PODS, created("last"))
        binding = {"metadata": {"name": "last"}, "target": {"kind": "Node", "name": "a"}}
        await cluster.send("POST", f"{PODS}/last/binding", binding)
        await cluster.send("DELETE", f"{PODS}/last", {"gracePeriodSeconds": 0}, "system:node:a")

    asyncio.run(live())
    return cluster


def imported(log: list[dict[str, Any]]) -> tuple[list[Row], list[str]]:
    with TemporaryDirectory() as folder:
        path = Path(folder, "audit.log")
        path.write_bytes(lines(log))
        _, problems = import_audit([path], Path(folder, "h"))
        history = History.open(Path(folder, "h"))
        assert history.problems == ()
        return list(history.rows()), problems


def shown(rows: Iterator[Row] | list[Row], *, whole: bool) -> list[tuple[Any, ...]]:
    """The rows in an order of their own, `whole` with what only the API server knows."""
    return sorted(
        (
            row.time_utc,
            row.event,
            row.kind,
            row.name,
            row.node,
            row.reason,
            row.priority if row.kind == "Pod" else None,
            row.cpu_millicores if row.kind == "Pod" else None,
            (row.uid, row.document) if whole else (),
        )
        for row in rows
        if row.kind in {"Pod", "Node"}
    )


def spoiled(log: list[dict[str, Any]], seed: int) -> Iterator[dict[str, Any]]:
    """A log with lines twice, earlier stages, and in another order, as rotated files and several servers have it."""
    chosen = random.Random(seed)
    found = list(log)
    for event in log:
        if chosen.random() < 0.3:
            found.append(event)
        if chosen.random() < 0.3:
            found.append({**event, "stage": "RequestReceived", "responseObject": None})
    chosen.shuffle(found)
    first = min(found, key=lambda event: datetime.fromisoformat(event["stageTimestamp"]))
    return iter([first, *found])


@given(happened=steps, seed=st.integers(0, 5))
@settings(max_examples=20)
def test_a_log_of_responses_is_the_watch(happened: Any, seed: int) -> None:
    cluster = lived(happened, lambda _: "RequestResponse")
    rows, problems = imported(list(spoiled(cluster.audit.log, seed)))
    assert problems == []
    assert shown(rows, whole=True) == shown([change.row for change in cluster.changes], whole=True)


@given(happened=steps, seed=st.integers(0, 99))
@settings(max_examples=20)
def test_replies_that_are_logged_late_change_no_life(happened: Any, seed: int) -> None:
    cluster = lived(happened, lambda _: "RequestResponse")
    chosen = random.Random(seed)
    log = cluster.audit.log
    for place, event in enumerate(log):
        late = chosen.choice((0, 0, 1.5, 3.5))
        if has_version(event) and not is_overtaking(event, log[place + 1 : place + 5]):
            event["stageTimestamp"] = (
                datetime.fromisoformat(event["stageTimestamp"]) + timedelta(seconds=late)
            ).isoformat()
    rows, problems = imported(log)
    assert problems == []
    changes = [change.row for change in cluster.changes]
    assert without_times(rows) == without_times(changes)


def has_version(event: dict[str, Any]) -> bool:
    return "resourceVersion" in event["responseObject"].get("metadata", {})


def is_overtaking(event: dict[str, Any], later: list[dict[str, Any]]) -> bool:
    """Whether a version would be logged after an eviction or a binding: their replies can't tell which was first."""
    return event["verb"] != "create" and not all(map(has_version, later))


def test_a_version_that_is_logged_after_the_binding_takes_no_node_away() -> None:
    happened = [("create", "x", 0), ("label", "x", 0), ("bind", "x", 0), ("label", "x", 1), ("evict", "x", 0)]
    cluster = lived(happened, lambda _: "RequestResponse")
    for event in cluster.audit.log:
        if event["verb"] == "patch":
            late = datetime.fromisoformat(event["stageTimestamp"]) + timedelta(seconds=1.5)
            event["stageTimestamp"] = late.isoformat()
    rows, problems = imported(cluster.audit.log)
    assert problems == []
    assert [row.node for row in rows if row.event == "pod_bound" and row.name == "x"] == ["a"]
    assert [row for row in rows if row.event == "pod_ended" and row.name == "x"] == []  # its kubelet hasn't ended it


def without_times(rows: list[Row]) -> list[tuple[Any, ...]]:
    return sorted(row[1:] for row in shown(rows, whole=True))


@given(happened=steps, seed=st.integers(0, 5))
@settings(max_examples=10)
def test_a_log_of_requests_is_the_watch_but_for_what_only_the_server_knows(happened: Any, seed: int) -> None:
    cluster = lived(happened, lambda _: "Request")
    rows, problems = imported(list(spoiled(cluster.audit.log, seed)))
    assert [problem for problem in problems if "level Request" not in problem] == []
    assert shown(rows, whole=False) == shown([change.row for change in cluster.changes], whole=False)


@given(happened=steps, levels=st.lists(st.sampled_from(["Request", "RequestResponse"]), min_size=8, max_size=8))
@settings(max_examples=10)
def test_a_policy_may_have_a_level_for_each_resource(happened: Any, levels: list[str]) -> None:
    verbs = ("create", "patch", "delete", "deletecollection")
    cluster = lived(happened, lambda info: levels[verbs.index(info.verb) + 4 * bool(info.subresource)])
    rows, problems = imported(cluster.audit.log)
    assert [problem for problem in problems if "level Request" not in problem] == []
    rows = [row for row in rows if row.event != "pod_changed"]  # a reply shows more than the request before it
    changes = [change.row for change in cluster.changes if change.row.event != "pod_changed"]
    assert shown(rows, whole=False) == shown(changes, whole=False)


@given(happened=steps)
@settings(max_examples=8)
def test_a_log_of_names_has_the_pods_and_when_they_came_and_where_they_ran(happened: Any) -> None:
    cluster = lived(happened, lambda info: "RequestResponse" if info.resource == "nodes" else "Metadata")
    rows, problems = imported(cluster.audit.log)
    assert any("the log has level Metadata" in problem for problem in problems)

    def came(found: Any) -> list[tuple[datetime, str]]:
        return sorted((row.time_utc, row.name) for row in found if row.event == "pod_arrived")

    assert came(rows) == came(change.row for change in cluster.changes)
    placed = {(row.time_utc, row.name, row.node) for row in rows if row.event == "pod_bound"}
    assert placed <= {(row.time_utc, row.name, row.node) for row, _ in cluster.changes if row.event == "pod_bound"}
