import gzip
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.history.audit_logs import ROWS, SHAPES, Event, binding, event, lines, stored, story, whole
from tests.history.small_histories import BEGIN, at, node, pod

from bayplan.answers.history.format import HistoryError
from bayplan.answers.history.reading import History
from bayplan.answers.history.sources.audit import import_audit
from bayplan.answers.history.sources.versions import version_of
from bayplan.core.api.kinds import NODE, POD
from bayplan.faces.cli import main
from bayplan.insight import Snapshot


def rows_of(folder: Path) -> list[tuple[str, str, float, str, str]]:
    rows = History.open(folder).rows()
    return [(r.event, r.name, (r.time_utc - BEGIN).total_seconds(), r.node, r.reason) for r in rows]


def imported(tmp_path: Path, events: Sequence[Event], **options) -> tuple[History, list[str]]:
    (tmp_path / "audit.log").write_bytes(lines(events))
    _, problems = import_audit([tmp_path / "audit.log"], tmp_path / "h", **options)
    return History.open(tmp_path / "h"), problems


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("responses", [True, False], ids=["RequestResponse", "Request"])
def test_every_shape_tells_the_same_story(shape: str, responses: bool, tmp_path: Path) -> None:
    (tmp_path / "export").write_bytes(SHAPES[shape](story(responses=responses)))
    _, problems = import_audit([tmp_path / "export"], tmp_path / "h")
    assert rows_of(tmp_path / "h") == ROWS
    assert [line.partition(":")[0] for line in problems] == (
        [] if responses else ["the log has level Request for a pod"]
    )
    assert list(History.open(tmp_path / "h").notes) == problems


def test_rotated_and_compressed_files_that_overlap(tmp_path: Path) -> None:
    events = story()
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "audit-1.log.gz").write_bytes(gzip.compress(lines(events[:5])))
    (folder / "audit.log").write_bytes(lines(events[4:]))
    import_audit([folder], tmp_path / "h")
    assert rows_of(tmp_path / "h") == ROWS
    assert History.open(tmp_path / "h").source == "audit log of 2 files"


def test_objects_older_than_the_log_are_there_at_the_begin(tmp_path: Path) -> None:
    old = stored("old", -500, on="a", phase="Running")
    events = [
        event(0, "patch", "pods", "old", subresource="status", request={}, response=old),
        event(5, "patch", "nodes", "a", subresource="status", request={}, response=whole("Node", node("a"))),
        event(9, "delete", "pods", "old", request={"gracePeriodSeconds": 0}, response=old),
    ]
    history, problems = imported(tmp_path, events)
    assert list(history.start().of_kind(NODE)) == ["a"]
    assert history.start().document(POD, "default/old")["spec"]["nodeName"] == "a"
    assert [type(found).__name__ for found in history.events()] == ["PodEnded"]
    assert problems == []


def test_preempted_and_evicted_pods_say_so(tmp_path: Path) -> None:
    conditions = [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]
    events = [
        *story()[:1],
        *(event(n, "create", "pods", name, request=stored(name, n)) for n, name in enumerate(("victim", "evicted"), 2)),
        *(
            event(5, "create", "pods", name, subresource="binding", request=binding(name, "a"))
            for name in ("victim", "evicted")
        ),
        event(6, "patch", "pods", "victim", subresource="status", request={"status": {"conditions": conditions}}),
        event(7, "create", "pods", "evicted", subresource="eviction", request={"kind": "Eviction"}, code=201),
        *(event(9, "delete", "pods", n, request={"gracePeriodSeconds": 0}) for n in ("victim", "evicted")),
    ]
    imported(tmp_path, events)
    ends = {row[1]: row[4] for row in rows_of(tmp_path / "h") if row[0] == "pod_ended"}
    assert ends == {"victim": "PreemptionByScheduler", "evicted": "EvictionByEvictionAPI"}


