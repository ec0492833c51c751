"""Transactions: what was done stays in them, is undone by a rollback, and changes nothing else."""

import asyncio

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.insight.small_clusters import Maker
from tests.support.asked_questions import ASKED, WORKLOAD
from tests.support.documents import of_kind
from tests.support.served_questions import new_pod, node, pod, served_objects, small_cluster
from tests.support.waiting import until

from bayplan.answers.insight.answers import silent
from bayplan.answers.insight.asked.what_if import CommonChanges
from bayplan.answers.insight.question_types import QUESTIONS
from bayplan.faces.serve import transaction_operations
from bayplan.faces.serve.placing import Placing
from bayplan.faces.serve.transactions import Transactions
from bayplan.insight import Insight, QuestionError, Snapshot


def opened(*objects):
    """Transactions, and the first one of a cluster."""
    transactions = Transactions(Insight(Snapshot()))
    return transactions, transactions.begin(Snapshot.of(objects, source="file cluster.yaml"))


def nodes_of(found):
    return {each.pod.rpartition("/")[2]: each.node for each in found.pods}


def change(**parameters):
    return msgspec.convert(parameters, CommonChanges)


# What they do


async def test_a_transaction_from_its_beginning_to_its_end():
    async with served_objects(*small_cluster()) as client:
        begun = await client.call("POST", "/v1/transactions", {"seconds": 60}, 201)
        path = f"/v1/transactions/{begun['id']}"
        asked = await client.ask("explain", pod="big-0")
        placed = await client.call("POST", f"{path}/place", {"objects": [new_pod("new-0"), new_pod("new-1", "20")]})
        assert [(each["pod"], each["outcome"]) for each in placed["pods"]] == [
            ("default/new-0", "placed"),
            ("default/new-1", "pending"),
        ]
        assert (await client.call("POST", f"{path}/commit"))["committed"] == ["place 2 pods"]
        changed = {"addNodes": ["2xlike:node-b1"], "deletePods": ["web-0"], "labels": [["node-a1", "disk=nvme"]]}
        status = await client.call("POST", f"{path}/change", changed)
        assert len(status["steps"]) == 3
        scheduled = await client.call("POST", f"{path}/schedule")
        outcomes = {each["pod"]: each["outcome"] for each in scheduled["pods"]}
        assert outcomes == {
            "default/big-0": "pending",
            "default/pinned-0": "placed",
            "default/web-0": "placed",
            "default/new-1": "pending",
        }
        there = await client.call("POST", f"{path}/questions/explain", {"pod": "pinned-0"})
        assert (there["outcome"], there["node"]) == ("placed", "node-a1")
        status = await client.call("POST", f"{path}/rollback")
        assert (status["committed"], status["steps"]) == (["place 2 pods"], [])
        there = await client.call("POST", f"{path}/questions/explain", {"pod": "pinned-0"})
        assert there["outcome"] == "pending"
        there = await client.call("POST", f"{path}/questions/explain", {"pod": "new-0"})
        assert there["node"] == placed["pods"][0]["node"]
        assert await client.ask("explain", pod="big-0") == asked
        await client.ask("explain", 422, pod="new-0")
        await client.call("DELETE", path)
        assert "its time is over" in (await client.call("GET", path, status=404))["error"]


@pytest.mark.parametrize("case", [case for case in ASKED if "diff" not in case])
def test_question_in_an_unchanged_transaction_has_the_answer_of_the_cluster(case):
    name, parameters = ASKED[case]
    question = msgspec.convert(parameters, QUESTIONS[name])
    snapshot = Snapshot.of(small_cluster(), source="file cluster.yaml")
    transactions = Transactions(Insight(Snapshot()))
    found = transactions.ask(transactions.begin(snapshot), question, silent).to_dict()
    assert found == question.ask(Insight(snapshot)).to_dict()


def test_placing_takes_room_for_later_questions():
    transactions, one = opened(node("a", cpu="2"))
    fit = msgspec.convert({"objects": [new_pod("late", "1")]}, QUESTIONS["fit"])
    assert transactions.ask(one, fit, silent).fits
    transactions.place(one, [new_pod("new-0"), new_pod("new-1")], silent)
    assert not transactions.ask(one, fit, silent).fits
    transactions.rollback(one)
    assert transactions.ask(one, fit, silent).fits


