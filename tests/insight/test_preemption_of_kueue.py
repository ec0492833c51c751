"""Whom Kueue would preempt for a workload that waits for quota, in explain."""

import gzip
import json
from pathlib import Path

import pytest
from test_cohort_trees import cohort
from test_kueue import VERSIONS, cluster_queue, job, local, reasons, workload

from bayplan.answers.insight.questions.kueue import requested
from bayplan.answers.insight.questions.kueue_objects import KueueObjects
from bayplan.answers.insight.questions.preemption_of_kueue import QuotaPolicy, QuotaPreemption
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kueue import PRIORITY_BOOST

RECLAIMS = {"reclaimWithinCohort": "Any"}


def queue(name, version, nominal, total, preemption=None, **more):
    made = cluster_queue(name, version, nominal, total=total, **more)
    return {**made, "spec": {**made["spec"], "preemption": preemption or {}}}


def holder(name, version, queue, cpu, *, priority=0, reserved="2026-01-01T00:00:00Z", **more):
    """A workload that holds so much cpu of a ClusterQueue."""
    made = workload(name, version, priority=priority, **more)
    admission = {
        "clusterQueue": queue,
        "podSetAssignments": [{"name": "main", "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": cpu}}],
    }
    reserved = {"type": "QuotaReserved", "status": "True", "lastTransitionTime": reserved}
    made["metadata"]["uid"] = f"uid-{name}"
    return {**made, "status": {**made["status"], "conditions": [reserved], "admission": admission}}


def preempted(version, *objects, cpu="1", priority=0, created="2026-01-01T00:00:00Z"):
    """What is said of preemption for a job of two pods in the ClusterQueue `all`."""
    own = workload("one", version, cpu=cpu, priority=priority, created=created)
    found = reasons(job("one", cpu=cpu), own, local(version), *objects)
    lines = [each for each in found if "preempt" in each]
    assert len(lines) <= 1
    return lines[0] if lines else None


def said(*victims):
    return f"when it has its turn, Kueue preempts {', '.join(victims)} for it"


def victim(name, queue="theirs", why="reclaimWithinCohort"):
    return f"workload team/job-{name} of clusterqueue {queue} ({why})"


@pytest.mark.parametrize("version", VERSIONS)
def test_quota_is_reclaimed_from_the_borrower_that_reserved_it_last(version):
    assert preempted(
        version,
        queue("all", version, "4", "2", RECLAIMS, cohort="ours"),
        queue("theirs", version, "4", "6", cohort="ours"),
        holder("old", version, "theirs", "2", reserved="2026-01-01T00:00:00Z"),
        holder("new", version, "theirs", "2", reserved="2026-01-03T00:00:00Z"),
        holder("high", version, "theirs", "2", priority=5, reserved="2026-01-02T00:00:00Z"),
    ) == said(victim("new"))


@pytest.mark.parametrize(("boost", "first"), [("-1", "boosted"), ("2", "other"), ("+-3", "other"), ("high", "other")])
def test_the_boost_of_a_priority_counts_if_it_is_a_number(boost, first):
    version = VERSIONS[0]
    boosted = holder("boosted", version, "theirs", "3", reserved="2026-01-01T00:00:00Z")
    boosted["metadata"]["annotations"] = {PRIORITY_BOOST: boost}
    assert preempted(
        version,
        queue("all", version, "4", "2", RECLAIMS, cohort="ours"),
        queue("theirs", version, "4", "6", cohort="ours"),
        boosted,
        holder("other", version, "theirs", "3", reserved="2026-01-02T00:00:00Z"),
    ) == said(victim(first))


@pytest.mark.parametrize("version", VERSIONS)
def test_those_that_are_not_needed_are_put_back(version):
    assert preempted(
        version,
        queue("all", version, "4", "0", RECLAIMS, cohort="ours"),
        queue("theirs", version, "4", "8", cohort="ours"),
        holder("small", version, "theirs", "1", reserved="2026-01-04T00:00:00Z"),
        holder("large", version, "theirs", "7", reserved="2026-01-03T00:00:00Z"),
    ) == said(victim("large"))