def test_a_delete_without_grace_is_the_end_whatever_grace_its_response_has(tmp_path: Path) -> None:
    going = stored("web", 2, on="a", phase="Running")
    going["metadata"] |= {"deletionTimestamp": at(36).isoformat(), "deletionGracePeriodSeconds": 30}
    events = [
        *story()[:1],
        event(2, "create", "pods", "web", request=stored("web", 2), response=stored("web", 2), code=201),
        event(3, "create", "pods", "web", subresource="binding", request=binding("web", "a"), code=201),
        event(6, "delete", "pods", "web", request={"kind": "DeleteOptions"}, response=going),
        event(9, "delete", "pods", "web", request={"gracePeriodSeconds": 0}, response=going),
    ]
    imported(tmp_path, events)
    assert [row[:3] for row in rows_of(tmp_path / "h") if row[0] == "pod_ended"] == [("pod_ended", "web", 9.0)]


def test_changes_at_level_request_are_applied(tmp_path: Path) -> None:
    events = [
        *story()[:1],
        event(2, "patch", "nodes", "a", request={"spec": {"unschedulable": True}}),
        event(3, "patch", "nodes", "a", request=[{"op": "add", "path": "/metadata/labels/zone", "value": "z1"}]),
        event(4, "delete", "nodes", "a"),
    ]
    history, problems = imported(tmp_path, events)
    _, cordoned, labelled, removed = history.events()
    assert cordoned.document["spec"]["unschedulable"] is True
    assert labelled.document["metadata"]["labels"] == {"zone": "z1"}
    assert type(removed).__name__ == "NodeRemoved"
    assert problems == []


def test_a_pod_without_a_name_that_was_never_bound_arrives(tmp_path: Path) -> None:
    sent = stored("x", 2)
    sent["metadata"] = {"generateName": "waits-"}
    imported(tmp_path, [*story()[:1], event(2, "create", "pods", "", request=sent)])
    assert [row[:2] for row in rows_of(tmp_path / "h")] == [("node_added", "a"), ("pod_arrived", "waits-unbound-0")]


def _cut(events: Sequence[Event]) -> bytes:
    return lines(events)[:-30]


def _jump(events: Sequence[Event]) -> bytes:
    late = [{**each, "stageTimestamp": at(number - 400).isoformat()} for number, each in enumerate(events[3:])]
    return lines([*events[:3], *late, {**events[0], "auditID": "end", "stageTimestamp": at(80).isoformat()}])


def _without(*left_out: int) -> Callable[[Sequence[Event]], bytes]:
    return lambda events: lines([each for number, each in enumerate(events) if number not in left_out])


BAD: dict[str, tuple[Callable[[Sequence[Event]], bytes], str]] = {
    "a line that is cut off": (_cut, "a line is cut off: left out (/"),
    "a line in the middle that is cut off": (
        lambda events: lines(events[:2]) + b'{"kind":"Ev\n' + lines(events[2:]),
        "a line is not JSON: left out",
    ),
    "text": (lambda events: b"E0302 panic\n" + lines(events), "a line is not JSON: left out"),
    "other JSON": (lambda events: b'{"level":"info"}\n' + lines(events), "not an audit event of audit.k8s.io/v1"),
    "a clock that jumps": (_jump, "the clock goes back: time counts as if it had stood still"),
    "a creation that is missing": (
        lambda events: lines([{k: v for k, v in e.items() if k != "responseObject"} for e in _less(events, 3)]),
        "the creation of a pod is not in the log",
    ),
    "a node that is missing": (_without(0), "the log shows no node"),
    "an event without time": (
        lambda events: lines(
            [*events, {**events[0], "auditID": "x", "stageTimestamp": 3, "requestReceivedTimestamp": ""}]
        ),
        "an event has no valid stageTimestamp: left out",
    ),
    "level Metadata": (
        lambda events: lines([*events, event(80, "create", "pods", "meta")]),
        "the log has level Metadata for a pod: what it requests, its priority,",
    ),
    "a deletion of many": (
        lambda events: lines([*events, event(80, "deletecollection", "pods")]),
        "a deletion of many objects names none of them",
    ),
    "a last deletion that is missing": (
        lambda events: lines([*events[:-1], event(200, "update", "nodes", "a", request=whole("Node", node("a")))]),
        "the last deletion of a pod is not in the log",
    ),
}


