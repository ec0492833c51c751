"""The tables of upstream's tests of CapacityScheduling."""

from quota_clusters import GPU, NAMES, elastic_quota, listed, plugin_of, pod, quota_cluster
from tests.support.tables import cases
from tests.support.vectors import vectors

from bayplan.core.cluster.objects import ObjectStore
from bayplan.plugin import Code, CycleState, Diagnosis, Status
from bayplan.testing import make_node
from bayplan_plugins.capacity_scheduling.quotas import ElasticQuotas
from bayplan_plugins.capacity_scheduling.usage import Usage, plus


def table(*names):
    """The cases of some tables."""
    found = {name: vectors("capacity_scheduling", name) for name in names}
    return {f"{name} {case}": values for name, cases in found.items() for case, values in cases.items()}


def amounts(values):
    return {name: value for name, value in zip(NAMES, values, strict=False) if value}


def quotas_of(case):
    """The quotas of a case, and pods that use what they say is used."""
    for namespace, each in case["quotas"].items():
        yield elastic_quota(namespace, **{bound: listed(each[bound]) for bound in ("min", "max")})
        if "used" in each:
            yield pod("user", namespace, each["used"], node="far")


@cases("case", table("TestPreFilter"))
def test_pre_filter(case, tmp_path):
    cluster = quota_cluster(tmp_path, make_node("far"), *quotas_of(case))
    pods = [pod(f"p{number}", each["namespace"], each["amounts"]) for number, each in enumerate(case["pods"])]
    found = [plugin_of(cluster).pre_filter(CycleState(), each, cluster.state.nodes) for each in pods]
    names = {None: "success", Code.UNSCHEDULABLE: "unschedulable"}
    assert [names[each and each.code] for each in found] == case["codes"]


def decided(case, folder):
    """What is decided about an important pod that needs 50 bytes, on a node with 150 that are used."""
    others = [
        pod(each["name"], each["namespace"], [50], priority=each.get("priority", 100), node="node-a")
        for each in case["pods"]
    ]
    cluster = quota_cluster(folder, make_node("node-a", memory="150"), *quotas_of(case), *others)
    return cluster.decide(pod("new", "ns1", [50], priority=1000))


@cases("case", table("TestPostFilter"))
def test_post_filter(case, tmp_path):
    assert decided(case, tmp_path).nominated_node == case["nominated"]


@cases("case", table("TestDryRunPreemption"))
def test_dry_run(case, tmp_path):
    assert [victim.name for victim in decided(case, tmp_path).victims] == case["victims"]


@cases("case", table("TestPodEligibleToPreemptOthers"))
def test_eligibility(case, tmp_path):
    there = pod("there", "ns1", [50, 10], priority=100, node="node-a")
    if "terminating" in case:
        there = pod("leaving", case["terminating"], priority=100, node="node-a", terminating=True)
    cluster = quota_cluster(tmp_path, make_node("node-a"), make_node("far"), *quotas_of(case), there)
    spec = {"preemptionPolicy": case["policy"]} if "policy" in case else {}
    new = pod("new", "ns1", priority=1000, spec=spec, status={"nominatedNodeName": "node-a"})
    unresolvable = Status.unresolvable("taints")
    diagnosis = Diagnosis(1, absent=unresolvable if case.get("unresolvable") else Status.unschedulable("full"))
    why = plugin_of(cluster)._no_preemption(CycleState(), new, diagnosis)
    assert (why == "") is case["eligible"]


class Counting:
    """Quotas and usage of stores."""

    def __init__(self, *quotas):
        self.quota_store, self.pods = ObjectStore(), ObjectStore()
        self.quotas = ElasticQuotas(self.quota_store)
        self.usage = Usage(self.pods, self.quotas)
        for each in quotas:
            self.quota_store.set(f"{each.metadata.namespace}/{each.metadata.name}", each)

    def used(self, namespace="ns1"):
        return {resource: amount for resource, amount in self.usage.of(namespace).items() if amount}