@pytest.mark.parametrize("version", VERSIONS)
def test_only_what_is_borrowed_is_reclaimed(version):
    objects = (
        queue("all", version, "4", "4", {**RECLAIMS, "withinClusterQueue": "LowerPriority"}, cohort="ours"),
        queue("theirs", version, "4", "4", cohort="ours"),
        holder("theirs", version, "theirs", "4"),
    )
    assert preempted(version, *objects, holder("mine", version, "all", "4", priority=3)) == (
        "Kueue preempts no workload for it: those that clusterqueue all may preempt hold too little "
        "(withinClusterQueue: LowerPriority, reclaimWithinCohort: Any, borrowWithinCohort: Never)"
    )
    assert preempted(version, *objects, holder("mine", version, "all", "4", priority=-3)) == said(
        victim("mine", "all", "withinClusterQueue")
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_priority_decides_where_the_policy_says_so(version):
    def of(policy, **more):
        return preempted(
            version,
            queue("all", version, "2", "2", {"withinClusterQueue": policy}),
            holder("equal", version, "all", "2", created="2026-01-02T00:00:00Z"),
            **more,
        )

    nobody = "Kueue preempts no workload for it"
    assert of("LowerPriority").startswith(nobody)
    assert of("LowerPriority", priority=1) == said(victim("equal", "all", "withinClusterQueue"))
    assert of("LowerOrNewerEqualPriority") == said(victim("equal", "all", "withinClusterQueue"))
    assert of("LowerOrNewerEqualPriority", created="2026-01-03T00:00:00Z").startswith(nobody)
    assert of("Never") is None


@pytest.mark.parametrize("version", VERSIONS)
def test_a_workload_that_would_borrow_preempts_by_borrow_within_cohort(version):
    def of(borrowing, priority):
        return preempted(
            version,
            queue("all", version, "1", "0", {**RECLAIMS, "borrowWithinCohort": borrowing}, cohort="ours"),
            queue("theirs", version, "1", "2", cohort="ours"),
            holder("batch", version, "theirs", "2", priority=1),
            priority=priority,
        )

    lower = {"policy": "LowerPriority"}
    assert of(lower, 2) == said(victim("batch", why="borrowWithinCohort"))
    assert of(lower, 1).startswith("Kueue preempts no workload for it")
    assert of({**lower, "maxPriorityThreshold": 0}, 2).startswith("Kueue preempts no workload for it")
    assert of({}, 2).startswith("Kueue preempts no workload for it")


@pytest.mark.parametrize("version", VERSIONS)
def test_fair_sharing_is_said_not_to_be_computed(version):
    other = queue("theirs", version, "4", "6", cohort="ours")
    other["status"]["fairSharing"] = {"weightedShare": 100}
    assert (
        preempted(
            version,
            queue("all", version, "4", "2", RECLAIMS, cohort="ours"),
            other,
            cohort("ours", version),
            holder("new", version, "theirs", "6"),
        )
        == "which workloads Kueue would preempt for it by fair sharing is not computed"
    )


RECORDED = Path(__file__).parents[1] / "data" / "kueue" / "preempted.json.gz"
"""Random trees of cohorts with workloads, and whom Kueue's own code preempts for one that waits, in its order."""
REASONS = {
    "InClusterQueue": QuotaPolicy.PRIORITY,
    "InCohortReclamation": QuotaPolicy.RECLAIMED,
    "InCohortReclaimWhileBorrowing": QuotaPolicy.BORROWING,
}


def test_the_victims_are_those_of_kueue():
    cases = json.loads(gzip.decompress(RECORDED.read_bytes()))
    assert {reason for case in cases for _, reason in case["preempted"]} == set(REASONS)
    for number, case in enumerate(cases):
        objects = KueueObjects(Snapshot.of([*case["cohorts"], *case["queues"], *case["admitted"], case["incoming"]]))
        queue, wanted = objects.quota_tree(case["target"]), requested(case["incoming"]["spec"])
        found = QuotaPreemption(objects, queue, case["incoming"], wanted).victims()
        expected = [(f"team/{name}", REASONS[reason]) for name, reason in case["preempted"]]
        assert [(each.workload, each.why) for each in found] == expected, number
        assert not any(each.taken.total() for each in queue.root().all())