def _less(events: Sequence[Event], number: int) -> list[Event]:
    return [each for index, each in enumerate(events) if index != number]


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_the_rest_is_used(case: str, tmp_path: Path) -> None:
    spoil, message = BAD[case]
    (tmp_path / "audit.log").write_bytes(spoil(story()))
    result = CliRunner().invoke(
        main, ["history", "import", str(tmp_path / "audit.log"), "--to", str(tmp_path / "h")], catch_exceptions=False
    )
    assert result.exit_code == 0
    warnings = [line for line in result.output.splitlines() if line.startswith("warning: ")]
    warnings = [line for line in warnings if case == "level Metadata" or "the log has level" not in line]
    assert len(warnings) == 1, warnings
    assert message in warnings[0]
    history = History.open(tmp_path / "h")
    assert len(list(history.events())) >= 4
    assert any(message.removesuffix(" (/") in note for note in history.notes)


def test_a_compressed_file_that_is_cut_off(tmp_path: Path) -> None:
    whole_file = gzip.compress(lines(story()))
    (tmp_path / "audit.log.gz").write_bytes(whole_file[:-20])
    _, problems = import_audit([tmp_path / "audit.log.gz"], tmp_path / "h")
    assert any("is cut off: its rest is missing" in problem for problem in problems)
    assert rows_of(tmp_path / "h")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "there is no audit event about pods or nodes"),
        (b"hello\n", "there is no audit event about pods or nodes: a line is not JSON"),
        (lines([event(1, "get", "pods", "x")]), "there is no audit event about pods or nodes"),
        (b"\x1f\x8bnot gzip", "there is no audit event about pods or nodes: "),
    ],
)
def test_a_log_of_nothing_is_one_line_and_writes_nothing(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "audit.log").write_bytes(content)
    result = CliRunner().invoke(main, ["history", "import", str(tmp_path / "audit.log"), "--to", str(tmp_path / "h")])
    assert (result.exit_code, len(result.output.splitlines())) == (2, 1)
    assert message in result.output
    assert not (tmp_path / "h").exists()


def test_a_snapshot_fills_in_what_the_log_does_not_have(tmp_path: Path) -> None:
    older = whole("Pod", pod("old", on="a", phase="Running"))
    later = stored("later", 20, on="a", phase="Running")
    snapshot = Snapshot.of([whole("Node", node("a")), older, later])
    events = [
        event(1, "patch", "nodes", "a", subresource="status", request={"status": {"conditions": []}}),
        event(5, "delete", "pods", "old", request={"gracePeriodSeconds": 0}),
    ]
    history, problems = imported(tmp_path, events, snapshot=snapshot)
    assert problems == []
    assert sorted(history.start().of_kind(POD)) == ["default/old"]
    assert [(type(found).__name__, found.time) for found in history.events()] == [("PodEnded", at(5))]


def names_only(events: Sequence[Event]) -> list[Event]:
    """The events as level Metadata has them."""
    return [
        {key: value for key, value in each.items() if key not in {"requestObject", "responseObject"}}
        | {"level": "Metadata"}
        for each in events
    ]


def by_kubelet(each: Event, node: str) -> Event:
    return {**each, "user": {"username": f"system:node:{node}"}}


def test_a_log_of_names_has_what_is_in_it(tmp_path: Path) -> None:
    first, *others = story()
    done, gone = by_kubelet(others[5], "a"), by_kubelet(others[7], "a")
    history, problems = imported(tmp_path, [first, *names_only([*others[:5], done, others[6], gone])])
    assert rows_of(tmp_path / "h") == [row for row in ROWS if row[:2] != ("pod_ended", "done-abcde")]
    assert [line for line in problems if "level Metadata" in line] == problems
    assert "choose level RequestResponse in the audit policy, or Request (2 times, first at default/" in problems[0]
    assert history.pods == 2


def test_a_log_of_names_alone_says_what_it_lacks(tmp_path: Path) -> None:
    _, problems = imported(tmp_path, names_only(story()))
    assert {row[1] for row in rows_of(tmp_path / "h")} == {"done-abcde", "gone"}
    assert any("level Metadata for a pod" in line for line in problems)
    assert any("a binding has no target" in line for line in problems)
    assert any("the log shows no node, so nothing can be placed: add --snapshot" in line for line in problems)
    with pytest.raises(HistoryError, match=r"no history to write: an event of level Metadata has no object"):
        imported(tmp_path, names_only(story()[:1]))


