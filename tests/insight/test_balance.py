"""balance: shares, what is stranded, and that the largest pods and gangs do fit, and nothing larger."""

import json

import pytest
from bayplan_documents import node, pod
from click.testing import CliRunner
from small_clusters import Maker
from tests.support.tables import cases

from bayplan.answers.insight.questions import room
from bayplan.faces.cli import main
from bayplan.insight import Insight, QuestionError, Snapshot


def balance(*objects, **options):
    return Insight(Snapshot.of(objects)).balance(**options)


def share(usages, resource):
    return next(usage.share for usage in usages if usage.resource == resource)


def labeled(document, **labels):
    document["metadata"]["labels"] |= labels
    return document


def test_balance_returns_the_utilization_of_the_cluster_and_of_zones_pools_and_nodes():
    zone = "topology.kubernetes.io/zone"
    answer = balance(
        labeled(node("a1"), **{zone: "east"}),
        labeled(node("a2", cpu="12"), **{zone: "west"}),
        node("b1"),
        pod("one", "a1", cpu="2"),
        pod("two", "a2", cpu="3"),
        pod("waits", cpu="1"),
    )

    cpu = next(usage for usage in answer.cluster if usage.resource == "cpu")
    assert (cpu.requested, cpu.allocatable, cpu.share) == (5000, 20000, 0.25)
    assert (cpu.lowest, cpu.highest) == (0, 0.5)
    assert [(each.name, each.nodes, share(each.usages, "cpu")) for each in answer.zones] == [
        ("none", 1, 0),
        ("east", 1, 0.5),
        ("west", 1, 0.25),
    ]
    assert [(each.name, each.nodes) for each in answer.pools] == [("a", 2), ("b", 1)]
    assert [each.name for each in answer.nodes] == ["a1", "a2", "b1"]
    assert share(answer.nodes[0].usages, "pods") == 1 / 110


@cases(
    "objects, expected",
    {
        "typical pod fits": ([node("a1"), pod("p", "a1", cpu="1")], {}),
        "cpu is gone": (
            [node("a1"), pod("p", "a1", cpu="2"), pod("q", "a1", cpu="2")],
            {"memory": (8 * 2**30, {"cpu": 1})},
        ),
        "cordoned": (
            [node("a1", unschedulable=True), node("a2"), pod("p", "a2")],
            {"cpu": (4000, {"cordoned": 1}), "memory": (8 * 2**30, {"cordoned": 1})},
        ),
    },
)
def test_stranded_is_what_a_typical_pod_cannot_use(objects, expected):
    found = {each.resource: (each.amount, dict(each.because)) for each in balance(*objects).stranded}

    assert found == expected


def test_largest_pod_is_as_large_as_the_scheduler_allows():
    tainted = node("b1", cpu="64", taints=[{"key": "gpu", "effect": "NoSchedule"}])
    answer = balance(tainted, node("a1", cpu="8"), node("a2", cpu="6"), pod("p", "a1", cpu="3"))

    most = {each.mix: each for each in answer.largest}
    assert (most["cpu"].requests["cpu"], most["cpu"].node) == (6000, "a2")
    assert (most["memory"].requests["memory"], most["memory"].requests["cpu"]) == (8 * 2**30, 3000)


def test_largest_pod_of_a_device_tolerates_the_taints_of_those_nodes():
    gpu = node("g1", taints=[{"key": "gpu", "effect": "NoSchedule"}])
    gpu["status"]["allocatable"]["example.com/gpu"] = "8"
    user = pod("p", "g1", tolerations=[{"key": "gpu", "operator": "Exists"}])
    user["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = "2"

    most = {each.mix: each for each in balance(gpu, user).largest}

    assert (most["example.com/gpu"].requests["example.com/gpu"], most["example.com/gpu"].node) == (6, "g1")
    assert most["cpu"].node is None


@pytest.mark.parametrize(
    ("options", "members", "complete"),
    [
        ({}, 5, True),  # of 1 cpu
        ({"like": "default/large"}, 2, True),
        ({"objects": [pod("new", cpu="250m")]}, 20, True),
        ({"objects": [pod("new", cpu="250m")], "most": 7}, 7, False),
    ],
    ids=str,
)
def test_largest_gang_is_the_number_of_copies_that_fit(options, members, complete):
    objects = [node("a1"), node("a2"), pod("p", "a1", cpu="1"), pod("q", "a1", cpu="0"), pod("large", "a2", cpu="2")]

    gang = balance(*objects, **options).gang

    assert (gang.members, gang.complete) == (members, complete)
    assert bool(gang.message) == complete


def test_unknown_pod_is_an_error():
    with pytest.raises(QuestionError, match="there is no pod default/missing"):
        balance(node("a1"), like="default/missing")


@pytest.mark.parametrize("seed", range(400, 415))
def test_what_fits_is_placed_and_one_more_is_not(seed):
    insight = Insight(Snapshot.of(Maker(seed).cluster()))
    answer = insight.balance()

    for each in answer.largest:
        if each.node is not None:
            requests = {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in each.requests.items()}
            assert insight.fit([pod("new", requests=requests)]).fits
            more = requests | {each.mix: f"{each.requests[each.mix] + 1}m"} if each.mix == "cpu" else None
            assert more is None or not insight.fit([pod("new", requests=more)]).fits
    requests = {"cpu": f"{answer.typical['cpu']}m", "memory": str(answer.typical["memory"])}
    copies = [pod(f"new-{number}", requests=requests) for number in range(answer.gang.members + 1)]
    assert sum(each.node is not None for each in insight.fit(copies).pods) == answer.gang.members


@pytest.mark.parametrize("seed", range(420, 440))
def test_gang_is_that_of_attempts_one_by_one(seed, monkeypatch):
    """Most copies are placed with the results of the first attempt."""
    objects = list(Maker(seed).cluster())
    pods = [f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in objects if each["kind"] == "Pod"]
    likes = [None, *pods[:4]]
    found = [balance(*objects, like=like, most=60).gang for like in likes]
    with monkeypatch.context() as patch:
        patch.setattr(room.Replicas, "of", lambda *_: None)
        assert found == [balance(*objects, like=like, most=60).gang for like in likes]


def test_balance_command_prints_json(tmp_path):
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node("a1"), pod("p", "a1")]}))

    result = CliRunner().invoke(main, ["balance", "--from", str(file), "--like", "p", "--output", "json"])

    found = json.loads(result.stdout)
    assert found.keys() == {"cluster", "zones", "pools", "nodes", "stranded", "typical", "largest", "gang"}
    assert found["gang"]["members"] == 3
