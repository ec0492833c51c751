"""Who uses a cluster: what pods request, by namespace, workload and priority."""

import json

import pytest
from bayplan_documents import node, pod
from click.testing import CliRunner

from bayplan.faces.cli import main
from bayplan.insight import Insight, QuestionError, Snapshot


def deployed(name, node_name=None, app="web", namespace="default", **options):
    found = pod(name, node_name, owner=("ReplicaSet", f"{app}-5d4f"), **options)
    found["metadata"] |= {"namespace": namespace, "labels": {"pod-template-hash": "5d4f", "app": app}}
    return found


CLUSTER = (
    node("a", cpu="8"),
    node("b", cpu="8"),
    deployed("web-1", "a", cpu="2", priority=10, priorityClassName="high"),
    deployed("web-2", "b", cpu="2", priority=10, priorityClassName="high"),
    deployed("web-3", cpu="9", priority=10, priorityClassName="high"),
    deployed("web-1", "a", namespace="team-b", cpu="500m"),
    pod("bare", "b", requests={"cpu": "1", "example.com/fpga": "1"}),
)


def ask(**options):
    return Insight(Snapshot.of(CLUSTER)).usage(**options)


def groups(answer, by):
    return {
        each.name: (each.placed, each.pending, dict(each.requests), dict(each.waiting)) for each in answer.groups[by]
    }


def test_requests_are_summed_up_by_namespace_workload_and_priority():
    answer = ask()

    assert groups(answer, "namespace") == {
        "default": (3, 1, {"cpu": 5000, "example.com/fpga": 1}, {"cpu": 9000}),
        "team-b": (1, 0, {"cpu": 500}, {}),
    }
    assert groups(answer, "workload") == {
        "deployment default/web": (2, 1, {"cpu": 4000}, {"cpu": 9000}),
        "deployment team-b/web": (1, 0, {"cpu": 500}, {}),
        "pod default/bare": (1, 0, {"cpu": 1000, "example.com/fpga": 1}, {}),
    }
    assert list(groups(answer, "priority")) == ["10 (high)", "0"]


def test_the_largest_users_come_first_with_their_share():
    lines = ask(by=["workload"]).text().splitlines()

    assert lines[0].split() == ["WORKLOAD", "PODS", "PENDING", "cpu", "example.com/fpga"]
    assert [line.split()[1] for line in lines[1:]] == ["default/web", "default/bare", "team-b/web"]
    assert "4 (25%)" in lines[1]


def test_pods_can_be_chosen():
    assert list(groups(ask(namespace="team-b"), "workload")) == ["deployment team-b/web"]
    assert list(groups(ask(matches=lambda pod: not pod.labels, by=["namespace"]), "namespace")) == ["default"]


def test_unknown_grouping_is_an_error():
    with pytest.raises(QuestionError, match="by node: expected one of namespace, workload, priority"):
        ask(by=["node"])


def test_json_has_a_list_for_each_grouping():
    answer = ask(by=["priority"])

    assert answer.to_dict()["by"]["priority"][0] == {
        "name": "10 (high)",
        "placed": 2,
        "pending": 1,
        "requests": {"cpu": 4000},
        "pendingRequests": {"cpu": 9000},
    }
    assert [row["name"] for row in answer.rows()] == ["10 (high)", "0"]


def test_a_cluster_without_pods_is_no_error():
    answer = Insight(Snapshot.of([node("a")])).usage()

    assert "there are no pods" in answer.text()


def test_command_sums_up_what_it_is_asked_for(tmp_path):
    (tmp_path / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": CLUSTER}))

    result = CliRunner().invoke(
        main, ["usage", "--by", "namespace", "--from", str(tmp_path / "cluster.json"), "-o", "json"]
    )

    assert list(json.loads(result.stdout)["by"]) == ["namespace"]