def version(name: str, number: int, finalizers: Sequence[str] = (), grace: int | None = None, **options) -> Event:
    """A version of a pod as kube-apiserver stores it. `grace`: its grace period, if it is being deleted."""
    found = stored(name, 2, **options)
    found["metadata"] |= {"resourceVersion": str(number), "finalizers": list(finalizers)}
    if grace is not None:
        found["metadata"] |= {"deletionTimestamp": at(20).isoformat(), "deletionGracePeriodSeconds": grace}
    return found


JOB = ("batch.kubernetes.io/job-tracking",)
BORN = [
    *story()[:1],
    event(2, "create", "pods", "p", response=version("p", 1, finalizers=JOB), code=201),
    event(3, "create", "pods", "p", subresource="binding", request=binding("p", "a"), code=201),
]
CAME = [("node_added", "a", 1, "", ""), ("pod_arrived", "p", 2, "", ""), ("pod_bound", "p", 3, "a", "")]


def running(number: int, **options) -> Event:
    return version("p", number, on="a", phase="Running", **options)


def failed(number: int, **options) -> Event:
    return version("p", number, on="a", phase="Failed", **options)


def patched(seconds: float, response: Event, **options) -> Event:
    return event(seconds, "patch", "pods", "p", response=response, **options)


def deleted(seconds: float, response: Event | None, **request) -> Event:
    return event(seconds, "delete", "pods", "p", request={"kind": "DeleteOptions", **request}, response=response)


NONE = {"gracePeriodSeconds": 0}
LIVES = {
    "preempted, with a finalizer that goes last": (
        [
            deleted(10, running(3, finalizers=JOB, grace=5)),
            patched(12, failed(4, finalizers=JOB, grace=5), subresource="status"),
            deleted(12.1, failed(5, finalizers=JOB, grace=0), **NONE),
            patched(20, failed(6, grace=0)),
        ],
        [("pod_ended", "p", 12, "", "Failed")],
    ),
    "deleted without a grace period, and goes with its finalizer": (
        [deleted(10, running(3, finalizers=JOB, grace=0), **NONE), patched(20, running(4, grace=0))],
        [("pod_ended", "p", 20, "", "Deleted")],
    ),
    "a finalizer goes before the last delete": (
        [
            deleted(10, running(3, finalizers=JOB, grace=5)),
            patched(11, running(4, grace=5)),
            deleted(15, running(5, grace=0), **NONE),
        ],
        [("pod_ended", "p", 15, "", "Deleted")],
    ),
    "written to after it is gone": (
        [
            patched(9, running(3)),
            deleted(10, running(4, grace=0), **NONE),
            patched(10.1, running(3), subresource="status"),
            event(11, "get", "pods", "p", response=running(3)),
            event(11, "list", "pods", response={"kind": "PodList", "items": [running(3)]}),
            deleted(12, running(4, grace=0), **NONE),
        ],
        [("pod_ended", "p", 10, "", "Deleted")],
    ),
    "written to after it succeeded": (
        [
            patched(9, version("p", 3, on="a", phase="Succeeded", finalizers=JOB), subresource="status"),
            patched(10, version("p", 4, on="a", phase="Succeeded")),
            patched(11, version("p", 5, on="a", phase="Succeeded"), subresource="status"),
            deleted(12, version("p", 6, on="a", phase="Succeeded")),
            deleted(13, version("p", 6, on="a", phase="Succeeded", grace=0), **NONE),
        ],
        [("pod_ended", "p", 9, "", "Succeeded")],
    ),
    "requests that fail, or try only": (
        [
            event(9, "delete", "pods", "p", code=409, response={"kind": "Status", "status": "Failure"}),
            event(9.1, "delete", "pods", "p", code=0, response={"kind": "Status", "status": "Failure"}),
            deleted(9.2, running(3, grace=0), dryRun=["All"], **NONE),
            {**deleted(9.3, running(3, grace=0), **NONE), "requestURI": "/api/v1/namespaces/default/pods/p?dryRun=All"},
            event(9.4, "create", "pods", "p", subresource="eviction", request={"deleteOptions": {"dryRun": ["All"]}}),
            event(9.5, "create", "pods", "p", subresource="eviction", request={"kind": "Eviction"}, code=429),
            {**deleted(9.6, running(3, grace=0), **NONE), "stage": "RequestReceived"},
            {**deleted(9.7, running(3, grace=0), **NONE), "stage": "Panic"},
        ],
        [],
    ),
    "replies that are logged late": (
        [
            deleted(30, running(5, finalizers=JOB, grace=5)),
            patched(30.2, running(4, finalizers=JOB)),
            patched(30.4, failed(6, grace=5)),
            deleted(30.6, failed(7, grace=0), **NONE),
        ],
        [("pod_ended", "p", 30.4, "", "Failed")],
    ),
    "metadata is all that a client wants": (
        [
            {
                **deleted(
                    10, {"kind": "PartialObjectMetadata", "metadata": running(3, finalizers=JOB, grace=0)["metadata"]}
                ),
            },
            patched(12, {"kind": "PartialObjectMetadata", "metadata": running(4, grace=0)["metadata"]}),
        ],
        [("pod_ended", "p", 12, "", "Deleted")],
    ),
    "evicted": (
        [
            event(10, "create", "pods", "p", subresource="eviction", request={"kind": "Eviction"}, code=201),
            deleted(12, running(4, finalizers=JOB, grace=0), **NONE),
            patched(13, running(5, grace=0)),
        ],
        [("pod_ended", "p", 13, "", "EvictionByEvictionAPI")],
    ),
    "deleted with many, of which the reply has the versions before": (
        [
            event(10, "deletecollection", "pods", response={"kind": "PodList", "items": [running(3, finalizers=JOB)]}),
            patched(11, running(4, grace=5)),
            deleted(12, running(5, grace=0), **NONE),
        ],
        [("pod_ended", "p", 12, "", "Deleted")],
    ),
    "created again with the same name": (
        [
            deleted(10, running(3, finalizers=JOB, grace=0), **NONE),
            patched(11, running(4, grace=0)),
            event(
                12,
                "create",
                "pods",
                "p",
                response={**(new := version("p", 6)), "metadata": {**new["metadata"], "uid": "2"}},
            ),
            patched(12.5, running(4, grace=0)),
        ],
        [("pod_ended", "p", 11, "", "Deleted"), ("pod_arrived", "p", 12, "", "")],
    ),
}