@cases("case", table("TestReserve"))
def test_reserve(case):
    counting = Counting(elastic_quota("ns1", min=listed([1000]), max=listed([2000])))
    for name, values in case["before"].items():
        counting.usage.reserve(pod(name, "ns1", values))
    for name, namespace, values, then in case["reserve"]:
        counting.usage.reserve(pod(name, namespace, values))
        assert counting.used() == amounts(then)


@cases("case", table("TestUnreserve"))
def test_unreserve(case):
    counting = Counting(elastic_quota("ns1", min=listed([1000]), max=listed([2000])))
    for name, values in case["before"].items():
        counting.usage.reserve(pod(name, "ns1", values))
    for name, namespace, values, then in case["unreserve"]:
        counting.usage.release(pod(name, namespace, values).uid)
        assert counting.used() == amounts(then)


@cases("case", table("TestAddElasticQuota", "TestNewElasticQuotaInfo"))
def test_a_quota_is_read(case):
    spec = {bound: case[bound] for bound in ("min", "max") if bound in case}
    quota = Counting(elastic_quota("ns1", **spec)).quotas.of("ns1")
    assert {"min": quota.min, "max": quota.max} == {bound: amounts(each) for bound, each in case["read"].items()}


@cases("case", table("TestUpdateElasticQuota"))
def test_a_quota_changes(case):
    counting = Counting(elastic_quota("ns1", **case["old"]))
    counting.quota_store.set("ns1/quota", elastic_quota("ns1", **case["new"]))
    quota = counting.quotas.of("ns1")
    assert {"min": quota.min, "max": quota.max} == {bound: amounts(each) for bound, each in case["read"].items()}


@cases("case", table("TestDeleteElasticQuota"))
def test_a_quota_is_deleted(case):
    counting = Counting(elastic_quota("ns1", **case))
    counting.quota_store.remove("ns1/quota")
    assert (counting.quotas.of("ns1"), counting.quotas.total) == (None, {})


@cases("case", table("TestAddPod", "TestUpdatePod", "TestDeletePod"))
def test_pods_come_and_go(case):
    counting = Counting(elastic_quota("ns1", min=listed([100, 10]), max=listed([1000, 100])))
    for name, values, *phase in case["pods"]:
        if phase == ["Failed"]:  # the store of pods loses terminated ones
            counting.pods.remove(f"ns1/{name}")
        else:
            counting.pods.set(f"ns1/{name}", pod(name, "ns1", values, node="node-a"))
    for name in case.get("deleted", ()):
        counting.pods.remove(f"ns1/{name}")
    assert counting.used() == amounts(case["used"])


ALL = elastic_quota("other", min={**listed([1, 1, 1, 1])})
"""It makes all resources be shared out."""


@cases("case", table("TestUsedOverMinWith", "TestUsedOverMin"))
def test_over_min(case):
    quotas = Counting(ALL, elastic_quota("ns1", min=listed(case["min"]))).quotas
    assert quotas.over_min(quotas.of("ns1"), plus(amounts(case["used"]), amounts(case["with"]))) is case["over"]


@cases("case", table("TestUsedOverMaxWith"))
def test_over_max(case):
    quota = Counting(elastic_quota("ns1", max=listed(case["max"]))).quotas.of("ns1")
    assert quota.over_max(plus(amounts(case["used"]), amounts(case["with"]))) is case["over"]


@cases("case", table("TestReserveResource", "TestUnReserveResource"))
def test_sums(case):
    counting = Counting()
    counting.usage.reserve(pod("before", "ns1", case["before"]))
    pods = [pod(f"p{number}", "ns1", values) for number, values in enumerate(case["pods"])]
    for each in pods:
        counting.usage.reserve(each)
    if case["used"] == case["before"]:
        for each in pods:
            counting.usage.release(each.uid)
    assert counting.used() == amounts(case["used"])
    assert GPU in NAMES
