"""CapacityScheduling: borrowing and taking back, what quotas forbid, odd quotas, hints, status, and the contract."""

import asyncio
import logging

import pytest
from quota_clusters import GPU, elastic_quota, listed, plugin_of, pod, quota_cluster
from tests.support.tables import cases

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.api.kinds import POD, kind_of
from bayplan.core.scheduling.decision import Outcome
from bayplan.plugin import ELASTIC_QUOTAS, Hint, InvalidQuantity
from bayplan.testing import check_contract, make_cluster, make_node, make_pod
from bayplan_plugins.capacity_scheduling.plugin import CapacityScheduling
from bayplan_plugins.capacity_scheduling.status import QuotaStatuses

MORE_THAN_MAX = "0/1 nodes are available: Pod a/new is rejected in PreFilter because ElasticQuota a is more than Max."
MORE_THAN_MIN = (
    "0/1 nodes are available: Pod a/new is rejected in PreFilter because total ElasticQuota used is more than min."
)


def gpus(name, namespace, number=1, **fields):
    return make_pod(name, namespace=namespace, cpu="100m", resources={GPU: str(number)}, **fields)


def quota(namespace, least, most=None, **fields):
    bounds = {"min": {GPU: str(least)}} | ({"max": {GPU: str(most)}} if most is not None else {})
    return elastic_quota(namespace, **bounds, **fields)


def cluster(folder, *objects, number=5):
    return quota_cluster(folder, make_node("n", cpu="64", resources={GPU: str(number)}), *objects)


def names(decision):
    return [victim.name for victim in decision.victims]


def test_a_namespace_borrows_what_others_do_not_use(tmp_path):
    used = [gpus(f"p{number}", "a", node="n") for number in range(4)]
    assert cluster(tmp_path, quota("a", 2), quota("b", 3), *used).decide(gpus("new", "a")).node == "n"


def test_what_is_borrowed_is_taken_back_when_every_gpu_is_used(tmp_path):
    """The quotas name no cpu, which the pods request: it isn't shared out."""
    used = [gpus(f"p{number}", "a", node="n", priority=9) for number in range(5)]
    decision = cluster(tmp_path, quota("a", 4, 5), quota("b", 1, 5), *used).decide(gpus("new", "b"))
    assert (decision.nominated_node, len(decision.victims)) == ("n", 1)


def test_no_more_is_taken_back_than_was_borrowed(tmp_path):
    used = [gpus(f"p{number}", "a", node="n") for number in range(5)]
    decision = cluster(tmp_path, quota("a", 4), quota("b", 1), *used).decide(gpus("new", "b", 2))
    assert (decision.outcome, decision.victims) == (Outcome.UNSCHEDULABLE, ())


def test_a_pod_that_its_quota_does_not_allow_evicts_nobody(tmp_path):
    used = [gpus("other", "b", 3, node="n"), gpus("same", "a", 2, node="n", priority=5)]
    decision = cluster(tmp_path, quota("a", 2, 2), quota("b", 1, 5), *used).decide(gpus("new", "a"))
    assert decision.message.startswith(MORE_THAN_MAX)
    assert (decision.nominated_node, decision.victims) == ("", ())


def test_a_pod_above_its_max_evicts_a_less_important_pod_of_its_namespace(tmp_path):
    used = [gpus("other", "b", 3, node="n"), gpus("same", "a", 2, node="n")]
    decision = cluster(tmp_path, quota("a", 2, 2), quota("b", 3, 5), *used).decide(gpus("new", "a", priority=5))
    assert names(decision) == ["same"]


def test_nominated_pods_count_against_the_quota(tmp_path):
    made = cluster(tmp_path, quota("a", 2, 2), quota("b", 3))
    made.state.nominations.add(gpus("waits", "a", 2, priority=5), "n")
    assert made.decide(gpus("new", "a")).message.startswith(MORE_THAN_MAX)
    assert made.decide(gpus("new", "a", priority=9)).node == "n"  # it doesn't come after that one


def test_nominated_pods_of_others_count_against_what_is_shared_out(tmp_path):
    made = cluster(tmp_path, quota("a", 2), quota("b", 3), gpus("there", "a", 2, node="n"))
    made.state.nominations.add(gpus("waits", "b", 3), "n")
    assert made.decide(gpus("new", "a")).message.startswith(MORE_THAN_MIN)


def test_pods_of_a_quota_and_pods_without_one_do_not_evict_each_other(tmp_path):
    used = [gpus("without", "free", 3, node="n"), gpus("with", "a", 2, node="n")]
    made = cluster(tmp_path, quota("a", 1), *used)
    assert names(made.decide(gpus("new", "a", 1, priority=9))) == ["with"]
    assert names(made.decide(gpus("new", "free", 1, priority=9))) == ["without"]


def test_a_reserved_pod_counts_until_it_is_let_go(tmp_path):
    made = cluster(tmp_path, quota("a", 2, 2))
    plugin = plugin_of(made)
    first = gpus("first", "a", 2)
    plugin.reserve(None, first, "n")
    assert made.decide(gpus("new", "a")).message.startswith(MORE_THAN_MAX)
    plugin.unreserve(None, first, "n")
    assert made.decide(gpus("new", "a")).node == "n"