@pytest.mark.parametrize("case", LIVES)
def test_a_pod_lives_once(case: str, tmp_path: Path) -> None:
    happened, rows = LIVES[case]
    _, problems = imported(tmp_path, [*BORN, *happened, *happened, event(40, "patch", "nodes", "a", response=NODE_A)])
    assert [row for row in rows_of(tmp_path / "h") if row[0] != "pod_changed"] == [*CAME, *rows]
    assert problems == []


NODE_A = whole("Node", node("a"))


def test_a_pod_that_is_deleted_while_it_is_pending_is_gone_at_once(tmp_path: Path) -> None:
    events = [*BORN[:2], deleted(5, None), event(6, "patch", "nodes", "a", response=NODE_A)]
    imported(tmp_path, [events[0], event(2, "create", "pods", "p", request=stored("p", 2)), *events[2:]])
    assert rows_of(tmp_path / "h")[1:] == [("pod_arrived", "p", 2, "", ""), ("pod_ended", "p", 5, "", "Deleted")]


@pytest.mark.parametrize("responses", [True, False])
def test_a_deletion_of_many_names_them_or_how_they_are_chosen(responses: bool, tmp_path: Path) -> None:
    pods = [stored(name, n) for n, name in enumerate("xyz", 2)]
    pods[2]["metadata"]["labels"] = {"app": "other"}
    events = [event(n, "create", "pods", pod["metadata"]["name"], request=pod) for n, pod in enumerate(pods, 2)]
    many = event(9, "deletecollection", "pods", response={"kind": "PodList", "items": pods[:2]} if responses else None)
    many["requestURI"] = "/api/v1/namespaces/default/pods?labelSelector=app%3Dweb"
    imported(tmp_path, [*story()[:1], *events, many])
    assert [row[:3] for row in rows_of(tmp_path / "h")[4:]] == [("pod_ended", "x", 9), ("pod_ended", "y", 9)]


