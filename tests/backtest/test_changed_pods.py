"""Histories with changed workloads: pods that arrive, and those at the start, are as the workload would make them."""

import json

import pytest
from tests.backtest.histories import pool_node, record
from tests.simulation.timelines import OWNED
from tests.support.commands import bayplan
from tests.support.tables import cases

from bayplan.answers.backtest.changed_pods import WorkloadChanges, changed_pods
from bayplan.answers.backtest.errors import BacktestError
from bayplan.answers.backtest.lookahead import Lookahead
from bayplan.answers.backtest.questions import history_questions
from bayplan.answers.backtest.running import open_history
from bayplan.answers.backtest.stream import Stream
from bayplan.answers.simulation.happenings import PodArrives
from bayplan.answers.simulation.owners import workload_of
from bayplan.insight import Insight, Snapshot
from bayplan.testing import make_pod

WEB = workload_of(make_pod("web", owner=OWNED))
KIND, NAME = WEB.partition(" ")[0], WEB.rpartition("/")[2]


def at(seconds, name, **more):
    return PodArrives(seconds, make_pod(name, cpu="2", memory="1Gi", owner=OWNED, **more))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Four nodes for two pods each. Two pods are there at the start; five arrive, and one without an owner."""
    pods = [at(0.0, f"old-{n}", node=f"n{n}") for n in range(2)] + [at(60.0 + n, f"new-{n}") for n in range(5)]
    pods.append(PodArrives(90.0, make_pod("bare", cpu="100m")))
    nodes = [pool_node(f"n{n}") for n in range(4)]
    return str(record(tmp_path_factory.mktemp("histories") / "week", pods, seconds=7200.0, nodes=nodes))


def row(**fields):
    return {"kind": KIND, "name": NAME, "container": "main", **fields}


def arrivals(folder, changes):
    history = open_history(folder)
    changed = changed_pods(history, changes)
    stream = Stream(history, Lookahead(history, lambda _: None), {"default-scheduler"}, changed=changed)
    return [each.pod for each in stream if isinstance(each, PodArrives)]


def container_of(folder):
    """What the container of the history's pods is called."""
    (first, *_) = arrivals(folder, WorkloadChanges(scale_requests=[f"{NAME}=1"]))
    return json.loads(first.raw)["spec"]["containers"][0]["name"]


def test_requests_change_the_pods_of_their_workload_alone(folder):
    found = arrivals(folder, WorkloadChanges(requests=[row(container=container_of(folder), cpu="500m")]))

    assert {pod.requested["cpu"] for pod in found if workload_of(pod) == WEB} == {500}
    assert [pod.requested["cpu"] for pod in found if workload_of(pod) != WEB] == [100]
    assert len(found) == 8


def test_pods_with_equal_documents_share_the_changed_one(folder):
    changed = changed_pods(open_history(folder), WorkloadChanges(scale_requests=[f"{NAME}=0.5"]))
    first = json.loads(at(0.0, "a").pod.raw)
    second = {**first, "metadata": {**first["metadata"], "name": "b"}}
    made = [changed.document_of(at(0.0, each["metadata"]["name"]).pod, each) for each in (first, second)]

    assert made[0]["spec"] is made[1]["spec"]
    assert [each["metadata"]["name"] for each in made] == ["a", "b"]
    assert made[0]["spec"] != first["spec"]


@cases("factor, stays", {"smaller": (0.5, True), "the same": (1, True), "larger": (1.5, False)})
def test_pods_at_the_begin_keep_their_nodes_unless_they_request_more(folder, factor, stays):
    found = arrivals(folder, WorkloadChanges(scale_requests=[f"{KIND}/{NAME}={factor}"]))

    old = [pod for pod in found if pod.name.startswith("old-")]
    assert len(old) == 2
    assert all(bool(pod.node_name) is stays for pod in old)


def workload(cpu="250m", **pod):
    labels = {"app": "other"}
    spec = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}], **pod}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": NAME, "namespace": "default"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def test_template_is_that_of_the_changed_workload(folder):
    found = arrivals(folder, WorkloadChanges(objects=[workload(nodeSelector={"a": "b"})]))

    for pod in found:
        if workload_of(pod) == WEB:
            assert pod.requested["cpu"] == 250
            assert pod.labels["app"] == "other"
            assert pod.spec.nodeSelector == {"a": "b"}
            assert not pod.node_name


BAD = {
    "no workload": (WorkloadChanges(requests=[row(name="nope", cpu="1")]), f"there are no pods of {KIND} default/nope"),
    "no container": (
        WorkloadChanges(requests=[row(container="nope", cpu="1")]),
        "there is no container nope; there is",
    ),
    "negative": (WorkloadChanges(requests=[row(cpu="-1")]), "cpu -1: expected more than 0"),
    "no factor": (WorkloadChanges(scale_requests=["web"]), "expected .TYPE/.NAME=FACTOR"),
    "an unknown one": (WorkloadChanges(scale_requests=["nope=0.5"]), "no workload default/nope in the history"),
    "no such workload": (
        WorkloadChanges(objects=[{**workload(), "metadata": {"name": "nope"}}]),
        f"there are no pods of {KIND} default/nope in the history",
    ),
    "a pod": (
        WorkloadChanges(objects=[{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}]),
        "pod default/p: expected a changed workload: Deployment",
    ),
    "refused": (WorkloadChanges(objects=[workload("-1")]), "Invalid value"),
}


@cases("changes, message", BAD)
def test_what_changes_nothing_is_an_error(folder, changes, message):
    with pytest.raises(BacktestError, match=message) as error:
        changed_pods(open_history(folder), changes)
    assert "\n" not in str(error.value)


def test_comparison_foretells_fewer_pending_pods_and_names_what_is_left_out(folder, tmp_path):
    name = container_of(folder)
    file = tmp_path / "r.json"
    file.write_text(json.dumps([row(container=name, cpu="4"), row(container="nope", cpu="1")]))
    done = bayplan("compare", "--history", folder, "--requests", file, "--seeds", "1", "-o", "json")

    found = json.loads(done.stdout)
    assert (found["now"]["neverPlaced"], found["candidate"]["neverPlaced"]) == (0, 4)
    assert any("left out: " in note and "there is no container nope" in note for note in found["notes"])
    assert any("changed workloads are only simulated" in note for note in found["notes"])


def test_question_of_programs(folder):
    (question,) = history_questions(folder).values()
    asked = question(scale_requests=[f"{NAME}=2"], seeds=1)
    found = asked.ask(Insight(Snapshot()))

    assert found.candidate.never_placed == 4
    assert asked.command()[2:4] == ["--scale-requests", f"{NAME}=2"]
