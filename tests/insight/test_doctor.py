"""What is wrong now: whether schedulers run, who waits and why, what holds the room, and what would help."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from bayplan_documents import node, pod
from click.testing import CliRunner

from bayplan.answers.snapshots.reading import Gap
from bayplan.core.api.kinds import LEASE
from bayplan.faces.cli import main
from bayplan.insight import Insight, QuestionError, Snapshot

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


def ago(**time):
    return (NOW - timedelta(**time)).isoformat().replace("+00:00", "Z")


def deployed(name, node_name=None, app="web", **options):
    found = pod(name, node_name, owner=("ReplicaSet", f"{app}-5d4f"), **options)
    found["metadata"]["labels"] = {"pod-template-hash": "5d4f", "app": app}
    return found


def decided(found, status, **time):
    """A pod that its scheduler has decided about so long ago."""
    condition = {"type": "PodScheduled", "status": status, "reason": "R", "lastTransitionTime": ago(**time)}
    found.setdefault("status", {})["conditions"] = [condition]
    return found


def created(found, **time):
    found["metadata"]["creationTimestamp"] = ago(**time)
    return found


def lease(name="kube-scheduler", **time):
    metadata = {"name": name, "namespace": "kube-system"}
    micro = ago(**time).replace("Z", ".000000Z")
    spec = {"holderIdentity": "control-1", "leaseDurationSeconds": 15, "renewTime": micro}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


def event(component="default-scheduler", **time):
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "a", "namespace": "default"},
        "source": {"component": component},
        "reportingComponent": component,
        "lastTimestamp": ago(**time),
        "reason": "Preempted",
    }


def ask(*objects, **options):
    return Insight(Snapshot.of(objects, source="a cluster", taken=NOW)).doctor(**options)


ALIVE = {
    "lease that was renewed": ([pod("a", "n"), lease(seconds=5)], True, "its lease kube-system/kube-scheduler"),
    "lease that was not": (
        [pod("a", "n"), lease(minutes=9)],
        False,
        "last renewed at 2026-03-02T11:51:00Z by",
    ),
    "decision just now": ([decided(pod("a", "n"), "True", minutes=1)], True, "it bound a pod last 60s ago"),
    "decision long ago": ([decided(pod("a", "n"), "True", hours=3)], None, "its last decision is from 3h ago"),
    "event just now": ([pod("a", "n"), event(minutes=2)], True, "its last decision is from 2m ago"),
    "event of another one": ([pod("a", "n"), event("kubelet", minutes=2)], None, "no event of it"),
    "pod that it has not tried": ([created(pod("a"), minutes=20)], False, "1 pod has waited for up to 20m"),
    "pod that is new": ([created(pod("a"), seconds=9)], None, "no decision"),
    "pods tried after another": (
        [created(pod("a"), minutes=20), decided(pod("b", "n"), "True", minutes=1)],
        True,
        "its last decision",
    ),
    "odd lease": ([pod("a", "n"), {**lease(seconds=5), "spec": {"renewTime": 7}}], None, "nothing tells"),
}


@pytest.mark.parametrize(("objects", "alive", "text"), ALIVE.values(), ids=ALIVE)
def test_scheduler_runs_or_not(objects, alive, text):
    (found,) = ask(node("n"), *objects).schedulers
    assert (found.scheduler, found.alive) == ("default-scheduler", alive)
    assert text in found.text


NO_RIGHT = {
    "nothing else tells": (
        [pod("a", "n")],
        None,
        "there is no decision and no event of it; its lease",
    ),
    "decisions tell": ([decided(pod("a", "n"), "True", minutes=1)], True, "it runs: its last decision is from 60s ago"),
}


@pytest.mark.parametrize(("objects", "alive", "text"), NO_RIGHT.values(), ids=NO_RIGHT)
def test_leases_that_cannot_be_read_cost_one_sentence(objects, alive, text):
    gaps = [Gap(LEASE, "no right to list leases", "e")]
    insight = Insight(Snapshot.of([node("n"), *objects], taken=NOW, gaps=gaps))
    (found,) = insight.doctor().schedulers
    assert found.alive is alive
    assert text in found.text
    assert found.text.endswith("; its lease isn't known: no right to list leases")


def test_who_waits_what_holds_the_room_and_what_would_help():
    found = ask(
        node("a", cpu="4"),
        node("b", cpu="4", unschedulable=True),
        deployed("api-0", "a", app="api", cpu="3"),
        deployed("api-1", "b", app="api", cpu="3"),
        *(deployed(f"web-{number}", cpu="2") for number in range(2)),
        pod("ssd", nodeSelector={"disk": "ssd"}),
    )
    assert found.summary == "3 pods of 2 workloads wait"
    assert [(each.workload, len(each.pods)) for each in found.waiting] == [
        ("deployment default/web", 2),
        ("pod default/ssd", 1),
    ]
    web, ssd = found.waiting
    assert "not enough room (Insufficient cpu" in web.why
    assert "disk=ssd" in ssd.why
    assert ssd.help
    assert [each.text for each in found.held] == ["cpu: 75% (6/8) is requested, most by deployment default/api 6"]
    assert found.nodes == ("1 node is cordoned: b",)
    assert 1 <= len(found.changes) <= 3
    lines = found.text().splitlines()
    assert lines[0] == found.summary
    assert len(lines) <= 25
    assert [each for each in lines if each and not each.startswith(" ")][1:] == [
        "schedulers",
        "who waits, and why",
        "what holds the room",
        "what would place most, each tried on its own",
    ]


def test_room_that_is_kept_is_named():
    ending = pod("old", "a")
    ending["metadata"]["deletionTimestamp"] = ago(minutes=5)
    ready = pod("next", cpu="9")
    ready["status"] = {"nominatedNodeName": "a"}
    assert ask(node("a"), ending, ready).nodes == (
        "1 pod is terminating, and keeps its room until it has ended",
        "node a has room kept for 1 pod",
    )


def test_many_causes_stay_on_one_screen():
    pods = [pod(f"p{number}", schedulingGates=[{"name": f"example.com/{number}"}]) for number in range(40)]
    text = ask(node("a"), *pods).text()
    assert len(text.splitlines()) <= 25
    assert "and 34 more: bayplan explain --all-pending shows them" in text


def test_healthy_cluster():
    found = ask(node("a"), pod("web", "a"), lease(seconds=1))
    assert found.summary == "every pod has a node"
    assert (found.waiting, found.held, found.nodes, found.changes) == ((), (), (), ())


def test_dead_scheduler_comes_first():
    assert ask(node("a"), pod("web"), lease(minutes=9)).summary == (
        "scheduler default-scheduler seems not to run; 1 pod of 1 workload waits"
    )


def test_unknown_namespace():
    default = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    with pytest.raises(QuestionError, match="nowhere"):
        ask(node("a"), pod("web"), default, namespace="nowhere")


def test_command_prints_json_and_a_screen(tmp_path):
    file = tmp_path / "cluster.json"
    items = [node("a", cpu="1"), pod("web", cpu="2")]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    shown = CliRunner().invoke(main, ["doctor", "--from", str(file)])
    assert shown.exit_code == 0, shown.output
    assert "1 pod of 1 workload waits" in shown.stdout
    found = json.loads(CliRunner().invoke(main, ["doctor", "--from", str(file), "-o", "json"]).stdout)
    assert list(found) == ["summary", "schedulers", "waiting", "held", "nodes", "changes", "interrupted"]