def test_changed_workload_is_rolled_out_in_the_transaction():
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "api", "uid": "api", "controller": True}
    made = {"name": "api-abc", "namespace": "default", "uid": "api-abc", "ownerReferences": [owner]}
    old = {**WORKLOAD, "kind": "ReplicaSet", "metadata": made}
    deployment = {**WORKLOAD, "metadata": {**WORKLOAD["metadata"], "uid": "api"}}
    pods = [pod(f"api-abc-{number}", "2", node="ab"[number % 2], owner="api-abc") for number in range(3)]
    transactions, one = opened(node("a"), node("b"), deployment, old, *pods)
    rows = [{"kind": "Deployment", "name": name, "container": "c", "cpu": "500m"} for name in ("api", "nope")]

    steps = transactions.change(one, change(requests=rows), silent)

    assert steps == (
        "change the requests of deployment default/api",
        "left out: recommendation 2: there is no deployment default/nope",
    )
    usage = transactions.ask(one, msgspec.convert({"by": ["workload"]}, QUESTIONS["usage"]), silent).to_dict()
    (found,) = usage["by"]["workload"]
    assert (found["name"], found["placed"], found["requests"]["cpu"]) == ("deployment default/api", 3, 1500)
    transactions.rollback(one)
    usage = transactions.ask(one, msgspec.convert({"by": ["workload"]}, QUESTIONS["usage"]), silent).to_dict()
    assert usage["by"]["workload"][0]["requests"]["cpu"] == 6000


def test_names_that_exist_are_refused_and_nothing_is_placed():
    transactions, one = opened(node("a"), pod("web-0", node="a"))
    for objects in ([new_pod("new-0"), new_pod("web-0")], [new_pod("new-0"), new_pod("new-0")]):
        with pytest.raises(QuestionError, match="exists already"):
            transactions.place(one, objects, silent)
        assert one.now.steps == ()
    assert nodes_of(transactions.place(one, [new_pod("new-0")], silent)) == {"new-0": "a"}
    with pytest.raises(QuestionError, match="pod default/new-0 exists already"):
        transactions.place(one, [new_pod("new-0")], silent)


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ([{"kind": "Pod"}], "object 1"),
        ([{}], "object 1"),
        ([new_pod("new"), {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}], "spec"),
        ([new_pod("new-0"), new_pod("Not_A_Name")], "Not_A_Name"),
        ([new_pod("a"), new_pod("b" * 300)], "must be no more than 253"),
        ([{"apiVersion": "v1", "kind": "Pod", "metadata": 3}], "metadata"),
    ],
)
def test_invalid_objects_are_refused_and_nothing_is_placed(objects, message):
    transactions, one = opened(node("a"))
    with pytest.raises(QuestionError, match=message):
        transactions.place(one, objects, silent)
    assert one.now.steps == ()
    assert list(one.now.snapshot.documents) == [next(iter(one.committed.snapshot.documents))]


def test_quota_counts_what_is_placed():
    quota = of_kind("ResourceQuota", "pods", metadata={"namespace": "default"}, spec={"hard": {"pods": "3"}})
    transactions, one = opened(node("a"), quota)
    transactions.place(one, [new_pod(f"new-{number}") for number in range(3)], silent)
    with pytest.raises(QuestionError, match="exceeded quota"):
        transactions.place(one, [new_pod("new-3")], silent)


def test_one_transaction_may_not_add_without_limit():
    from bayplan.answers.insight.limits import Limits

    transactions = Transactions(Insight(Snapshot(), limits=Limits(pods=10)))
    one = transactions.begin(Snapshot.of([node("a")]))
    transactions.place(one, [new_pod(f"new-{number}", "1m") for number in range(8)], silent)
    with pytest.raises(QuestionError, match="the limit of pods is 10"):
        transactions.place(one, [new_pod(f"more-{number}", "1m") for number in range(8)], silent)


# Decisions


@given(st.integers(0, 10_000), st.integers(1, 30))
@settings(max_examples=30)
def test_equal_pods_are_placed_as_if_each_were_attempted(seed, count):
    maker = Maker(seed)
    cluster = maker.cluster()
    template = maker.pod("new")
    del template["metadata"]["uid"], template["status"]
    pods = [{**template, "metadata": {**template["metadata"], "name": f"new-{each}"}} for each in range(count)]
    transactions, one = opened(*cluster)
    together = transactions.place(one, pods, silent)
    alone = transactions.begin(one.committed.snapshot)
    one_by_one = {}
    for each in pods:
        one_by_one |= nodes_of(transactions.place(alone, [each], silent))
    fates = {each.pod.rpartition("/")[2]: each.node for each in together.pods}
    assert len(fates) == count
    if not any(each.victims for each in together.pods):
        assert fates == one_by_one


