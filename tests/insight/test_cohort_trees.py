"""Quotas of Kueue in trees of cohorts: borrowing and lending limits at each level, fair sharing, cycles."""

import random

import pytest
from test_kueue import PENDING, VERSIONS, cluster_queue, job, local, obj, reasons, workload

from bayplan.answers.insight.questions.quotas_of_kueue import quota_tree

CPU = ("default", "cpu")
ASKED = "clusterqueue all, flavor default: 8 cpu requested, 2 of the quota of 2 free"
NOBODY = (
    "Kueue preempts no workload for it: clusterqueue all has withinClusterQueue: Never, reclaimWithinCohort: Never, "
    "borrowWithinCohort: Never"
)
OTHERS = "in its cohort, greedy borrows 2; not lent: 5 of clusterqueue theirs"


def cohort(name, version, parent="", share=None, **quota):
    resources = [{"name": "cpu", "nominalQuota": "0", **quota}]
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": resources}]}]
    spec = {"resourceGroups": groups, **({"parentName": parent} if parent else {})}
    status = {} if share is None else {"fairSharing": {"weightedShare": share}}
    return obj("Cohort", name, version, spec, status, namespace="")


def lack(version, *objects, cpu="4"):
    found = reasons(job("one", cpu=cpu), workload("one", version, cpu=cpu), local(version), *objects)
    return [each for each in found if not each.startswith(("workload ", "if it were"))]


@pytest.mark.parametrize("version", VERSIONS)
def test_quota_of_other_branches_and_of_cohorts_can_be_borrowed(version):
    tree = [
        cluster_queue("all", version, "2", cohort="ml"),
        cohort("ml", version, "company"),
        cluster_queue("theirs", version, "3", total="1", cohort="web"),
        cohort("web", version, "company"),
        cohort("company", version, nominalQuota="1"),
    ]
    assert lack(version, *tree, cpu="2500m") == []
    assert lack(version, *tree) == [
        f"{ASKED} and 3 to borrow in cohort ml: 3 more needed",
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_limit_of_a_cohort_above_is_named(version):
    assert lack(
        version,
        cluster_queue("all", version, "2", cohort="ml"),
        cohort("ml", version, "company", borrowingLimit="1"),
        cluster_queue("theirs", version, "9", cohort="company"),
        cohort("company", version),
    ) == [
        f"{ASKED} and 1 to borrow in cohort ml: 5 more needed; the borrowingLimit of cohort ml lets it have no more",
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_others_do_not_lend_and_who_borrows_in_another_branch_is_named(version):
    assert lack(
        version,
        cluster_queue("all", version, "2", cohort="ml"),
        cohort("ml", version, "company"),
        cluster_queue("theirs", version, "9", cohort="web", lendingLimit="4"),
        cluster_queue("greedy", version, "1", total="3", cohort="web"),
        cohort("web", version, "company"),
    ) == [
        f"{ASKED} and 2 to borrow in cohort ml: 4 more needed; {OTHERS}",
        NOBODY,
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_fair_sharing_says_who_comes_first(version):
    def queue(name, cohort, share, **fields):
        made = cluster_queue(name, version, "9", cohort=cohort, **fields)
        made["status"]["fairSharing"] = {"weightedShare": share}
        return made

    other = workload("other", version, conditions=[PENDING])
    other["spec"]["queueName"] = "their-local"
    elsewhere = obj("LocalQueue", "their-local", version, {"clusterQueue": "theirs"})
    assert lack(
        version,
        other,
        elsewhere,
        queue("all", "ml", 300),
        queue("idle", "ml", 0),
        cohort("ml", version, "company", share=200),
        queue("theirs", "web", 50),
        cohort("web", version, "company", share=100),
    ) == ["by fair sharing, workloads of cohort web (100) come first: cohort ml has a share of 200"]


def test_cohorts_in_a_circle_are_one_line():
    version = VERSIONS[0]
    assert lack(
        version,
        cluster_queue("all", version, "2", cohort="a"),
        cohort("a", version, "b"),
        cohort("b", version, "a"),
    ) == ["Kueue admits nothing in clusterqueue all: cohort a > b > a is a cycle"]


def test_very_deep_trees_are_one_line():
    version = VERSIONS[0]
    deep = [cohort(f"c{number}", version, f"c{number + 1}") for number in range(3000)]
    (line,) = lack(version, cluster_queue("all", version, "2", cohort="c0"), *deep)
    assert line.startswith("an object of Kueue can't be read")


@pytest.mark.parametrize("seed", range(60))
def test_what_is_available_is_the_most_that_no_limit_forbids(seed):
    """No node may use more than its quota and what it may borrow, and a root no more than its quota."""
    rng, version = random.Random(seed), VERSIONS[seed % 2]

    def limits():
        return {name: str(rng.randint(0, 6)) for name in ("borrowingLimit", "lendingLimit") if rng.random() < 0.4}

    names = [f"c{number}" for number in range(rng.randint(1, 5))]
    cohorts = [
        cohort(name, version, rng.choice(names[number + 1 :] or [""]), nominalQuota=str(rng.randint(0, 5)), **limits())
        for number, name in enumerate(names)
    ]
    queues = [
        cluster_queue(
            f"q{number}", version, str(rng.randint(0, 8)), str(rng.randint(0, 9)), cohort=rng.choice(names), **limits()
        )
        for number in range(rng.randint(1, 6))
    ]
    node = quota_tree(queues, cohorts, "q0")
    available = node.available(CPU)[0]

    def allowed(more):
        used = node.document["status"]["flavorsReservation"][0]["resources"][0]
        before, used["total"] = used["total"], str(int(used["total"]) + more)
        try:
            return all(_within(each) for each in _path(node))
        finally:
            used["total"] = before

    if allowed(0):
        assert available == max(more for more in range(40) if allowed(more)) * 10**9


def _path(node):
    while node is not None:
        yield node
        node = node.parent


def _within(node):
    quota = node.document["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]
    above = node.usage(CPU) - node.subtree(CPU)
    if node.parent is None:
        return above <= 0
    return "borrowingLimit" not in quota or above <= int(quota["borrowingLimit"]) * 10**9
