from itertools import pairwise
from typing import Any

import pytest

from bayplan.core.api.kinds import JOB, POD
from bayplan.core.expansion import job_indexes, pods
from bayplan.core.expansion.job_pods import TRACKING_FINALIZER
from bayplan_devcluster.controllers.job_status import finished_condition
from bayplan_devcluster.kubelet import EXIT_CODE, RUN_SECONDS


def job(
    *, run: float = 2, exit_code: int = 0, restart: str = "Never", name: str = "work", **spec: Any
) -> dict[str, Any]:
    annotations = {RUN_SECONDS: str(run), EXIT_CODE: str(exit_code)}
    template = {
        "metadata": {"annotations": annotations},
        "spec": {
            "restartPolicy": restart,
            "containers": [{"name": "c", "image": "i"}],
            "terminationGracePeriodSeconds": 1,
        },
    }
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"template": template, **spec}}


def outcome(world, name: str = "work") -> tuple[str, str] | None:
    found = world.one(JOB, name)
    final = finished_condition(found) if found is not None else None
    return (final.type, final.reason) if final is not None else None


def counts(world) -> tuple[int, int, int]:
    status = world.one(JOB, "work").status
    return (status.active or 0, status.succeeded or 0, status.failed or 0)


async def test_job_runs_its_pod_to_completion(world):
    await world.create(JOB, job())
    await world.until(lambda: outcome(world) == ("Complete", "CompletionsReached"), step=0.5)
    assert counts(world) == (0, 1, 0)
    status = world.one(JOB, "work").status
    assert status.startTime <= status.completionTime
    assert [one.type for one in status.conditions] == ["SuccessCriteriaMet", "Complete"]
    [pod] = world.all(POD)
    uid = world.one(JOB, "work").metadata.uid
    assert pod.metadata.name.startswith("work-")
    assert {
        "batch.kubernetes.io/job-name": "work",
        "job-name": "work",
        "batch.kubernetes.io/controller-uid": uid,
        "controller-uid": uid,
    }.items() <= pod.metadata.labels.items()
    assert [(one.kind, one.name) for one in pod.metadata.ownerReferences] == [("Job", "work")]
    assert not pod.metadata.finalizers
    assert pods.phase(pod) == "Succeeded"


async def test_parallelism_limits_concurrent_pods(world):
    await world.create(JOB, job(completions=5, parallelism=2))
    seen = []

    def done() -> bool:
        seen.append(sum(pods.is_active(one) for one in world.all(POD)))
        return outcome(world) is not None

    await world.until(done, step=0.5)
    assert max(seen) == 2
    assert counts(world) == (0, 5, 0)
    assert len(world.all(POD)) == 5


async def test_job_without_completions_ends_after_its_first_success(world):
    document = job(parallelism=3)
    await world.create(JOB, document | {"spec": document["spec"] | {"completions": None}})
    await world.until(lambda: outcome(world) == ("Complete", "CompletionsReached"), step=0.5)
    assert counts(world)[1] == 3


async def test_indexed_job_runs_each_index_once(world):
    await world.create(JOB, job(completions=4, parallelism=4, completionMode="Indexed"))
    await world.until(lambda: outcome(world) is not None, step=0.5)
    assert world.one(JOB, "work").status.completedIndexes == "0-3"
    assert sorted(one.spec.hostname for one in world.all(POD)) == [f"work-{index}" for index in range(4)]
    for pod in world.all(POD):
        index = str(job_indexes.completion_index(pod))
        assert pod.metadata.labels[job_indexes.COMPLETION_INDEX] == index
        assert pod.metadata.name.startswith(f"work-{index}-")
        assert [one.name for one in pod.spec.containers[0].env] == ["JOB_COMPLETION_INDEX"]