def test_an_older_way_to_bind_and_a_scale_are_read(tmp_path: Path) -> None:
    spec = {"replicas": 2, "selector": {}, "template": {}}
    deployment = {"kind": "Deployment", "metadata": {"name": "web", "namespace": "default"}, "spec": spec}
    scale = {"kind": "Scale", "metadata": {"name": "web", "namespace": "default"}, "spec": {"replicas": 5}}
    bound = event(3, "create", "bindings", "", request=binding("p", "a"), code=201)
    events = [
        *BORN[:2],
        bound,
        event(4, "create", "deployments", "web", group="apps", response=deployment),
        event(5, "update", "deployments", "web", group="apps", subresource="scale", request=scale, response=scale),
    ]
    history, problems = imported(tmp_path, events)
    assert problems == []
    assert rows_of(tmp_path / "h")[:3] == CAME
    (changed,) = (each for each in history.events() if type(each).__name__ == "ObjectChanged")
    assert changed.document["spec"] == {**spec, "replicas": 5}


CLASSES = [
    {"kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 1000, "preemptionPolicy": "Never"},
    {"kind": "PriorityClass", "metadata": {"name": "usual"}, "value": 7, "globalDefault": True},
]
PRIORITIES = {
    "of its class": ({"priorityClassName": "urgent"}, True, 1000, "Never"),
    "of the default class": ({}, True, 7, "PreemptLowerPriority"),
    "of the system": ({"priorityClassName": "system-node-critical"}, True, 2_000_001_000, None),
    "as sent": ({"priorityClassName": "urgent", "priority": 3}, True, 3, "Never"),
    "without classes": ({}, False, 0, None),
    "of a class that is not in the log": ({"priorityClassName": "other"}, True, 0, None),
}


@pytest.mark.parametrize("case", PRIORITIES)
@pytest.mark.parametrize("late", [False, True], ids=["classes first", "classes listed later"])
def test_pods_of_level_request_have_the_priorities_of_the_classes(case: str, late: bool, tmp_path: Path) -> None:
    spec, with_classes, priority, policy = PRIORITIES[case]
    group = "scheduling.k8s.io"
    if late:
        response = {"kind": "PriorityClassList", "items": CLASSES}
        classes = [event(50, "list", "priorityclasses", group=group, response=response)]
    else:
        classes = [
            event(2 + number, "create", "priorityclasses", each["metadata"]["name"], group=group, request=each)
            for number, each in enumerate(CLASSES)
        ]
    sent = stored("p", 10)
    del sent["spec"]["priority"]
    sent["spec"] |= spec
    sent["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "250m"}}
    created = event(10, "create", "pods", "p", request=sent)
    history, problems = imported(tmp_path, [*story()[:1], *(classes if with_classes else []), created])
    (row,) = (row for row in history.rows() if row.event == "pod_arrived")
    assert (row.priority, row.cpu_millicores) == (priority, 250)
    (arrived,) = (each for each in history.events() if type(each).__name__ == "PodArrived")
    assert arrived.document["spec"].get("preemptionPolicy") == policy
    unknown = [line for line in problems if "a priority class is not in the log: its pods have priority 0" in line]
    assert bool(unknown) == (case == "of a class that is not in the log")


def test_show_says_what_a_history_has(tmp_path: Path) -> None:
    imported(tmp_path, story(responses=False))
    result = CliRunner().invoke(main, ["history", "show", str(tmp_path / "h")])
    assert result.output.splitlines() == [
        "audit log of 1 file",
        "  from 2026-03-02 08:00:01 to 2026-03-02 08:01:15 UTC (0:01:14)",
        "  2 pods in 1 segments",
        "  at the start: nothing",
        (
            "  the log has level Request for a pod: its spec is as it was sent, with defaults and the priority of its "
            "class, but without what webhooks and limit ranges add; an audit policy with level RequestResponse has "
            "that, too (2 times, first at default/done-)"
        ),
    ]


def test_a_missing_folder_is_one_line(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["history", "show", str(tmp_path / "none")])
    assert (result.exit_code, len(result.output.splitlines())) == (2, 1)
    with pytest.raises(HistoryError):
        History.open(tmp_path / "none")


@pytest.mark.parametrize("version", ["9" * 5000, "-1", "1.5", "x", 7, None])
def test_what_is_no_version_of_etcd_is_none(version) -> None:
    assert version_of({"metadata": {"resourceVersion": version}}) is None