ODD = {
    "two in a namespace": (
        [quota("a", 5, name="new", created="2026-02-01T00:00:00Z"), quota("a", 1, name="old")],
        "ElasticQuota a/new: namespace a has several, and a/old is older; this one doesn't count",
        False,
    ),
    "min above max": (
        [quota("a", 3, 2)],
        "ElasticQuota a/quota: min of nvidia.com/gpu is 3, which is above its max, 2: its pods never get so much",
        True,
    ),
    "negative": (
        [quota("a", -3)],
        "ElasticQuota a/quota: spec.min.nvidia.com/gpu is -3, expected 0 or more; it doesn't count",
        True,
    ),
    "not a quantity": (
        [quota("a", "many")],
        f"ElasticQuota a/quota: spec is invalid: {InvalidQuantity('many')}; it doesn't count",
        True,
    ),
    "not a mapping": (
        [elastic_quota("a", min=[1])],
        "ElasticQuota a/quota: spec is invalid: Expected `object | null`, got `array` - at `$.min`; it doesn't count",
        True,
    ),
}


@cases("quotas, line, fits", ODD)
def test_an_odd_quota_is_told_once_and_costs_itself_only(quotas, line, fits, tmp_path, caplog):
    with caplog.at_level(logging.WARNING, "bayplan.capacityscheduling"):
        made = cluster(tmp_path, *quotas)
        decision = made.decide(gpus("new", "a", 2))
    assert [record.getMessage() for record in caplog.records] == [line]
    assert (decision.node == "n") is fits


def test_what_is_rejected_is_explained(tmp_path):
    made = cluster(tmp_path, quota("a", 1, 2), quota("b", 3), gpus("there", "a", 2, node="n"))
    assert plugin_of(made).explain(None, gpus("new", "a", 3), None).text == (
        "with the pod, nvidia.com/gpu: 5 of at most 2 in namespace a; nvidia.com/gpu: 5 of 4 that the quotas guarantee "
        "together"
    )


@pytest.fixture
def plugin():
    made = make_cluster((ELASTIC_QUOTAS, quota("a", 1)), (ELASTIC_QUOTAS, quota("b", 1)))
    return CapacityScheduling(OfflineHandle(made.state))


@pytest.mark.parametrize(("namespace", "hint"), [("a", Hint.QUEUE), ("b", Hint.QUEUE), ("free", Hint.SKIP)])
def test_the_end_of_a_pod_with_a_quota_helps(plugin, namespace, hint):
    assert plugin._after_pod_ended(pod("new", "a"), pod("gone", namespace, node="n"), None) is hint


def test_only_another_spec_of_a_quota_helps(plugin):
    waiting, before = pod("new", "a"), quota("b", 1)
    assert plugin._after_quota_changed(waiting, before, quota("b", 2)) is Hint.QUEUE
    assert plugin._after_quota_changed(waiting, before, before | {"status": {"used": {}}}) is Hint.SKIP
    assert plugin._after_quota_changed(pod("new", "free"), None, quota("free", 1)) is Hint.QUEUE
    assert plugin._after_quota_changed(pod("new", "free"), None, quota("a", 1)) is Hint.SKIP


class Client:
    """Keeps what is patched; some names fail."""

    def __init__(self, failing=()):
        self.patched, self.failing = [], failing

    async def patch(self, kind, name, changes, namespace, subresource):
        if name in self.failing:
            raise ConnectionError("refused")
        self.patched.append((kind.plural, namespace, name, changes, subresource))


def statuses(client, *quotas, pods=()):
    made = make_cluster(*((ELASTIC_QUOTAS, each) for each in quotas), *pods)
    handle = OfflineHandle(made.state)
    handle.client = client
    stores = made.state.objects
    return QuotaStatuses(handle, stores[POD], stores[kind_of(ELASTIC_QUOTAS)])


def test_the_status_says_what_running_pods_use():
    running = pod("p", "a", [2**20, 500, 1], node="n")
    starting = pod("q", "a", [2**20], node="n", status={"phase": "Pending"})
    client = Client()
    found = statuses(client, elastic_quota("a", min=listed([2**30, 0, 1]), max={"pods": "5"}), pods=[running, starting])
    assert asyncio.run(found.catch_up()) == []
    used = {"memory": "1Mi", GPU: "1", "pods": "0", "cpu": "500m"}
    assert client.patched == [("elasticquotas", "a", "quota", {"status": {"used": used}}, "status")]


def test_an_equal_status_is_not_written_again():
    client = Client()
    found = statuses(client, quota("a", 1) | {"status": {"used": {GPU: "0"}}})
    assert asyncio.run(found.catch_up()) == []
    assert client.patched == []


def test_a_status_that_cannot_be_written_costs_no_other():
    client = Client(failing=("bad",))
    found = statuses(client, quota("a", 1, name="bad"), quota("b", 1))
    assert asyncio.run(found.catch_up()) == ["a"]
    assert [namespace for _, namespace, *_ in client.patched] == ["b"]


def test_the_contract_holds():
    quotas = [quota("default", 2, 3), quota("b", 1)]
    check_contract(
        CapacityScheduling,
        objects=[make_node("n", resources={GPU: "5"}), *((ELASTIC_QUOTAS, each) for each in quotas)],
        pods=[gpus("p", "default", 4), gpus("q", "default")],
        examples=30,
    )