async def test_job_fails_at_the_backoff_limit(world):
    await world.create(JOB, job(exit_code=3, backoffLimit=2))
    await world.until(lambda: outcome(world) == ("Failed", "BackoffLimitExceeded"), step=2)
    assert counts(world) == (0, 0, 3)
    status = world.one(JOB, "work").status
    assert [one.type for one in status.conditions] == ["FailureTarget", "Failed"]
    assert status.completionTime is None


async def test_backoff_grows_with_each_failure(world):
    await world.create(JOB, job(run=0, exit_code=1, backoffLimit=2))
    await world.until(lambda: outcome(world) is not None, step=1)
    made = sorted(one.metadata.creationTimestamp for one in world.all(POD))
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(made)]
    assert gaps[0] >= 10
    assert gaps[1] >= 20


async def test_container_restarts_count_towards_the_backoff_limit(world):
    await world.create(JOB, job(exit_code=1, restart="OnFailure", backoffLimit=2))
    await world.until(lambda: outcome(world) == ("Failed", "BackoffLimitExceeded"), step=1)
    assert len({one.metadata.uid for one in world.all(POD)}) <= 1


async def test_job_beyond_its_deadline_fails_and_loses_its_pods(world):
    await world.create(JOB, job(run=1000, activeDeadlineSeconds=20, completions=2, parallelism=2))
    await world.until(lambda: outcome(world) == ("Failed", "DeadlineExceeded"), step=1)
    await world.until(lambda: not world.all(POD), step=1)
    assert counts(world) == (0, 0, 2)


async def test_suspended_job_has_no_pods_until_it_is_resumed(world):
    await world.create(JOB, job(run=30))
    await world.until(lambda: counts(world)[0] == 1, step=0.5)
    await world.patch(JOB, "work", {"spec": {"suspend": True}})
    await world.until(lambda: counts(world)[0] == 0 and not world.all(POD), step=0.5)
    assert world.one(JOB, "work").status.startTime is None
    await world.patch(JOB, "work", {"spec": {"suspend": False}})
    await world.until(lambda: outcome(world) == ("Complete", "CompletionsReached"), step=2)
    assert counts(world) == (0, 1, 0)
    suspended = [one for one in world.one(JOB, "work").status.conditions if one.type == "Suspended"]
    assert [(one.status, one.reason) for one in suspended] == [("False", "JobResumed")]


async def test_deleted_pod_counts_as_failed_and_is_replaced(world):
    await world.create(JOB, job(run=60))
    await world.until(lambda: world.all(POD) and pods.phase(world.all(POD)[0]) == "Running", step=0.5)
    await world.client.delete(POD, world.all(POD)[0].metadata.name, "default")
    await world.until(lambda: outcome(world) is not None, step=2)
    assert counts(world) == (0, 1, 1)


async def test_job_with_a_time_to_live_is_deleted_with_its_pods(world):
    await world.create(JOB, job(ttlSecondsAfterFinished=60))
    await world.until(lambda: outcome(world) is not None, step=0.5)
    await world.settle(30, step=5)
    assert world.one(JOB, "work") is not None
    await world.until(lambda: not world.all(JOB) + world.all(POD), step=5)


async def test_deleting_a_job_removes_the_finalizers_of_its_pods(world):
    await world.create(JOB, job(run=1000, parallelism=2, completions=2))
    await world.until(lambda: counts(world)[0] == 2, step=0.5)
    assert all(TRACKING_FINALIZER in one.metadata.finalizers for one in world.all(POD))
    await world.client.delete(JOB, "work", "default", propagation_policy="Background")
    await world.until(lambda: not world.all(JOB) + world.all(POD), step=0.5)


@pytest.mark.parametrize(
    ("indexes", "text"), [({0, 1, 2, 3}, "0-3"), ({1, 3, 4, 5, 7}, "1,3-5,7"), ({2, 3}, "2,3"), (set(), None)]
)
def test_format_of_completed_indexes(indexes, text):
    assert job_indexes.text(indexes) == text
    assert job_indexes.parse(text) == indexes