@given(st.integers(0, 10_000), st.randoms(use_true_random=False))
@settings(max_examples=12)
def test_transactions_do_not_depend_on_each_other(seed, order):
    """What each of three does is the same alone, and with the steps of the others between its own."""
    maker = Maker(seed)
    snapshot = Snapshot.of(maker.cluster())
    batches = [
        [[_manifest(maker, f"t{each}-{step}-{number}") for number in range(3)] for step in range(3)]
        for each in range(3)
    ]
    usage = msgspec.convert({}, QUESTIONS["usage"])

    def steps(transactions, one, batch):
        yield transactions.place(one, batch[0], silent).to_dict()
        yield transactions.ask(one, usage, silent).to_dict()
        transactions.commit(one)
        yield transactions.place(one, batch[1], silent).to_dict()
        transactions.rollback(one)
        yield transactions.place(one, batch[2], silent).to_dict()
        yield transactions.ask(one, usage, silent).to_dict()

    alone = []
    for batch in batches:
        transactions = Transactions(Insight(Snapshot()))
        alone.append(list(steps(transactions, transactions.begin(snapshot), batch)))
    transactions = Transactions(Insight(Snapshot()))
    running = [steps(transactions, transactions.begin(snapshot), batch) for batch in batches]
    found = [[], [], []]
    turns = [each for each in range(3) for _ in range(5)]
    order.shuffle(turns)
    for turn in turns:
        found[turn].append(next(running[turn]))
    assert found == alone


def _manifest(maker, name):
    found = maker.pod(name)
    del found["metadata"]["uid"], found["status"]
    return found


def test_workloads_are_placed_with_their_pods():
    transactions, one = opened(node("a", cpu="8"))
    found = transactions.place(one, [WORKLOAD], silent)
    assert [each.outcome for each in found.pods] == ["placed"] * 3


# Limits


async def test_transaction_ends_by_itself():
    async with served_objects(*small_cluster()) as client:
        begun = await client.call("POST", "/v1/transactions", {"seconds": 0.05}, 201)

        async def gone():
            async with client.send("GET", f"/v1/transactions/{begun['id']}") as response:
                return response.status == 404

        await until(gone)
        await client.call("POST", "/v1/transactions", {"seconds": 0}, 400)
        await client.call("POST", "/v1/transactions", {"seconds": 4000}, 400)


async def test_several_at_a_time_up_to_a_limit(monkeypatch):
    monkeypatch.setattr(transaction_operations, "MOST", 3)
    async with served_objects(*small_cluster()) as client:
        names = [(await client.call("POST", "/v1/transactions", {}, 201))["id"] for _ in range(3)]
        found = await client.call("POST", "/v1/transactions", {}, 429)
        assert "3 transactions are open" in found["error"]
        body = {"objects": [new_pod("same-name", "3")]}
        placed = await asyncio.gather(*(client.call("POST", f"/v1/transactions/{name}/place", body) for name in names))
        assert [each["pods"][0]["outcome"] for each in placed] == ["placed"] * 3
        await client.call("DELETE", f"/v1/transactions/{names[0]}")
        await client.call("POST", "/v1/transactions", {}, 201)


async def test_batch_that_takes_too_long_is_undone():
    async with served_objects(*small_cluster(), longest=0.001) as client:
        begun = await client.call("POST", "/v1/transactions", {}, 201)
        path = f"/v1/transactions/{begun['id']}"
        pods = [new_pod(f"new-{number}", f"{number + 1}m") for number in range(200)]
        await client.call("POST", f"{path}/place", {"objects": pods}, 504)
        assert (await client.call("GET", path))["steps"] == []


async def test_step_that_has_to_be_ended_in_the_middle_costs_what_was_not_committed(monkeypatch):
    def hang(*_):
        while True:
            pass

    async with served_objects(*small_cluster(), longest=5.0) as client:
        begun = await client.call("POST", "/v1/transactions", {}, 201)
        path = f"/v1/transactions/{begun['id']}"
        await client.call("POST", f"{path}/place", {"objects": [new_pod("first")]})
        await client.call("POST", f"{path}/commit")
        await client.call("POST", f"{path}/place", {"objects": [new_pod("second")]})
        monkeypatch.setattr(Placing, "place", hang)
        await client.call("POST", f"{path}/place", {"objects": [new_pod("third")]}, 504)
        monkeypatch.undo()
        found = await client.call("POST", f"{path}/schedule", status=422)
        assert "ended before it was complete: roll it back" in found["error"]
        await client.call("POST", f"{path}/rollback")
        assert (await client.call("POST", f"{path}/questions/explain", {"pod": "first"}))["node"]
        found = await client.call("POST", f"{path}/questions/explain", {"pod": "second"}, 422)
        assert "second" in found["error"]
